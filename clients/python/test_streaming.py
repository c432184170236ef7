"""Arguments reach the client while the model is still writing them."""

import json

import pytest
from sdk import client, model

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def openai_chunks(name):
    with client().chat.completions.create(model=name, messages=QUESTION, tools=[WEATHER], stream=True) as chunks:
        for chunk in chunks:
            for call in chunk.choices[0].delta.tool_calls or []:
                yield call.function.name, call.function.arguments


def openai_helper(name):
    with client().chat.completions.stream(model=name, messages=QUESTION, tools=[WEATHER]) as events:
        for event in events:
            if event.type == "tool_calls.function.arguments.delta":
                yield event.name, event.arguments_delta


def langchain(name):
    for chunk in model({"model": name}).bind_tools([WEATHER]).stream(QUESTION):
        for call in chunk.tool_call_chunks:
            yield call["name"], call["args"]


@pytest.mark.parametrize("pieces", [openai_chunks, openai_helper, langchain])
@pytest.mark.parametrize("scenario", ["halves", "written-halves"])
def test_arguments_arrive_while_the_model_writes_them(pieces, scenario, upstream):
    names, arguments, gone = set(), "", False
    for name, piece in pieces(scenario):
        names |= {name} - {None}
        arguments += piece or ""
        # The upstream continues only now, so a proxy that waits for the end of the call fails the test.
        if not gone and arguments.endswith("Pa"):
            upstream.go(scenario)
            gone = True
    assert gone
    assert names == {"get_weather"}
    assert json.loads(arguments) == {"city": "Paris"}


def test_bounced_call_arrives_complete(upstream):
    """After a misrouted call without arguments, toolwire retries. The client sees a single response."""
    before = upstream.seen("bounce")["count"]
    answer = client().chat.completions.create(model="bounce", messages=QUESTION, tools=[WEATHER])
    [choice] = answer.choices
    [call] = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    assert (choice.message.content, choice.finish_reason) == (None, "tool_calls")
    assert upstream.seen("bounce")["count"] == before + 2
