"""Ollama's SDK: the paths besides `chat`, a tool loop, and what only this API has."""

import json

import ollama
import pytest
from ollama_client import BASE_URL, client
from sdk import STAND

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def get_weather(city: str) -> str:
    """Current weather of a city.

    Args:
      city: The city
    """
    assert city == "Paris"
    return "18 °C"


@pytest.mark.parametrize("name", STAND["loops"])
@pytest.mark.parametrize("stream", [True, False])
def test_loop(name, stream, upstream):
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]

    def ask():
        answer = client().chat(name, messages, tools=[get_weather], stream=stream)
        parts = list(answer) if stream else [answer]
        assert parts[-1].done_reason == "stop"
        calls = [call for part in parts for call in part.message.tool_calls or []]
        return "".join(part.message.content or "" for part in parts), calls

    _, [call] = ask()
    messages.append({"role": "assistant", "tool_calls": [call]})
    result = get_weather(**call.function.arguments)
    messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    assert ask() == ("It is 18 °C.", [])
    told = json.dumps(upstream.seen("loop")["requests"][-1], ensure_ascii=False)
    for part in "Current weather of a city.", "get_weather", "Paris", "18 °C":
        assert part in told


@pytest.mark.parametrize("stream", [True, False])
def test_generate(stream, upstream):
    answer = client().generate("via-chat-plain", "Hello", system="Be brief.", images=[PIXEL], format="json", stream=stream)
    parts = list(answer) if stream else [answer]
    assert "".join(part.response for part in parts).startswith("Grüße")
    assert (parts[-1].done, parts[-1].done_reason) == (True, "stop")
    sent = json.dumps(upstream.seen("plain")["requests"][-1])
    for part in "Be brief.", f"data:image/png;base64,{PIXEL}", "json_object":
        assert part in sent


def test_load_and_unload():
    name = "via-chat-plain"
    assert client().generate(name).done_reason == "load"
    assert client().chat(name, [], keep_alive=0).done_reason == "unload"


def test_models():
    names = {model.model for model in client().list().models}
    assert "via-chat-plain" in names
    assert names == {model.model for model in client().ps().models}
    shown = client().show("via-chat-plain")
    assert {"completion", "tools"} <= set(shown.capabilities)


def test_errors():
    with pytest.raises(ollama.ResponseError, match="not found") as error:
        client().chat("nonesuch", [{"role": "user", "content": "Hello"}])
    assert error.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="key") as error:
        ollama.Client(host=BASE_URL).chat("via-chat-plain", [{"role": "user", "content": "Hello"}])
    assert error.value.status_code == 401
    with pytest.raises(ollama.ResponseError, match="configured models") as error:
        client().pull("llama3")
    assert error.value.status_code == 501
    with pytest.raises(ollama.ResponseError, match="suffix"):
        client().generate("via-chat-plain", "def f(", suffix="return 1")
