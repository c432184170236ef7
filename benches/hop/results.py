"""Medians, ratios and tables of the measurements."""

import statistics


def median(values):
    values = [value for value in values if isinstance(value, (int, float))]
    return statistics.median(values) if values else None


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


# The latency added to that of a direct connection, for the first token and for each token: which figure, and of the direct
# connection its median.
ADDED = {
    "added_ttft": ("ttft_p50", "ttft_p50"),
    "added_ttft_p99": ("ttft_p99", "ttft_p50"),
    "added_p50": ("transit_p50", "transit_p50"),
    "added_p99": ("transit_p99", "transit_p50"),
}


def summary(rounds, tooled):
    """Converts rounds of `{scenario: {target: figures}}` to one such dictionary with medians, and ratios to the yardsticks.

    Targets in `tooled` declare tools in their requests, and are compared with yardsticks that forward the same requests.
    """
    result = {}
    for scenario in {name: None for one in rounds for name in one}:
        rows = [with_added(one[scenario], tooled) for one in rounds if scenario in one]
        # Converted requests, which the yardsticks cannot send, are compared with the same requests as they are.
        beside = [one.get(scenario.split("-")[0], {}) for one in rounds if scenario in one]
        beside = [known | row for known, row in zip(beside, rows)]
        result[scenario] = {}
        for target in {name: None for row in rows for name in row}:
            mine = [row[target] for row in rows if target in row]
            figures = {key: median([one.get(key) for one in mine]) for key in mine[0] if key != "by_call"}
            if "by_call" in mine[0]:
                figures["by_call"] = mine[-1]["by_call"]
            for key in list(figures):
                for to in ("direct", "nginx", "relay-bare", "relay-checked"):
                    pairs = [
                        (row[target].get(key), yardstick(known, to, target, tooled).get(key))
                        for row, known in zip(rows, beside) if target in row
                    ]
                    ratio = median([a / b for a, b in pairs if isinstance(a, (int, float)) and b])
                    if ratio is not None and key not in ("tokens", "broken", "streams"):
                        figures[f"{key}/{to}"] = ratio
            result[scenario][target] = figures
    return result


def yardstick(row, to, target, tooled):
    """Returns the figures of `to` for requests like the target's."""
    return target in tooled and row.get(f"{to}-tools") or row.get(to, {})


def with_added(row, tooled):
    """Returns the row, extended with the latency that each target adds to the direct connection."""
    result = {}
    for target, figures in row.items():
        direct = yardstick(row, "direct", target, tooled)
        added = {
            name: figures[key] - direct[to] for name, (key, to) in ADDED.items() if figures.get(key) and direct.get(to)
        }
        result[target] = figures | added
    return result


COLUMNS = {
    "lone": ["transit_p50", "transit_p99", "added_p50", "ttft_p50", "added_ttft", "cpu_us", "slip_p99"],
    "first": ["ttft_p50", "ttft_p99", "added_ttft", "cpu_us", "slip_p99"],
    "call": ["transit_p50", "transit_p99", "first_transit_p50", "cpu_us"],
    "flood": ["tokens_per_second", "tokens_per_second/direct", "cpu_us"],
    "held": ["kib_per_stream", "idle_mib", "held_mib", "open_us", "cpu_us", "streams"],
    "syscalls": ["syscalls"],
    "large": ["first_byte_p50", "first_byte_p99", "last_byte_p50", "last_byte_p99", "cpu_us"],
}
DEFAULT = ["cpu_us", "transit_p50", "transit_p99", "ttft_p50", "tokens_per_second", "slip_p99"]


def table(result):
    lines = []
    for scenario, rows in result.items():
        columns = COLUMNS.get(scenario.split("-")[0], DEFAULT)
        main = next((one for one in ("syscalls", "kib_per_stream", "first_byte_p50") if one in columns), "cpu_us")
        shown = columns + [f"{main}/nginx", f"{main}/relay-bare"]
        if main == "first_byte_p50":
            shown.append(f"{main}/relay-checked")
        if "transit_p50" in columns:
            shown += ["transit_p50/relay-bare", "transit_p99/nginx"]
        if "added_ttft" in columns:
            shown.append("added_ttft/relay-bare")
        lines += [f"### {scenario}", "", "| target | " + " | ".join(shown) + " |", "|---|" + "---:|" * len(shown)]
        for target, figures in rows.items():
            cells = [written(figures.get(column)) for column in shown]
            more = f" {figures['by_call']}" if "by_call" in figures else ""
            broken = f" ({figures['broken']:.0f} broken)" if figures.get("broken") else ""
            lines.append(f"| {target}{broken} | " + " | ".join(cells) + f" |{more}")
        lines.append("")
    return "\n".join(lines)


def written(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
