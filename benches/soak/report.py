"""The rules of a run, and its report."""

from watch import line_through

# Allowed growth of memory over the second half of a run: the larger of a share and an amount.
GROWTH_SHARE, GROWTH_KIB = 0.04, 6 << 10
# Minimum length of half a run, in seconds, for this rule. In a shorter run, stored responses and turns would still be
# accumulating.
SETTLED = 240


def memory(samples):
    """Returns the growth of memory in KiB, from a line fitted to the second half of the samples under load. Memory rises
    and falls with the faults, so the line has an error. The growth that is certain is two standard errors less.
    """
    half = samples[len(samples) // 2:]
    if len(half) < 3:
        return {"seconds": 0, "kib": 0, "error_kib": 0, "surely_kib": 0, "allowed_kib": GROWTH_KIB, "mean_kib": 0}
    slope, error = line_through([(one["seconds"], one["rss_kib"]) for one in half])
    mean = sum(one["rss_kib"] for one in half) / len(half)
    seconds = half[-1]["seconds"] - half[0]["seconds"]
    return {
        "seconds": round(seconds), "kib": round(slope * seconds), "error_kib": round(error * seconds),
        "surely_kib": round((slope - 2 * error) * seconds), "mean_kib": round(mean),
        "allowed_kib": round(max(GROWTH_KIB, GROWTH_SHARE * mean)),
    }


def broken_rules(accounts, start, load, end, ledgers, exit_status, others):
    """Returns the rules that the run has broken, in words."""
    rules = list(others)
    wrong = accounts.verdicts["wrong"]
    if wrong:
        rules.append(f"{wrong} responses are wrong")
    if not accounts.verdicts["complete"]:
        rules.append("no response is complete")
    for gauge in ("streams_in_flight", "waiting_requests"):
        if end[gauge]:
            rules.append(f"{gauge} is {end[gauge]:.0f} after the last response")
    if end["sockets"] > start["sockets"]:
        rules.append(f"{end['sockets']} sockets at the end, {start['sockets']} at the start")
    if end["other_descriptors"] > start["other_descriptors"]:
        rules.append(f"{end['other_descriptors']} other descriptors at the end, {start['other_descriptors']} at the start")
    growth = memory(load)
    if growth["seconds"] >= SETTLED and growth["surely_kib"] > growth["allowed_kib"]:
        rules.append(
            f"memory grew by {growth['surely_kib']} KiB or more in the second half, {growth['allowed_kib']} are allowed")
    if end["responses"] != accounts.sent:
        rules.append(f"toolwire counts {end['responses']:.0f} requests, the clients {accounts.sent}")
    for number, ledger in enumerate(ledgers):
        if ledger["open"]:
            rules.append(f"upstream {number} still writes {ledger['open']} answers")
        if ledger["untagged"]:
            rules.append(f"upstream {number} got {ledger['untagged']} requests that no client sent")
        if ledger["faulty"]:
            rules.append(f"upstream {number} got {ledger['faulty']} incomplete requests: {ledger['wrong']}")
    if exit_status != 0:
        rules.append(f"toolwire ended with {exit_status}")
    return rules


def text(result):
    lines = []
    accounts, memory_ = result["accounts"], result["memory"]
    lines.append(f"{result['minutes']:g} minutes, {result['streams']} streams, seed {result['seed']}, "
                 f"store {result['store']}, {result['version']}")
    lines.append("")
    lines.append(f"requests {accounts['requests']:,}, tokens read {accounts['tokens']:,}, calls {accounts['calls']:,}, "
                 f"at once at most {result['most_open']:,}")
    for name in ("verdicts", "reasons", "by_api", "by_model", "by_kind"):
        lines += ["", f"{name.replace('_', ' ')}:"]
        lines += [f"  {count:>9,}  {what}" for what, count in accounts[name].items()]
    lines += ["", f"faults from outside: {len(result['faults'])}"]
    lines += [f"  {one['seconds']:>8.1f} s  {one['what']}" for one in result["faults"]]
    lines += ["", "  seconds  RSS MiB  sockets  other  threads  open  in flight  waiting  CPU s"]
    samples = result["samples"]
    for one in samples[::max(1, len(samples) // 30)] + [result["end"]]:
        lines.append(
            f"{one['seconds']:>9.0f}{one['rss_kib'] / 1024:>9.1f}{one['sockets']:>9}{one['other_descriptors']:>7}"
            f"{one['threads']:>9}{one['clients_open']:>6}{one['streams_in_flight']:>11.0f}{one['waiting_requests']:>9.0f}"
            f"{one['cpu_seconds']:>7.1f}")
    lines += ["", f"memory in the second half: {memory_['kib']:+,} KiB by the line through it, "
              f"± {memory_['error_kib']:,} "
              f"({memory_['allowed_kib']:,} allowed{'' if memory_['seconds'] >= SETTLED else ', not judged in so short a run'}), mean {memory_['mean_kib']:,} KiB"]
    lines += ["", "toolwire's own counts: " + ", ".join(f"{name} {value:.0f}" for name, value in result["counts"].items())]
    if accounts["wrong"]:
        lines += ["", "wrong:"] + [f"  {one}" for one in accounts["wrong"]]
    if result["broken_rules"]:
        lines += ["", "BROKEN:"] + [f"  {rule}" for rule in result["broken_rules"]]
    else:
        lines += ["", "all rules hold"]
    return "\n".join(lines)
