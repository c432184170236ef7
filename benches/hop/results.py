"""Medians, ratios and tables of what was measured."""

import statistics


def median(values):
    values = [value for value in values if isinstance(value, (int, float))]
    return statistics.median(values) if values else None


def summary(rounds):
    """Rounds of `{scenario: {target: figures}}` → the same with medians, and ratios to the yardsticks."""
    result = {}
    for scenario in {name: None for one in rounds for name in one}:
        rows = [one[scenario] for one in rounds if scenario in one]
        result[scenario] = {}
        for target in {name: None for row in rows for name in row}:
            mine = [row[target] for row in rows if target in row]
            figures = {key: median([one[key] for one in mine]) for key in mine[0] if key != "by_call"}
            if "by_call" in mine[0]:
                figures["by_call"] = mine[-1]["by_call"]
            for key in list(figures):
                for to in ("direct", "nginx", "relay-bare"):
                    pairs = [(row[target].get(key), row[to].get(key)) for row in rows if target in row and to in row]
                    ratio = median([a / b for a, b in pairs if isinstance(a, (int, float)) and b])
                    if ratio is not None and key not in ("tokens", "broken", "streams"):
                        figures[f"{key}/{to}"] = ratio
            added = [
                (row[target]["transit_p50"] - row["direct"]["transit_p50"]) for row in rows
                if target in row and "direct" in row and row[target].get("transit_p50")
            ]
            if added:
                figures["added_p50"] = median(added)
            result[scenario][target] = figures
    return result


COLUMNS = {
    "lone": ["transit_p50", "transit_p99", "added_p50", "ttft_p50", "cpu_us", "slip_p99"],
    "call": ["transit_p50", "transit_p99", "first_transit_p50", "cpu_us"],
    "flood": ["tokens_per_second", "tokens_per_second/direct", "cpu_us"],
    "held": ["kib_per_stream", "idle_mib", "held_mib", "open_us", "cpu_us", "streams"],
    "syscalls": ["syscalls"],
}
DEFAULT = ["cpu_us", "transit_p50", "transit_p99", "ttft_p50", "tokens_per_second", "slip_p99"]


def table(result):
    lines = []
    for scenario, rows in result.items():
        columns = COLUMNS.get(scenario.split("-")[0], DEFAULT)
        main = "syscalls" if "syscalls" in columns else "kib_per_stream" if "kib_per_stream" in columns else "cpu_us"
        shown = columns + [f"{main}/nginx", f"{main}/relay-bare"]
        if "transit_p50" in columns:
            shown += ["transit_p50/relay-bare", "transit_p99/nginx"]
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
