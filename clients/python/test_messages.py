"""Plays every fixture to a client of Anthropic Messages. It must receive what the fixture expects for Chat Completions, and be able
to continue the conversation."""

import json

import anthropic
import pytest
from messages import BASE_URL, Messages, client
from sdk import STAND
from test_fixtures import check_calls
from test_loop import QUESTION, RESULT


def can_be_asked(case):
    """Whether the request can be converted to a Messages request, and the expected response has no parts that Messages represents
    differently: calls that the upstream ran, which have their own blocks, and refusals, which are text."""
    request, expect = case["request"], case["expect"]
    is_plain = all(isinstance(message.get("content") or "", str) for message in request["messages"])
    tools = request.get("tools", [])
    names = {tool["function"]["name"] for tool in tools if "function" in tool}
    are_declared = all(call["name"] in names for call in expect.get("calls", []))
    are_functions = all(tool.get("type", "function") == "function" for tool in tools)
    differs = {"refusal", "results", "annotations", "images"} & expect.keys()
    extra = {"functions", "n", "response_format"} & request.keys()
    return is_plain and are_functions and are_declared and not differs and not extra


CASES = [pytest.param(case, id=case["name"]) for case in STAND["cases"] if can_be_asked(case)]


@pytest.mark.parametrize("way", ["stream", "whole"])
@pytest.mark.parametrize("case", CASES)
def test_fixture(case, way):
    if way == "stream" and not case["request"]["stream"]:
        pytest.skip("the fixture's response is not streamed")
    answer = getattr(Messages(), way)(case["request"])
    expect = case["expect"]
    if "error" in expect:
        assert answer.error is not None, f"a broken answer looks like a good one: {answer}"
        assert expect["error"].get("message", "") in str(answer.error)
        return
    if answer.error:
        raise answer.error
    assert answer.text == expect.get("text", "")
    assert answer.reasoning == expect.get("reasoning", "")
    assert answer.finish == expect["finish"]
    if way == "stream" and expect["finish"] == "length":
        # The SDK completes the arguments of a truncated call, so compare only the names.
        assert [call["name"] for call in answer.calls] == [call["name"] for call in expect.get("calls", [])]
    else:
        check_calls(answer.calls, expect.get("calls", []), functions=False)
    if "usage" in expect:
        assert answer.usage.items() <= {key: expect["usage"].get(key, 0) for key in answer.usage}.items()


WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.mark.parametrize("name", STAND["loops"])
def test_tool_loop(name):
    """A complete loop: the model calls the tool, the client returns the result, and the model responds."""
    messages = [{"role": "user", "content": QUESTION}]
    for _ in range(3):
        message = client().messages.create(model=name, max_tokens=500, messages=messages, tools=[WEATHER])
        if message.stop_reason != "tool_use":
            break
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": RESULT}
            for block in message.content
            if block.type == "tool_use"
        ]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    [block] = message.content
    assert (block.text, message.stop_reason, len(messages)) == ("It is 18 °C.", "end_turn", 3)


@pytest.mark.parametrize("scenario", ["halves", "written-halves"])
def test_arguments_arrive_while_the_model_writes_them(scenario, upstream):
    arguments, gone = "", False
    request = {"model": scenario, "max_tokens": 500, "tools": [WEATHER]}
    request["messages"] = [{"role": "user", "content": QUESTION}]
    with client().messages.stream(**request) as events:
        for event in events:
            if event.type == "input_json":
                arguments += event.partial_json
            # The upstream continues only now, so a proxy that waits for the end of the call fails the test.
            if not gone and arguments.endswith("Pa"):
                upstream.go(scenario)
                gone = True
    assert gone
    assert json.loads(arguments) == {"city": "Paris"}


def test_tokens_are_estimated():
    messages = [{"role": "user", "content": QUESTION}]
    model = STAND["cases"][0]["request"]["model"]
    without = client().messages.count_tokens(model=model, messages=messages).input_tokens
    with_tools = client().messages.count_tokens(model=model, messages=messages, tools=[WEATHER]).input_tokens
    assert 0 < without < with_tools


def test_errors_have_their_classes():
    messages = [{"role": "user", "content": "?"}]
    with pytest.raises(anthropic.NotFoundError, match="model: nobody"):
        client().messages.create(model="nobody", max_tokens=5, messages=messages)
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=BASE_URL, api_key="wrong", max_retries=0).messages.create(
            model="nobody", max_tokens=5, messages=messages
        )
    with pytest.raises(anthropic.BadRequestError, match="at least one message"):
        client().messages.create(model="nobody", max_tokens=5, messages=[])
