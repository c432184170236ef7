"""Plays every fixture to every client, streaming and not. Each client must receive what the fixture expects."""

import json
import re

import pytest
from sdk import CLIENTS, STAND

# Ids that toolwire generates.
OURS = re.compile(r"call_[0-9A-Za-z]{24}")

COUNTS = "prompt_tokens", "completion_tokens", "total_tokens"


# Known failures, with the reasons.
KNOWN = {
    ("openai-helper", "v2-interleaved"): "calls whose deltas mix reach the client so; the helper takes the first for done",
}


def pairs(way):
    return [
        pytest.param(client, case, id=f"{name}-{case['name']}", marks=marks(name, case))
        for name, client in CLIENTS.items()
        for case in STAND["cases"]
        if getattr(client, way)
        and (client.speaks_functions or "functions" not in case["request"])
        and (way == "whole" or case["request"]["stream"])
    ]


def marks(name, case):
    known = KNOWN.get((name, case["name"]))
    return pytest.mark.xfail(reason=known) if known else ()


@pytest.mark.parametrize(("client", "case"), pairs("stream"))
def test_streamed(client, case):
    answer = client.stream(case["request"])
    expect = case["expect"]
    if "error" in expect:
        check_error(client, answer, expect["error"], in_stream="status" not in expect["error"])
        assert answer.text == expect.get("text", "")
        return
    check(client, answer, expect, functions="functions" in case["request"])
    if case["request"].get("stream_options", {}).get("include_usage") is None:
        assert not answer.usage, "nobody asked for usage"


@pytest.mark.parametrize(("client", "case"), pairs("whole"))
def test_whole(client, case):
    answer = client.whole(case["request"])
    if "error" in case["expect"]:
        check_error(client, answer, case["expect"]["error"], in_stream=False)
    else:
        check(client, answer, case["expect"], functions="functions" in case["request"])


def check(client, answer, expect, functions):
    if answer.error:
        raise answer.error
    for member in client.sees & {"text", "reasoning", "refusal"}:
        assert getattr(answer, member) == expect.get(member, ""), member
    assert answer.finish == expect["finish"]
    check_calls(answer.calls, expect.get("calls", []), functions)
    if "results" in client.sees:
        assert [plain(result) for result in answer.results] == expect.get("results", [])
    if "usage" in expect:
        counts = {key: expect["usage"][key] for key in COUNTS if key in expect["usage"]}
        assert counts.items() <= answer.usage.items()


def check_calls(calls, expected, functions):
    assert [call["name"] for call in calls] == [call["name"] for call in expected]
    for call, wanted in zip(calls, expected, strict=True):
        assert parsed(call["arguments"]) == parsed(wanted["arguments"])
        if "id" in wanted:
            assert call["id"] == wanted["id"]
        elif functions:
            assert call["id"] is None
        else:
            assert OURS.fullmatch(call["id"])


def check_error(client, answer, expect, in_stream):
    error = answer.error
    assert error is not None, f"a broken answer looks like a good one: {answer}"
    assert answer.finish is None
    assert expect.get("message", "") in str(error)
    if in_stream:
        assert getattr(error, "status_code", None) is None
    for member in {"type", "code"} & client.sees_errors_as & expect.keys():
        assert getattr(error, member) == expect[member]
    if "status" in client.sees_errors_as & expect.keys():
        assert error.status_code == expect["status"]


def parsed(arguments):
    """Parses arguments, keeping numbers as strings. Returns truncated arguments as text."""
    try:
        return json.loads(arguments, parse_float=str, parse_int=str)
    except ValueError:
        return arguments


def plain(result):
    """A result with its call: the call's index, or its name and arguments if the client gets call and result together."""
    call = {"name": result["name"], "arguments": result["arguments"]} if "name" in result else {"call": result["index"]}
    return call | {key: result[key] for key in ("content", "is_error") if result.get(key)}
