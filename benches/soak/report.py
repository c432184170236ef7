"""The rules of a run, and its report."""

import growth
from configuration import BOUNDS

# Minimum length of the judged part of a run, in seconds. In a shorter one, the means of batches would depend on each
# other: in ten minutes, one flat run in seven would seem to grow.
SETTLED = 30 * 60
# Values of a sample that are judged, in KiB.
JUDGED = {"RSS": lambda one: one["rss_kib"], "heap": lambda one: one["memory"].get("process_heap", 0) / 1024}


def memory(samples):
    """Returns the growth of memory (see `growth.judged`) in KiB."""
    return {name: growth.judged(samples, value) for name, value in JUDGED.items()}


def broken_memory(samples):
    rules = []
    for name, found in memory(samples).items():
        if found and found["seconds"] >= SETTLED and found["growth"] > found["error"]:
            rules.append(f"{name} grew by {found['growth']:.0f} KiB ± {found['error']:.0f} in {found['seconds']} s")
    for kind, bound in BOUNDS.items():
        most = max((one["memory"].get(kind, 0) for one in samples), default=0)
        if most > bound:
            rules.append(f"{kind} took {most} bytes, {bound} are its bound")
    return rules


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
    rules += broken_memory(load)
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


def memory_table(samples, end):
    """The heap by kind over time: a line for each minute, or for every n-th minute of a long run, and the end."""
    minutes, last = [], -1
    for one in samples:
        if one["seconds"] // 60 > last:
            last = one["seconds"] // 60
            minutes.append(one)
    rows = minutes[::max(1, len(minutes) // 60)] + [end]
    kinds = [kind for kind in BOUNDS if any(one["memory"].get(kind) for one in rows)]
    heads = ["minute", "RSS", "PSS", "heap", *kinds, "rest"]
    lines = ["memory in MiB, by kind (rest: heap that no kind counts)", "  ".join(heads)]
    for one in rows:
        held = one["memory"]
        heap = held.get("process_heap", 0)
        sizes = [one["rss_kib"] * 1024, one["pss_kib"] * 1024, heap, *(held.get(kind, 0) for kind in kinds)]
        sizes.append(heap - sum(held.get(kind, 0) for kind in BOUNDS))
        cells = [f"{one['seconds'] / 60:.0f}", *(f"{size / (1 << 20):.1f}" for size in sizes)]
        lines.append("  ".join(cell.rjust(len(head)) for cell, head in zip(cells, heads)))
    return lines


def growth_line(name, found):
    if found is None:
        return f"{name}: too few samples to judge"
    mib = {key: found[key] / 1024 for key in ("growth", "error", "mean", "most")}
    day = 86_400 / found["seconds"]
    rest = "" if found["seconds"] >= SETTLED else "; not judged in so short a run"
    most = (mib["growth"] + mib["error"]) * day
    return (f"{name}: {mib['growth']:+.2f} MiB ± {mib['error']:.2f} in {found['seconds']} s, from {found['since']} s on "
            f"(at most {most:.0f} MiB a day), mean {mib['mean']:.1f}, most {mib['most']:.1f}{rest}")


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
    lines += ["", *memory_table(samples, result["end"])]
    for name, found in memory_.items():
        lines.append(growth_line(name, found))
    kept = result["kept"]
    lines += ["", f"used, by the ledger: {kept['used']}"]
    lines.append(f"stored responses read again: {kept['read_again']:,}, lost: {kept['lost']}")
    lines += ["", "toolwire's own counts: " + ", ".join(f"{name} {value:.0f}" for name, value in result["counts"].items())]
    if accounts["wrong"]:
        lines += ["", "wrong:"] + [f"  {one}" for one in accounts["wrong"]]
    if result["broken_rules"]:
        lines += ["", "BROKEN:"] + [f"  {rule}" for rule in result["broken_rules"]]
    else:
        lines += ["", "all rules hold"]
    return "\n".join(lines)
