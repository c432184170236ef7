"""`run field`: the same work for toolwire and today's field, as one table.

Each part is a scenario of its own, so that the targets take turns often. A part measures the works that a target can do.
"""

import copy
import time
from typing import NamedTuple

import gateways
from measures import cost, memory, most_streams
from processes import free_port
from results import written
from targets import (
    CHAT_PATH, MESSAGES_PATH, MOCKED, PLAIN, WITH_TOOLS, Direct, Target, for_messages, nginx, relay, serving_both, tool,
)

TOOLS = [tool(f"tool_{number}", path="string", content="string", limit="integer") for number in range(8)]
CHAT = PLAIN | {"model": "c", "tools": TOOLS}
MESSAGES = for_messages(CHAT)


class Work(NamedTuple):
    title: str
    path: str
    body: dict
    mocked: tuple = ()


WORKS = {
    "chat": Work("chat → chat", CHAT_PATH, PLAIN),
    "call": Work("chat → chat, a tool call", CHAT_PATH, WITH_TOOLS, ("--answer", "call")),
    "convert": Work("chat → Messages, 8 tools", CHAT_PATH, CHAT),
    "messages": Work("Messages → Messages, 8 tools", MESSAGES_PATH, MESSAGES),
}


def doing(target, name):
    """Returns the running target with the requests of a work."""
    work, result = WORKS[name], copy.copy(target.up())
    # What toolwire converts to is compared with the same upstream asked directly.
    if isinstance(target, Direct) and name == "convert":
        work = WORKS["messages"]
    result.body, result.path, result.headers = work.body, work.path, target.headers_of(name)
    return result


def of_works(part, *mocked):
    """Returns a scenario that measures each work that a target can do."""
    def scenario(target):
        figures = {}
        for name, work in WORKS.items():
            if name in target.works:
                MOCKED.play(*mocked, *work.mocked)
                figures[f"{part.__name__}-{name}"] = part(doing(target, name))
        return figures
    return scenario


def token(target):
    return cost(target, streams=1, requests=4)


def request(target):
    """Short responses, one after the other: what the hop adds until the first token."""
    return cost(target, streams=1, requests=100 if target.most_streams < 10_000 else 300)


def load(target):
    """Short responses on 32 connections. What a core could do is computed from the CPU time of a request, since client and
    mock, which share the other core, are slower than the fast targets."""
    requests = 10 if target.most_streams < 10_000 else 200
    figures = cost(target, streams=32, requests=requests)
    if figures["cpu_us"]:
        figures["requests_per_core"] = 1e6 / (figures["cpu_us"] * figures["tokens"] / (32 * requests))
    return figures


def open_streams(target):
    """Memory with 50, 1,000 and 10,000 streams, or as many as open files allow."""
    if not target.command:
        return {}
    figures = {}
    most = most_streams(target)
    MOCKED.play("--tokens", "1000", "--pace", "2s")
    for streams in (50, 1_000, 10_000):
        if streams <= most or streams == 10_000 and most > 1_000:
            figures[f"open-{streams}"] = memory(target.fresh(), min(streams, most))
            target.down()
    return figures


def ready(target):
    """The time from the start of the process to the end of its first response, and the size of what is installed."""
    if not target.command:
        return {}
    MOCKED.play("--tokens", "1", "--pace", "none")
    target.down()
    target.port, begun = free_port(), time.monotonic()
    target.launch(**target.class_of_start)
    while not gateways.answers(target, whole=True):
        if time.monotonic() - begun > 120:
            return {}
        time.sleep(0.002)
    return {"ready": {"ready_ms": (time.monotonic() - begun) * 1e3, "disk_mb": target.size() / 1e6}}


# `run field` runs all of these.
PARTS = {
    "field-token": of_works(token, "--tokens", "500", "--pace", "1ms"),
    "field-request": of_works(request, "--tokens", "3", "--pace", "1ms"),
    "field-load": of_works(load, "--tokens", "1", "--pace", "none"),
    "field-ready": ready,
    "field-open": open_streams,
}


def chosen(only):
    """Returns the field: references, toolwire, and the gateways that work here."""
    known = [Direct(), Target("relay-bare", relay("relay-bare")), Target("nginx", nginx), Target("toolwire", serving_both())]
    for target in known:
        # References cannot convert.
        target.works = {"chat", "call", "messages"}
    known[0].works = known[3].works = set(WORKS)
    wanted = [target for target in known if not only or target.name in only]
    return wanted + gateways.wanted([name for name in gateways.KNOWN if not only or name in only])


LINES = [
    *(line for name, work in WORKS.items() for line in (
        (f"**{work.title}**: requests/s on one core", [(f"load-{name}", "requests_per_core")], max),
        ("first token, added p50 / p99, µs", [(f"request-{name}", "added_ttft"), (f"request-{name}", "added_ttft_p99")], min),
        ("later token, added p50 / p99, µs", [(f"token-{name}", "added_p50"), (f"token-{name}", "added_p99")], min),
        ("CPU per token, µs", [(f"token-{name}", "cpu_us")], min),
    )),
    *((f"**Memory**, {streams:,} streams, MiB", [(f"open-{streams}", "held_mib")], min) for streams in (50, 1_000)),
    ("**Memory**, {most:,.0f} streams, MiB", [("open-10000", "held_mib")], min),
    ("**First response after the start**, ms", [("ready", "ready_ms")], min),
    ("**On disk**, MB", [("ready", "disk_mb")], min),
]


def table(summary, names):
    """Returns the table of all parts. The best values of each line are bold."""
    names = [name for name in names if name != "direct"]
    most = max((figures["streams"] for figures in summary.get("open-10000", {}).values()), default=10_000)
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for title, parts, best in LINES:
        columns = [[summary.get(case, {}).get(name, {}).get(key) for name in names] for case, key in parts]
        texts = [marked(column, best) for column in columns]
        cells = [" / ".join(filter(None, cell)) for cell in zip(*texts)]
        lines.append(f"| {title.format(most=most)} | " + " | ".join(cells) + " |")
    return "\n".join(lines).replace("|  |", "| |").replace("|  |", "| |")


def marked(values, best):
    there = [value for value in values if value is not None]
    shown = ["" if value is None else written(value) for value in values]
    return [f"**{text}**" if text and value == best(there) else text for value, text in zip(values, shown)]
