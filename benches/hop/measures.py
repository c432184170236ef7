"""What a client observes of a target, and what that costs the target."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

from options import ARGS, RELAYS, WORK
from processes import MOCK, RUNNING, cpu_ns, family, pss_kib, start, stop
from targets import MOCKED


def client(target, streams, requests=1, stagger_us=0, limit=120, hold=False):
    body = WORK / f"{target.name}.json".replace("/", "_")
    body.write_text(json.dumps(target.body))
    command = [RELAYS / "reader", "--to", f"127.0.0.1:{target.port}", "--body", body, "--streams", streams]
    command += ["--requests", requests, "--stagger-us", stagger_us, "--limit", limit] + (["--hold"] if hold else [])
    command += ["--path", target.path, *headers(target)]
    return start(command, MOCK, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def headers(target):
    return [part for header in target.headers.items() for part in ("--header", ": ".join(header))]


def read(target, **options):
    process = client(target, **options)
    said, _ = process.communicate()
    RUNNING.remove(process)
    return json.loads(said)


def checked(target, streams, requests=1, **_):
    """Like `read`, but with `toolwire bench`, which checks every stream against the rules of its dialect."""
    body, out = WORK / "prompts.jsonl", WORK / "bench.json"
    body.write_text(json.dumps(target.body) + "\n")
    command = [ARGS.toolwire, "bench", "--target", f"it=http://127.0.0.1:{target.port}/v1", "--prompts", body]
    command += ["--concurrency", streams, "--requests", streams * requests, "--rounds", 1, "--warm-up", 0]
    command += headers(target)
    process = start([*command, "--no-baseline", "--quiet", "--json", out], MOCK, stdout=subprocess.DEVNULL)
    process.wait()
    RUNNING.remove(process)
    all_ = json.loads(out.read_text())["targets"][0]["all"]
    metric = lambda name: all_["metrics"].get(name, {"p50": None, "p99": None})
    return {
        "tokens": all_["tokens"], "tokens_per_second": all_["tokens_per_second"], "whole": all_["good"],
        "broken": all_["streams"] - all_["good"], "why_broken": "see `toolwire bench`", "ttft_us": metric("ttft"),
        "transit_us": metric("added"), "first_transit_us": {"p50": None}, "slip_us": metric("slip"),
    }


def cost(target, **options):
    """Returns the client's measurements and the target's CPU time."""
    # The mock generates a response when it is first requested, so that happens before the measurement.
    read(target, streams=1, hold=not target.warms_up)
    before = cpu_ns(target.pid) if target.process else 0
    reading = checked if ARGS.bench and not options.get("stagger_us") else read
    seen = reading(target, **options)
    spent = cpu_ns(target.pid) - before if target.process else 0
    figures = {
        "cpu_us": spent / 1e3 / max(seen["tokens"], 1) if target.process else None,
        "tokens_per_second": seen["tokens_per_second"],
        "ttft_p50": seen["ttft_us"]["p50"],
        "ttft_p99": seen["ttft_us"]["p99"],
        "transit_p50": seen["transit_us"]["p50"],
        "transit_p99": seen["transit_us"]["p99"],
        "first_transit_p50": seen["first_transit_us"]["p50"],
        "slip_p99": seen["slip_us"]["p99"],
        "tokens": seen["tokens"],
    }
    if seen["broken"]:
        print(f"  {target.name}: {seen['broken']} streams broken: {seen['why_broken']}", file=sys.stderr)
    figures["broken"] = seen["broken"]
    return figures


def calls_per_token(target, name, streams, requests, *options):
    MOCKED.play(*options)
    read(target.up(), streams=1, hold=not target.warms_up)
    out = WORK / "strace.out"
    # The process exists before strace is attached, so its start is not counted.
    command = ["strace", "-c", "-f", "-o", str(out)] + [part for pid in family(target.pid) for part in ("-p", str(pid))]
    tracer = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    RUNNING.append(tracer)
    time.sleep(1)
    seen = read(target, streams=streams, requests=requests)
    os.kill(tracer.pid, signal.SIGINT)
    tracer.wait()
    RUNNING.remove(tracer)
    by_call = {}
    for line in out.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
            by_call[fields[-1]] = int(fields[3]) / seen["tokens"]
    top = sorted(by_call.items(), key=lambda item: -item[1])[:5]
    return {name: {"syscalls": sum(by_call.values()), "by_call": {name: round(value, 3) for name, value in top}}}


def most_streams(target):
    """Each stream needs two sockets. Near the limit of open files, toolwire keeps an eighth of them for upstreams."""
    return min(target.most_streams, resource.getrlimit(resource.RLIMIT_NOFILE)[1] * 7 // 16 - 100)


def memory(target, streams):
    """Measures the memory of `streams` open streams, and their CPU time at one token every 2 s each."""
    read(target, streams=1, hold=True)
    time.sleep(0.3)
    idle, before = pss_kib(target.pid), cpu_ns(target.pid)
    process = client(target, streams=streams, stagger_us=streams * 400, hold=True)
    seen = json.loads(process.stdout.readline())
    time.sleep(2)
    settled, spent = pss_kib(target.pid), cpu_ns(target.pid)
    time.sleep(4)
    ticking = cpu_ns(target.pid) - spent
    if seen["broken"]:
        print(f"  {target.name}: {seen['broken']} broken: {seen['why_broken']}", file=sys.stderr)
    process.stdin.close()
    process.wait()
    stop(process)
    opened = seen["whole"]
    return {
        "kib_per_stream": (settled - idle) / max(opened, 1),
        "idle_mib": idle / 1024,
        "held_mib": settled / 1024,
        "open_us": (spent - before) / 1e3 / max(opened, 1),
        "cpu_us": ticking / 1e3 / max(opened * 2, 1),
        "streams": opened,
        "broken": seen["broken"],
    }
