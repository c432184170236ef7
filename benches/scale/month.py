#!/usr/bin/env python3
"""Simulates a month of a company with 10,000 users by the minute, and prints what it needs of toolwire as one table.

    benches/scale/month.py            # prints the table
    benches/scale/month.py --write    # puts it into docs/scaling.md
    benches/scale/month.py --check    # fails if the table there is another

The load is drawn from the distributions in `KINDS` and `ZONES`, which are assumptions; `COSTS` are measured. One seed, so the
table is the same each time.
"""

import math
import random
import sys
from itertools import accumulate
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/scaling.md"
BEGIN, END = "<!-- benches/scale/month.py -->\n", "<!-- end -->\n"

USERS, DAYS, SEED = 10_000, 30, 38
MINUTES = DAYS * 24 * 60

# Hours that a zone is ahead of UTC, and its share of the users: America, Europe, India, East Asia.
ZONES = {-6: 0.30, 1: 0.40, 5.5: 0.15, 8: 0.15}

# Tasks start around 10:30 and 15:00 (standard deviations of 1.3 and 1.5 hours). On a Saturday or Sunday, a user has 5 % of them.
# `share` of the users; `tasks` on a working day; `turns` (requests) in a task; `context` in tokens at the first turn, and how
# many each turn adds; `output` tokens of a turn; `pause` in seconds until the next turn (reading, or a tool that runs).
# Pairs are the median and sigma of a lognormal distribution, whose tail makes the long loops.
KINDS = [
    {"share": 0.6, "tasks": 5, "turns": (3, 0.7), "context": 1_500, "adds": 600, "output": (350, 0.9), "pause": 60},
    {"share": 0.3, "tasks": 6, "turns": (15, 1.0), "context": 18_000, "adds": 1_500, "output": (250, 1.0), "pause": 8},
    {"share": 0.1, "tasks": 25, "turns": (30, 1.1), "context": 25_000, "adds": 1_800, "output": (250, 1.0), "pause": 8},
]
MOST_TURNS, MOST_CONTEXT = 500, 200_000
FIRST_TOKEN, TOKENS_PER_SECOND = 2.0, 50
BYTES_PER_TOKEN = 4
# The share of requests whose response is stored: chats with the Responses API. Agents decline it.
STORED = 0.05

# benches/hop/README.md says how each was measured, docs/performance.md with which result.
COSTS = {
    "request_us": 57,  # CPU time of a short request: `field-load`, with tools
    "kilobyte_us": 0.6,  # and of each KB of a longer one: `large`
    "token_us": 36,  # `spread`, on a busy machine
    "stream_kib": 14.6,  # `field-open`
    "idle_mib": 18,
    "files": 2,  # of a stream
    "frame": 190,  # bytes of a token, in and out
    "store_us": 1e6 / 7_500 + 1e6 / 9_400,  # of the store's thread: admit and settle a request
    "lease_us": 1e6 / 73_000,  # renews an open stream's, every 20 s
    "stored_kb": 20,  # a stored response
    "ttl_days": 1,  # `limits.store_ttl`, whose default is 30
}

# How much of each is used at most: 60 % of a core's time, half of 64 GiB and of 10 Gbit/s, and the open files that
# deploy/toolwire.service allows. Of the store, 60 % of its thread and 48 GB of its memory.
CORE = {"cores": 0.6, "memory": 32 * 1024, "files": 1_048_576, "network": 5_000}
MACHINE = CORE | {"cores": 16 * 0.6}
STORE = {"store": 0.6, "stored": 48}
# What an operator does when a limit is reached.
THEN = {
    "cores": ("CPU", "more cores; there is a thread for each"),
    "memory": ("memory", "a second machine"),
    "files": ("open files", "raise `LimitNOFILE`"),
    "network": ("network", "a second machine"),
    "store": ("the store's thread", "a store for each group of clients, or a cluster"),
    "stored": ("the store's memory", "shorter `store_ttl`, or a cluster"),
}


def main():
    text = table(*simulated())
    if "--check" in sys.argv or "--write" in sys.argv:
        page = PAGE.read_text()
        before, _, rest = page.partition(BEGIN)
        wanted = before + BEGIN + text + END + rest.partition(END)[2]
        if "--write" in sys.argv:
            PAGE.write_text(wanted)
        elif wanted != page:
            sys.exit(f"{PAGE.name} has another table: run benches/scale/month.py --write")
    else:
        print(text, end="")


