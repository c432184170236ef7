"""Drives toolwire with Google's SDK: fixtures, loops by hand and by the SDK, schemas, images, tokens, models, errors and keys."""

import base64
import json
import urllib.error
import urllib.request

import pytest
from gemini import BASE_URL, Gemini, client
from google import genai
from google.genai import errors, types
from pydantic import BaseModel
from stand import STAND
from test_loop import QUESTION, RESULT

MODEL = STAND["cases"][0]["request"]["model"]
# Fails before it is sent to an upstream.
NOBODY = "nobody"


def get_weather(city: str) -> str:
    """Current weather of a city."""
    assert city == "Paris"
    return RESULT


@pytest.mark.parametrize("name", STAND["loops"])
@pytest.mark.parametrize("way", ["stream", "whole"])
def test_tool_loop(name, way):
    """A complete loop: the model calls the tool, the client returns the result, and the model responds."""
    declaration = types.FunctionDeclaration(
        name="get_weather",
        description="Current weather of a city.",
        parameters={"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]},
    )
    manual = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declaration])], automatic_function_calling=manual
    )
    chat = client().chats.create(model=name, config=config)

    def ask(message):
        if way == "whole":
            return [chat.send_message(message)]
        return list(chat.send_message_stream(message))

    chunks = ask(QUESTION)
    [call] = [call for chunk in chunks for call in chunk.function_calls or []]
    assert (call.name, call.args) == ("get_weather", {"city": "Paris"})
    chunks = ask(types.Part.from_function_response(name="get_weather", response={"result": RESULT}))
    assert "".join(chunk.text or "" for chunk in chunks) == "It is 18 °C."
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
    assert len(chat.get_history(curated=True)) >= 4


@pytest.mark.parametrize("name", STAND["loops"])
def test_the_sdk_calls_functions_itself(name):
    config = types.GenerateContentConfig(tools=[get_weather])
    response = client().models.generate_content(model=name, contents=QUESTION, config=config)
    assert response.text == "It is 18 °C."


class Weather(BaseModel):
    city: str
    days: int | None = None


def test_schemas_reach_the_upstream_in_both_forms(upstream):
    for config in (
        {"response_mime_type": "application/json", "response_schema": Weather},
        {"response_mime_type": "application/json", "response_json_schema": Weather.model_json_schema()},
    ):
        client().models.generate_content(model="loop-native", contents=QUESTION, config=config)
        schema = json.dumps(upstream.seen("loop")["requests"][-1]["response_format"])
        assert '"city"' in schema and '"STRING"' not in schema


def test_images_reach_the_upstream(upstream):
    image = types.Part.from_bytes(data=b"\x89PNG\r\n\x1a\n", mime_type="image/png")
    client().models.generate_content(model="loop-native", contents=["What is this?", image])
    sent = json.dumps(upstream.seen("loop")["requests"][-1])
    assert f"data:image/png;base64,{base64.b64encode(image.inline_data.data).decode()}" in sent


def test_tokens_are_estimated():
    total = client().models.count_tokens(model=MODEL, contents=QUESTION).total_tokens
    assert 0 < total < client().models.count_tokens(model=MODEL, contents=QUESTION * 20).total_tokens


def test_models_are_listed_in_every_version():
    for version in ("v1", "v1beta", "v1alpha"):
        names = [model.name for model in client(api_version=version).models.list()]
        assert f"models/{MODEL}" in names
    assert client().models.get(model=MODEL).name == f"models/{MODEL}"


def test_openai_clients_get_their_list_at_the_same_path():
    request = urllib.request.Request(f"{BASE_URL}/v1/models", headers={"authorization": f"Bearer {STAND['key']}"})
    with urllib.request.urlopen(request) as response:
        assert json.load(response)["object"] == "list"


def test_errors_have_their_codes():
    with pytest.raises(errors.ClientError) as raised:
        client().models.generate_content(model=NOBODY, contents="?")
    assert (raised.value.code, raised.value.status) == (404, "NOT_FOUND")
    other = genai.Client(api_key="wrong", http_options=types.HttpOptions(base_url=BASE_URL))
    with pytest.raises(errors.ClientError) as raised:
        other.models.generate_content(model=MODEL, contents="?")
    assert (raised.value.code, raised.value.status) == (401, "UNAUTHENTICATED")
    with pytest.raises(errors.ClientError) as raised:
        client().models.generate_content(model=MODEL, contents="?", config={"candidate_count": 2})
    assert (raised.value.code, raised.value.status) == (400, "INVALID_ARGUMENT")


def asked(path, headers=None):
    body = json.dumps({"contents": [{"parts": [{"text": QUESTION}]}]}).encode()
    headers = {"content-type": "application/json"} | (headers or {})
    return urllib.request.urlopen(urllib.request.Request(BASE_URL + path, body, headers))


def test_a_stream_without_alt_is_an_array_of_the_same_responses():
    with asked(f"/v1beta/models/loop-native:streamGenerateContent?key={STAND['key']}") as response:
        assert response.headers["content-type"].startswith("application/json")
        chunks = json.load(response)
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert any("functionCall" in part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"])


def test_keys_are_taken_from_the_header_and_the_query():
    path = "/v1beta/models/loop-native:generateContent"
    for query, headers in (("", {"x-goog-api-key": STAND["key"]}), (f"?key={STAND['key']}", {})):
        with asked(path + query, headers) as response:
            assert json.load(response)["candidates"]
    for query, headers in (("", {}), ("?key=wrong", {}), ("?KEY=" + STAND["key"], {})):
        with pytest.raises(urllib.error.HTTPError) as raised:
            asked(path + query, headers)
        assert json.load(raised.value)["error"]["status"] == "UNAUTHENTICATED"


def can_be_asked(case):
    """Whether the request can be converted, and the expected response has only parts that every client sees."""
    request, expect = case["request"], case["expect"]
    is_plain = all(isinstance(message.get("content") or "", str) for message in request["messages"])
    tools = request.get("tools", [])
    names = {tool["function"]["name"] for tool in tools if "function" in tool}
    are_declared = all(call["name"] in names for call in expect.get("calls", []))
    are_functions = all(tool.get("type", "function") == "function" for tool in tools)
    have_results = any(message["role"] == "tool" for message in request["messages"])
    differs = {"refusal", "results", "annotations", "images"} & expect.keys()
    extra = {"functions", "n", "response_format", "tool_choice", "parallel_tool_calls"} & request.keys()
    return is_plain and are_functions and are_declared and not (differs or extra or have_results)


CASES = [pytest.param(case, id=case["name"]) for case in STAND["cases"] if can_be_asked(case)]


@pytest.mark.parametrize("way", ["stream", "whole"])
@pytest.mark.parametrize("case", CASES)
def test_fixture(case, way):
    if way == "stream" and not case["request"]["stream"]:
        pytest.skip("the fixture's response is not streamed")
    answer = getattr(Gemini(), way)(case["request"])
    expect = case["expect"]
    if "error" in expect:
        assert answer.error is not None or answer.finish is None, f"a broken answer looks like a good one: {answer}"
        return
    if answer.error:
        raise answer.error
    assert answer.text == expect.get("text", "")
    assert answer.reasoning == expect.get("reasoning", "")
    calls = [call for call in expect.get("calls", []) if is_whole(call["arguments"])]
    assert [call["name"] for call in answer.calls] == [call["name"] for call in calls]
    assert [json.loads(call["arguments"]) for call in answer.calls] == [json.loads(call["arguments"]) for call in calls]
    assert answer.finish == expect["finish"]


def is_whole(arguments):
    """Whether arguments are an object. Calls with others are told in the finish message."""
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False
