"""Checks what each client receives in each scenario, with each upstream dialect."""

import json
import os
import zlib

import pytest
from stand import STAND


def every_case(clients):
    """Parametrizes a test with every client, every case, and one of both ways of asking. A nightly run asks in both."""
    return pytest.mark.parametrize(
        ("client", "case", "way"),
        [
            pytest.param(client, case, way, id=f"{name}-{case['name']}-{way}")
            for name, client in clients.items()
            for case in STAND["matrix"]
            for way in ways(client, f"{name}, {case['name']}")
        ],
    )


def ways(client, name):
    all = [way for way in ("stream", "whole") if getattr(client, way)]
    return all if os.environ.get("NIGHTLY") else [all[zlib.crc32(name.encode()) % len(all)]]


def check(client, case, way):
    answer, expect = getattr(client, way)(case["request"]), case["expect"]
    if "error" in expect:
        check_error(client, answer, expect["error"], way)
        return
    if answer.error:
        raise answer.error
    for member in client.sees & {"text", "reasoning"}:
        assert getattr(answer, member) == expect.get(member, ""), member
    calls = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in answer.calls]
    assert calls == expect["calls"]
    ids = [call["id"] for call in answer.calls]
    assert all(ids) and len(set(ids)) == len(ids), f"each call has an id of its own: {ids}"
    assert answer.finish == expect["finish"]
    if "usage" in client.sees and "usage" in expect:
        assert expect["usage"].items() <= answer.usage.items()


def check_error(client, answer, expect, way):
    error = answer.error
    assert error is not None, f"a broken answer looks like a good one: {answer}"
    assert expect.get("message", "") in str(error)
    if "status" in client.sees_errors_as:
        if "status" in expect:
            assert error.status_code == expect["status"]
        elif way == "whole":
            assert error.status_code >= 500


def check_disconnect(client, name, upstream):
    """Checks that the upstream request is cancelled when `client` closes its stream."""
    before = upstream.seen("stays")["left"]
    client.leave({"model": f"via-{name}-stays", "messages": [{"role": "user", "content": "Hello"}]})
    upstream.until("stays", left=before + 1, open=0)
