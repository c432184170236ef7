"""litellm as a client of Chat Completions and Messages: every scenario, and a tool loop."""

import asyncio
import json

import litellm
import pytest
from checks import check, check_disconnect, every_case
from stand import STAND, TIMEOUT, Answer

litellm.telemetry = False
litellm.suppress_debug_info = True


class LiteLLM:
    """litellm's `completion`, with one of its providers."""

    sees = {"text", "reasoning", "calls", "usage"}
    # The providers preserve an error's message, but not always its status.
    sees_errors_as = {"message"}

    def __init__(self, provider, base_url):
        self.provider = provider
        # Gemini's thoughts are sent only on request.
        self.sees = self.sees - {"reasoning"} if provider == "gemini" else self.sees
        self.base_url = base_url

    def options(self, request):
        settings = {"api_base": self.base_url, "api_key": STAND["key"], "num_retries": 0, "timeout": TIMEOUT}
        return request | settings | {"model": f"{self.provider}/{request['model']}"}

    def stream(self, request):
        chunks = []
        try:
            for chunk in litellm.completion(**self.options(request), stream=True):
                chunks.append(chunk)
        except Exception as error:
            return Answer(error=error)
        return answer_of(litellm.stream_chunk_builder(chunks))

    def whole(self, request):
        request = {key: value for key, value in request.items() if key != "stream_options"}
        try:
            return answer_of(litellm.completion(**self.options(request)))
        except Exception as error:
            return Answer(error=error)

    def leave(self, request):
        async def leave():
            chunks = await litellm.acompletion(**self.options(request), stream=True)
            async for chunk in chunks:
                if chunk.choices[0].delta.content:
                    break
            # Only the asynchronous stream can be closed.
            await chunks.aclose()

        asyncio.run(leave())


def answer_of(completion):
    [choice] = completion.choices
    message = choice.message
    return Answer(
        text=message.content or "",
        reasoning=getattr(message, "reasoning_content", None) or "",
        calls=[
            {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
            for call in message.tool_calls or []
        ],
        finish=choice.finish_reason,
        usage=completion.usage.model_dump(),
    )


ROOT_URL = STAND["url"].removesuffix("/v1")
CLIENTS = {
    "litellm-openai": LiteLLM("openai", STAND["url"]),
    "litellm-anthropic": LiteLLM("anthropic", ROOT_URL),
    "litellm-ollama": LiteLLM("ollama_chat", ROOT_URL),
    "litellm-gemini": LiteLLM("gemini", ROOT_URL + "/v1beta"),
}


@every_case(CLIENTS)
def test_scenario(client, case, way):
    if (client.provider, way) == ("ollama_chat", "stream") and len(case["expect"].get("calls", [])) > 1:
        pytest.skip("litellm merges streamed calls of Ollama: BerriAI/litellm#33678")
    check(client, case, way)


@pytest.mark.parametrize("name", STAND["upstreams"])
@pytest.mark.parametrize("client", CLIENTS)
def test_client_disconnect_cancels_the_upstream_request(client, name, upstream):
    check_disconnect(CLIENTS[client], name, upstream)


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


# Native tools, tools taught in the prompt, and both versions of Lumo's protocol.
LOOPS = ["loop-native", "loop-hermes", "loop-bare", "loop-lumo", "loop-lumo-pre", "loop-lumo-v1"]


@pytest.mark.parametrize("way", ["stream", "whole"])
@pytest.mark.parametrize("model", LOOPS)
@pytest.mark.parametrize("name", CLIENTS)
def test_tool_loop(name, model, way):
    ask = getattr(CLIENTS[name], way)
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    first = ask({"model": model, "messages": messages, "tools": [WEATHER]})
    [call] = first.calls
    assert (call["name"], json.loads(call["arguments"]), first.finish) == ("get_weather", {"city": "Paris"}, "tool_calls")
    function = {"name": call["name"], "arguments": call["arguments"]}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": call["id"], "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call["id"], "content": "18 °C"},
    ]
    last = ask({"model": model, "messages": messages, "tools": [WEATHER]})
    assert (last.text, last.calls, last.finish) == ("It is 18 °C.", [], "stop")
