"""Samples of the process under test: memory, descriptors, threads and gauges."""

import asyncio
import os
import re
import time
from pathlib import Path

from http1 import asked

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


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def metrics(port):
    """Returns the sums of the metrics, by name. `responses` is the number of requests by clients of models."""
    _, body = await asked(port, "/metrics")
    sums = {}
    for line in body.decode().splitlines():
        found = re.match(r"toolwire_(\w+)(\{.*\})? (\S+)$", line)
        if found:
            names = [found[1]]
            if found[1] == "requests_total" and re.search(ROUTES, found[2]):
                names.append("responses")
            for name in names:
                sums[name] = sums.get(name, 0) + float(found[3])
    return sums


class Watch:
    def __init__(self, pid, port, accounts, every=10):
        self.pid, self.port, self.accounts, self.every = pid, port, accounts, every
        self.samples, self.began = [], time.monotonic()

    async def sample(self):
        rss, threads = status(self.pid)
        sockets, others = descriptors(self.pid)
        one = {
            "seconds": round(time.monotonic() - self.began, 1), "rss_kib": rss, "threads": threads, "sockets": sockets,
            "other_descriptors": others, "cpu_seconds": cpu_seconds(self.pid), "clients_open": self.accounts.open,
        }
        sums = await metrics(self.port)
        one |= {name: sums.get(name, 0) for name in GAUGES + COUNTERS}
        return one

    async def run(self):
        while True:
            self.samples.append(await self.sample())
            await asyncio.sleep(self.every)


def line_through(points):
    """Returns the slope of the least-squares line and its standard error. Needs at least three points."""
    count = len(points)
    x, y = sum(one[0] for one in points) / count, sum(one[1] for one in points) / count
    below = sum((one[0] - x) ** 2 for one in points)
    slope = sum((one[0] - x) * (one[1] - y) for one in points) / below
    rest = sum((one[1] - y - slope * (one[0] - x)) ** 2 for one in points)
    return slope, (rest / (count - 2) / below) ** 0.5
