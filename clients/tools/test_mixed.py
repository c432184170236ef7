"""A deferred turn with a call to a hosted tool and a call to a client tool. toolwire restarts before the client returns its result."""

import json

import pytest
from harness import Upstream, serving, toolwire
from sdks import CALLS, COMPLETE, SDKS, WEATHER

TABLES = """
[execution]
mixed_turns = "defer"
[[providers]]
name = "search"
kind = "command"
command = ["sh", "-c", "printf 'found '; cat"]
description = "Searches."
parameters = { type = "object", properties = { query = { type = "string" } } }
"""


def both(request):
    """Calls both tools, then responds with their results."""
    messages = request["messages"]
    if messages[-1]["role"] != "tool":
        calls = [("search", {"query": "rain"}), ("weather", {"city": "Lyon"})]
        return "Let me look.", calls, "tool_calls"
    return " / ".join(message["content"] for message in messages if message["role"] == "tool"), [], "stop"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("sdk", SDKS)
def test_result_arrives_after_a_restart(tmp_path, sdk, stream):
    with serving(Upstream, script=both) as upstream:
        with toolwire(tmp_path, upstream, TABLES) as gateway:
            client = SDKS[sdk](gateway.url)
            history = client.question("Does it rain in Lyon?")
            first = client.ask(history, stream, [WEATHER])
            [(id, name, arguments)] = first.calls
            arguments = arguments if isinstance(arguments, dict) else json.loads(arguments)
            assert (name, arguments, first.finish) == ("weather", {"city": "Lyon"}, CALLS[sdk])
            assert first.text == "Let me look."
        with toolwire(tmp_path, upstream, TABLES) as gateway:
            client = SDKS[sdk](gateway.url)
            history += first.own + client.result(id, "18 degrees")
            second = client.ask(history, stream, [WEATHER])
            assert second.finish == COMPLETE[sdk]
            assert second.text == 'found {"query":"rain"} / 18 degrees'
        _, request = upstream.requests[-1]
        [turn] = [message for message in request["messages"] if message.get("tool_calls")]
        assert [call["function"]["name"] for call in turn["tool_calls"]] == ["search", "weather"]