def simulated():
    """Returns open streams, requests a second, tokens a second, and KB of requests a second, each by the minute."""
    chance = random.Random(SEED)
    # Differences between one minute and the next, summed at the end.
    changes = [[0.0] * (MINUTES + 1) for _ in range(4)]
    zones, weights = list(ZONES), list(ZONES.values())
    for kind in KINDS:
        for _ in range(round(USERS * kind["share"])):
            zone = chance.choices(zones, weights)[0]
            for day in range(DAYS):
                # The first day is a Monday.
                tasks = kind["tasks"] * (1 if day % 7 < 5 else 0.05)
                for _ in range(int(tasks + chance.random())):
                    hour = chance.gauss(10.5, 1.3) if chance.random() < 0.5 else chance.gauss(15, 1.5)
                    minutes, rates = task(chance, kind)
                    start = max(0, min(int((day * 24 + hour - zone) * 60), MINUTES))
                    end = min(start + minutes, MINUTES)
                    for change, rate in zip(changes, rates):
                        change[start] += rate
                        change[end] -= rate
    return [list(accumulate(one))[:MINUTES] for one in changes]


def task(chance, kind):
    """Returns in how many minutes a task runs, and its open streams, requests, tokens and KB per second in each."""
    turns = min(MOST_TURNS, max(1, round(drawn(chance, kind["turns"]))))
    # One draw gives the mean output of the task's turns.
    output = drawn(chance, kind["output"])
    streaming = turns * (FIRST_TOKEN + output / TOKENS_PER_SECOND)
    seconds = streaming + turns * chance.expovariate(1 / kind["pause"])
    context = min(MOST_CONTEXT, kind["context"] + kind["adds"] * (turns - 1) / 2)
    kilobytes = turns * context * BYTES_PER_TOKEN / 1000
    minutes = math.ceil(seconds / 60)
    return minutes, [value / minutes / 60 for value in (streaming, turns, turns * output, kilobytes)]


def drawn(chance, distribution):
    median, sigma = distribution
    return median * math.exp(sigma * chance.gauss(0, 1))


def needs(streams, requests, tokens, kilobytes):
    """Returns what a minute needs, from what happens in a second of it."""
    cores = (requests * COSTS["request_us"] + kilobytes * COSTS["kilobyte_us"] + tokens * COSTS["token_us"]) / 1e6
    return {
        "streams": streams,
        "requests": requests,
        "tokens": tokens,
        "cores": cores,
        # A request is kept until its response begins.
        "memory": COSTS["idle_mib"] + (streams * COSTS["stream_kib"] + FIRST_TOKEN * kilobytes) / 1024,
        "files": streams * COSTS["files"],
        "network": 2 * (kilobytes * 1000 + tokens * COSTS["frame"]) * 8 / 1e6,
        "operations": 2 * requests + streams / 20,
        "store": (requests * COSTS["store_us"] + streams / 20 * COSTS["lease_us"]) / 1e6,
    }


def table(*months):
    minutes = [needs(*minute) for minute in zip(*months)]
    at = lambda share: {key: sorted(one[key] for one in minutes)[int(share * (MINUTES - 1))] for key in minutes[0]}
    busy, peak = at(0.99), at(1)
    # Requests up to each minute, for those within the time that a response is stored.
    sums, window = [0, *accumulate(months[1])], COSTS["ttl_days"] * 24 * 60
    stored = sorted(end - begin for begin, end in zip(sums, sums[window:]))
    busy["stored"], peak["stored"] = (
        requests * 60 * STORED * COSTS["stored_kb"] / 1e6 for requests in (stored[int(len(stored) * 0.99)], stored[-1])
    )
    core, machine, many = (first(peak, limits) for limits in (CORE, MACHINE, STORE))
    # One more than needed, for a machine that fails.
    machines = math.ceil(many[0] / machine[0]) + 1
    columns = [(busy, 1), (peak, 1), *((peak, factor) for factor, _ in (core, machine, many))]
    rows = [[name, *(shown(of[key] * factor, unit) for of, factor in columns)] for name, key, unit in ROWS]
    rows.append(["such companies", "", "1", *(shown(factor, "") for factor, _ in (core, machine, many))])
    for place, name in enumerate(("first limit", "what to do then")):
        rows.append([name, "", "", *(THEN[limit][place] for _, limit in (core, machine, many))])
    head = ["", "99 % of minutes", "busiest minute", "one core", "16 cores", f"{machines} machines, one store"]
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines).replace("|  |", "| |").replace("|  |", "| |")


ROWS = [
    ("open streams", "streams", ""),
    ("requests per second", "requests", ""),
    ("tokens per second", "tokens", ""),
    ("CPU time, in cores", "cores", ""),
    ("memory", "memory", " MiB"),
    ("open files", "files", ""),
    ("network, both ways", "network", " Mbit/s"),
    ("operations of the store per second", "operations", ""),
    ("of its one thread", "store", " %"),
    ("stored responses", "stored", " GB"),
]


def first(peak, limits):
    """Returns how many times the peak fits into the limits, and which of them is reached first."""
    return min((limit / peak[name], name) for name, limit in limits.items())


def shown(value, unit):
    """Two digits, since inputs are no better. A library that rounds the last bit otherwise changes nothing."""
    value *= 100 if unit == " %" else 1
    digits = 1 - math.floor(math.log10(value)) if value else 0
    return f"{round(value, digits):,.{max(digits, 0)}f}{unit}"


main()
