"""Drives toolwire with Google's SDK and its Interactions API: loops over stored interactions, several calls, state, and errors."""

import base64
import json

import pytest
from gemini import BASE_URL, client
from google import genai
from google.genai import _interactions as errors
from google.genai import types
from interactions import streamed, whole
from stand import STAND, Answer
from test_loop import QUESTION, RESULT

MODEL = STAND["cases"][0]["request"]["model"]
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def ask(way, **request):
    """The answer, and the interaction."""
    answer = Answer()
    made = client().interactions.create(stream=way == "stream", **request)
    if way == "stream":
        made = streamed(made, answer)
    else:
        whole(made, answer)
    if answer.error:
        raise answer.error
    return answer, made


@pytest.mark.parametrize("name", STAND["loops"])
@pytest.mark.parametrize(("way", "is_stored"), [("stream", True), ("whole", True), ("stream", False)])
def test_tool_loop(name, way, is_stored):
    """A complete loop, continued by its id or by its steps."""
    said = {"type": "user_input", "content": [{"type": "text", "text": QUESTION}]}
    answer, first = ask(way, model=name, input=[said], tools=[WEATHER], store=is_stored)
    [call] = answer.calls
    assert (first.status, call["name"], json.loads(call["arguments"])) == (
        "requires_action",
        "get_weather",
        {"city": "Paris"},
    )
    result = {"type": "function_result", "call_id": call["id"], "name": call["name"], "result": RESULT}
    if is_stored:
        more = {"input": [result], "previous_interaction_id": first.id}
    else:
        made = {"type": "function_call", "id": call["id"], "name": call["name"], "arguments": {"city": "Paris"}}
        more = {"input": [said, made, result], "store": False}
    answer, second = ask(way, model=name, tools=[WEATHER], **more)
    assert (answer.text, second.status) == ("It is 18 °C.", "completed")
    if not is_stored:
        with pytest.raises(errors.NotFoundError):
            client().interactions.get(second.id)
        return
    kept = client().interactions.get(second.id, include_input=True)
    assert kept.previous_interaction_id == first.id
    assert [step.type for step in kept.input] == ["user_input", "function_call", "function_result"]
    assert kept.output_text == "It is 18 °C."


def test_parallel_calls_are_answered_in_any_order(upstream):
    names = ["get_weather", "get_time"]
    tools = [WEATHER, WEATHER | {"name": "get_time"}]
    for way in ("stream", "whole"):
        answer, first = ask(way, model="via-chat-parallel-calls", input=QUESTION, tools=tools)
        assert [call["name"] for call in answer.calls] == names
        results = [
            {"type": "function_result", "call_id": call["id"], "result": {"of": call["name"]}} for call in answer.calls
        ]
        ask(way, model="loop-native", input=results[::-1], tools=tools, previous_interaction_id=first.id)
        messages = upstream.seen("loop")["requests"][-1]["messages"]
        told = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
        assert told == {call["id"]: json.dumps({"of": call["name"]}, separators=(",", ":")) for call in answer.calls}


def test_schemas_and_images_reach_the_upstream(upstream):
    image = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    client().interactions.create(
        model="loop-native",
        input=[{"type": "text", "text": "What?"}, {"type": "image", "data": image, "mime_type": "image/png"}],
        response_format={"type": "text", "mime_type": "application/json", "schema": schema},
        store=False,
    )
    sent = upstream.seen("loop")["requests"][-1]
    assert f"data:image/png;base64,{image}" in json.dumps(sent)
    assert sent["response_format"]["json_schema"]["schema"] == schema


def test_stored_interactions_are_deleted_and_not_canceled():
    made = client().interactions.create(model="loop-native", input=QUESTION)
    assert client(api_version="v1").interactions.get(made.id).status == made.status
    with pytest.raises(errors.BadRequestError):
        client().interactions.cancel(made.id)
    client().interactions.delete(made.id)
    for gone in (client().interactions.get, client().interactions.delete, client().interactions.cancel):
        with pytest.raises(errors.NotFoundError):
            gone(made.id)
    with pytest.raises(errors.NotFoundError):
        client().interactions.create(model="loop-native", input="?", previous_interaction_id=made.id)


def test_errors_have_their_codes():
    with pytest.raises(errors.NotFoundError) as raised:
        client().interactions.create(model="nobody", input="?")
    assert raised.value.body["error"]["status"] == "NOT_FOUND"
    for request in ({"background": True}, {"response_modalities": ["image"]}):
        with pytest.raises(errors.BadRequestError):
            client().interactions.create(**{"model": MODEL, "input": "?"} | request)
    other = genai.Client(api_key="wrong", http_options=types.HttpOptions(base_url=BASE_URL))
    with pytest.raises(errors.AuthenticationError):
        other.interactions.create(model=MODEL, input="?", stream=True)
