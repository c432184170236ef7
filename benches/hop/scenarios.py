"""Scenarios. Each measures one target in one round, and returns its figures by scenario name."""

import large as large_requests
from field import PARTS
from measures import calls_per_token, cost, memory, most_streams, read
from processes import cpu_ns
from results import percentile
from secured import MODES
from targets import MOCKED, Secured


def lone(target):
    MOCKED.play("--tokens", "500", "--pace", "1ms")
    return {"lone": cost(target.up(), streams=1, requests=4)}


def first(target):
    """Short responses, one after the other, for the time to the first token."""
    MOCKED.play("--tokens", "3", "--pace", "1ms")
    return {"first": cost(target.up(), streams=1, requests=300)}


def many(target):
    MOCKED.play("--tokens", "50", "--pace", "100ms")
    return {"many": cost(target.up(), streams=200)}


def spread(target):
    MOCKED.play("--tokens", "50", "--pace", "100ms")
    return {"spread": cost(target.up(), streams=200, stagger_us=100_000)}


def growth(target):
    figures = {}
    for streams, tokens in ((1, 60), (10, 60), (100, 40), (1000, 30), (2000, 30)):
        MOCKED.play("--tokens", str(tokens), "--pace", "100ms")
        figures[f"growth-{streams}"] = cost(target.up(), streams=streams, stagger_us=100_000)
    return figures


def flood(target):
    """Responses without a pace: with sixteen frames per write, as a fast server sends them, and with one."""
    figures = {}
    for burst in ("16", "1"):
        MOCKED.play("--tokens", str(target.flood), "--pace", "none", "--burst", burst)
        figures[f"flood-{burst}"] = cost(target.up(), streams=4, requests=2)
    return figures


def long(target):
    figures = {}
    for tokens, requests in ((5, 60), (50, 20), (500, 3), (5000, 1)):
        MOCKED.play("--tokens", str(tokens), "--pace", "1ms")
        figures[f"long-{tokens}"] = cost(target.up(), streams=10, requests=requests)
    return figures


def call(target):
    """Calls written as text, in which each character after the name is part of an argument."""
    figures = {}
    for format in ("hermes", "pre", "qwen3_coder"):
        MOCKED.play("--tokens", "500", "--pace", "1ms", "--answer", "call", "--format", format)
        figures[f"call-{format}"] = cost(target.up(), streams=1, requests=2)
    return figures


def held(target):
    if not target.command:
        return {}
    figures = {}
    for streams in (200, most_streams(target)):
        MOCKED.play("--tokens", "1000", "--pace", "2s")
        figures[f"held-{200 if streams == 200 else 10000}"] = memory(target.fresh(), streams)
        target.down()
    return figures


def syscalls(target):
    if not target.command:
        return {}
    lone = calls_per_token(target, "syscalls-lone", 1, 1, "--tokens", "1000", "--pace", "1ms")
    many = calls_per_token(target, "syscalls-many", 200, 1, "--tokens", "40", "--pace", "100ms")
    tokens = str(min(target.flood, 20_000))
    flood = calls_per_token(target, "syscalls-flood-16", 4, 1, "--tokens", tokens, "--pace", "none")
    return lone | many | flood


def tls(target):
    """`spread` over TLS, on connections that are already open, because a handshake costs as much as thousands of tokens."""
    if target.name.partition("-")[0] not in ("nginx", "toolwire"):
        return {}
    figures = {}
    for name, mode in MODES.items():
        MOCKED.play("--tokens", "50", "--pace", "100ms")
        secured = Secured(target, mode).up()
        read(secured, streams=200, stagger_us=100_000)
        figures[f"tls-{name}"] = cost(secured, streams=200, stagger_us=100_000)
        secured.down()
    return figures


def large(target):
    """Requests of 250 KB with 40 tools: how long it takes until the upstream gets their first byte, and their last. Also
    those that must be converted."""
    if not target.command:
        return {}
    begun, result = target.started(large_requests.sink().port), {}
    for name, form in large_requests.forms(target.converting).items():
        large_requests.times(begun.port, form, 20)
        before = cpu_ns(begun.pid)
        to_first, to_last = large_requests.times(begun.port, form, 200)
        spent = (cpu_ns(begun.pid) - before) / 1e3 / 200
        figures = {"first_byte_p50": percentile(to_first, 0.5)}
        figures |= {"cpu_us": spent, "first_byte_p99": percentile(to_first, 0.99)}
        figures |= {"last_byte_p50": percentile(to_last, 0.5), "last_byte_p99": percentile(to_last, 0.99)}
        result[name] = figures
    begun.down()
    return result


USUAL = {one.__name__: one for one in (lone, first, many, spread, growth, flood, long, call, held, syscalls, tls, large)}
KNOWN = USUAL | PARTS
ONCE = {"held", "syscalls", "field-open"}
# Scenarios in which requests are part of the measurement, so their content matters.
OF_REQUESTS = {"lone", "first", "many", "spread", "growth", "long"}
