"""Samples of the process under test: memory, descriptors, threads and gauges."""

import asyncio
import json
import os
import re
import time
from pathlib import Path

GAUGES = ("streams_in_flight", "waiting_requests", "config_generation")
COUNTERS = ("responses", "client_stalls_total", "client_disconnects_total", "hosted_calls_total",
            "store_failures_total", "config_reloads_total", "upstream_errors_total")

ROUTES = r'route="(chat_completions|messages|responses)"'


def descriptors(pid):
    """Returns the number of open sockets, and of all other open descriptors."""
    sockets = others = 0
    for one in Path(f"/proc/{pid}/fd").iterdir():
        try:
            kind = os.readlink(one)
        except OSError:
            continue
        if kind.startswith("socket:"):
            sockets += 1
        else:
            others += 1
    return sockets, others


def status(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    field = lambda name: int(re.search(rf"{name}:\s+(\d+)", text)[1])
    return field("VmRSS"), field("Threads")


def proportional(pid):
    """Returns the proportional set size in KiB."""
    return int(re.search(r"Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())[1])


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def metrics(stage):
    """Returns the sums of the metrics by name, and memory in bytes by kind. `responses` is the number of requests by
    clients of models."""
    _, body = await stage.asked("/metrics")
    sums, memory = {}, {}
    for line in body.decode().splitlines():
        found = re.match(r"toolwire_(\w+)(\{.*\})? (\S+)$", line)
        if found and found[1] == "memory_bytes":
            memory[re.search(r'kind="(\w+)"', found[2])[1]] = int(found[3])
        elif found:
            names = [found[1]]
            if found[1] == "requests_total" and re.search(ROUTES, found[2]):
                names.append("responses")
            for name in names:
                sums[name] = sums.get(name, 0) + float(found[3])
    return sums, memory


class Watch:
    def __init__(self, stage, accounts, every=10):
        self.pid, self.stage, self.accounts, self.every = stage.toolwire.pid, stage, accounts, every
        self.samples, self.began = [], time.monotonic()

    async def sample(self):
        rss, threads = status(self.pid)
        sockets, others = descriptors(self.pid)
        one = {
            "seconds": round(time.monotonic() - self.began, 1), "rss_kib": rss, "threads": threads, "sockets": sockets,
            "other_descriptors": others, "cpu_seconds": cpu_seconds(self.pid), "clients_open": self.accounts.open,
            "pss_kib": proportional(self.pid),
        }
        sums, one["memory"] = await metrics(self.stage)
        one |= {name: sums.get(name, 0) for name in GAUGES + COUNTERS}
        return one

    async def run(self):
        # With --keep, they are there even if the run breaks off.
        with open(self.stage.folder / "samples.jsonl", "w") as file:
            while True:
                self.samples.append(await self.sample())
                print(json.dumps(self.samples[-1]), file=file, flush=True)
                await asyncio.sleep(self.every)
