"""Processes, each on a core of its own, and the resources that they use."""

import atexit
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from options import ARGS

MOCK, TARGET = 0, 1
RUNNING = []


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def start(command, core, urgent=("chrt", "-r", "1"), **options):
    """Starts a process on one core. It ends when this process ends. With `--rt`, `urgent` gives it precedence."""
    prefix = ["taskset", "-c", str(core), *(urgent if ARGS.rt else ())]
    process = subprocess.Popen(prefix + [str(part) for part in command], start_new_session=True, **options)
    RUNNING.append(process)
    return process


@contextlib.contextmanager
def on_core(core):
    """Runs this thread on one core in the meantime, in the same scheduling class as the processes."""
    cores, scheduler, parameter = os.sched_getaffinity(0), os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setaffinity(0, {core})
    if ARGS.rt:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, scheduler, parameter)
        os.sched_setaffinity(0, cores)


def stop(process):
    if process in RUNNING:
        RUNNING.remove(process)
        try:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(3)
        except ProcessLookupError:
            process.wait()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@atexit.register
def stop_all():
    for process in list(RUNNING):
        stop(process)


def wait_for(port, limit=10):
    """Waits until something listens on the port, for at most `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}")


def family(pid):
    """Returns the ids of a process and all its descendants."""
    found = [pid]
    for one in found:
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                found += [int(child) for child in Path(f"/proc/{one}/task/{task}/children").read_text().split()]
        except OSError:
            pass
    return found


def cpu_ns(pid):
    total = 0
    for one in family(pid):
        for stat in Path(f"/proc/{one}/task").glob("*/schedstat"):
            try:
                total += int(stat.read_text().split()[0])
            except OSError:
                pass
    return total


def pss_kib(pid):
    total = 0
    for one in family(pid):
        try:
            total += int(re.search(r"Pss:\s+(\d+)", Path(f"/proc/{one}/smaps_rollup").read_text())[1])
        except OSError:
            pass
    return total
