"""A complete tool loop: the call, its result and the response. Also checks the upstream request."""

import json

import pytest
from google.genai.interactions import CreateModelInteraction
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from openai import pydantic_function_tool
from pydantic import BaseModel
from sdk import CLIENTS, STAND, client, model

QUESTION = "What is the weather in Paris?"
RESULT = "18 °C"


class GetWeather(BaseModel):
    """Current weather of a city."""

    city: str


@tool
def get_weather(city: str) -> str:
    """Current weather of a city."""
    assert city == "Paris"
    return RESULT


def loop_openai(name, stream):
    """The loop with openai and plain dictionaries."""
    tools = [{"type": "function", "function": {"name": "get_weather", "description": "Current weather of a city.", "parameters": GetWeather.model_json_schema()}}]
    messages = [{"role": "user", "content": QUESTION}]
    asking = getattr(CLIENTS["openai"], stream)
    first = asking({"model": name, "messages": messages, "tools": tools})
    [call] = first.calls
    assert (call["name"], json.loads(call["arguments"]), first.finish) == ("get_weather", {"city": "Paris"}, "tool_calls")
    function = {"name": call["name"], "arguments": call["arguments"]}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": call["id"], "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call["id"], "content": RESULT},
    ]
    return asking({"model": name, "messages": messages, "tools": tools})


def loop_openai_helper(name, _stream):
    """The loop with openai's helper, which returns a message object and parses arguments with a strict schema."""
    messages = [{"role": "user", "content": QUESTION}]
    tools = [pydantic_function_tool(GetWeather, name="get_weather")]
    asking = client().chat.completions
    with asking.stream(model=name, messages=messages, tools=tools) as events:
        message = events.get_final_completion().choices[0].message
    [call] = message.tool_calls
    assert call.function.parsed_arguments == GetWeather(city="Paris")
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    with asking.stream(model=name, messages=messages, tools=tools) as events:
        choice = events.get_final_completion().choices[0]
    return choice.message.content, choice.finish_reason


def loop_langchain(name, stream):
    """The loop with LangChain, which defines and runs the tool itself."""
    chat = model({"model": name}).bind_tools([get_weather])

    def ask():
        if stream == "whole":
            return chat.invoke(messages)
        first, *rest = chat.stream(messages)
        return sum(rest, first)

    messages = [HumanMessage(QUESTION)]
    message = ask()
    [call] = message.tool_calls
    result = get_weather.invoke(call)
    assert isinstance(result, ToolMessage)
    messages += [message, result]
    return ask()


@pytest.mark.parametrize("name", STAND["all_loops"])
@pytest.mark.parametrize("stream", ["stream", "whole"])
def test_openai(name, stream, upstream):
    answer = loop_openai(name, stream)
    assert (answer.text, answer.calls, answer.finish) == ("It is 18 °C.", [], "stop")
    check_told(upstream)


@pytest.mark.parametrize("name", STAND["loops"])
def test_openai_helper(name, upstream):
    assert loop_openai_helper(name, "stream") == ("It is 18 °C.", "stop")
    check_told(upstream)


@pytest.mark.parametrize("name", STAND["loops"])
@pytest.mark.parametrize("stream", ["stream", "whole"])
def test_langchain(name, stream, upstream):
    message = loop_langchain(name, stream)
    assert (message.text, message.tool_calls) == ("It is 18 °C.", [])
    check_told(upstream)


def test_requests_to_interactions_are_as_the_sdk_writes_them(upstream):
    """Members and steps that the SDK's types do not know are lost in its copy."""
    loop_openai("loop-interactions", "stream")
    request = upstream.seen("loop")["requests"][-1]
    assert CreateModelInteraction.model_validate(request).model_dump(mode="json", by_alias=True, exclude_none=True) == request


def check_told(upstream):
    """In any dialect and format, the last upstream request contains the tool, the question, the call and the result."""
    told = json.dumps(upstream.seen("loop")["requests"][-1], ensure_ascii=False)
    for part in "Current weather of a city.", QUESTION, "get_weather", "Paris", RESULT:
        assert part in told
