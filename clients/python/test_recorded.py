"""Requests of programs that cannot be installed here, as their sources have them, and what these read of the answers.

VS Code's Copilot: microsoft/vscode-copilot-chat, `ollamaProvider.ts`. JetBrains: JetBrains/koog, its `OllamaClient.kt`, and for
its AI Assistant the paths that Stream29/ProxyAsLocalModel serves. Open WebUI 0.12.4: `routers/ollama.py`.
"""

import json
import urllib.request

import pytest
from sdk import STAND

BASE_URL = STAND["url"].removesuffix("/v1")
CASES = {case["name"]: case["expect"] for case in STAND["matrix"]}
COPILOT = {
    "user-agent": "GitHubCopilotChat/0.53.0",
    "openai-intent": "conversation-agent",
    "x-github-api-version": "2025-05-01",
    "x-interaction-type": "conversation-agent",
    "x-request-id": "5f7be0b1-6d1f-4d7d-b42f-0c8b1ce6c2c1",
}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": WEATHER}}


def ask(path, body=None, headers=()):
    headers = {"authorization": f"Bearer {STAND['key']}", "content-type": "application/json"} | dict(headers)
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(BASE_URL + path, data, headers)) as response:
        assert response.status == 200
        return response.read().decode()


def named(name):
    [model] = [model for model in json.loads(ask("/api/tags"))["models"] if model["model"] == name]
    return model


def test_copilot_lists_models_with_tools_and_asks_over_chat_completions():
    version = json.loads(ask("/api/version", headers=COPILOT))["version"]
    assert [int(part) for part in version.split(".")] >= [0, 6, 4]
    name = named("via-chat-parallel-calls")["model"]
    shown = json.loads(ask("/api/show", {"model": name}, COPILOT))
    assert "tools" in shown["capabilities"]
    assert isinstance(shown["model_info"]["general.architecture"], str)
    asked = {
        "model": name,
        "messages": [{"role": "system", "content": "You are Copilot."}, {"role": "user", "content": "Hello"}],
        "tools": [TOOL],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.1,
        "top_p": 1,
        "n": 1,
    }
    *lines, last = ask("/v1/chat/completions", asked, COPILOT).strip().split("\n\n")
    assert last == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    calls, finish = {}, None
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        finish = choice["finish_reason"] or finish
        for part in choice["delta"].get("tool_calls", []):
            call = calls.setdefault(part["index"], {"name": part["function"].get("name"), "id": part.get("id"), "arguments": ""})
            call["arguments"] += part["function"].get("arguments", "")
    assert finish == "tool_calls" and all(call["id"] for call in calls.values())
    found = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls.values()]
    assert found == CASES[name]["calls"]
    assert chunks[-1]["usage"]["total_tokens"] > 0


KINDS = {"audio", "completion", "embedding", "insert", "vision", "thinking", "tools"}


def test_jetbrains_reads_models():
    assert ask("/")
    model = named("via-chat-plain")
    kinds = {"name": str, "model": str, "size": int, "modified_at": str, "digest": str}
    assert {name: type(model[name]) for name in kinds} == kinds
    shown = json.loads(ask("/api/show", {"name": model["name"]}))
    for details in model["details"], shown["details"]:
        assert all(isinstance(details[name], str) for name in ("format", "family", "parameter_size"))
    # Any other word is an error there.
    assert {"completion", "tools"} <= set(shown["capabilities"]) <= KINDS
    assert isinstance(shown["model_info"], dict)


@pytest.mark.parametrize("stream", [True, False])
def test_jetbrains_sends_each_call_in_a_turn_of_its_own_and_results_without_names(stream, upstream):
    body = {"model": "via-chat-parallel-calls", "stream": stream, "options": {"temperature": 0.0}, "tools": [TOOL]}
    messages = [{"role": "system", "content": "Use tools."}, {"role": "user", "content": "Hello"}]
    lines = [json.loads(line) for line in ask("/api/chat", body | {"messages": messages}).splitlines()]
    for line in lines:
        assert isinstance(line["model"], str) and isinstance(line["done"], bool)
        assert isinstance(line["message"]["role"], str) and isinstance(line["message"]["content"], str)
    calls = [call["function"] for line in lines for call in line["message"].get("tool_calls") or []]
    assert [{"name": call["name"], "arguments": call["arguments"]} for call in calls] == CASES[body["model"]]["calls"]
    for call in calls:
        turn = {"function": {"name": call["name"], "arguments": call["arguments"]}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [turn]})
    messages += [{"role": "tool", "content": f"result {place}"} for place in range(len(calls))]
    ask("/api/chat", body | {"messages": messages})
    sent = upstream.seen("parallel-calls")["requests"][-1]["messages"]
    ids = [call["id"] for message in sent for call in message.get("tool_calls") or []]
    results = {message["tool_call_id"]: message["content"] for message in sent if message["role"] == "tool"}
    assert results == {id: f"result {place}" for place, id in enumerate(ids)}
    assert len(results) == len(calls)


def test_open_webui_reads_models_and_streams():
    assert json.loads(ask("/api/version"))["version"]
    assert named("via-chat-reasoned")["name"] in {model["model"] for model in json.loads(ask("/api/ps"))["models"]}
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": "via-chat-reasoned", "messages": messages, "options": {}, "stream": True, "think": True}
    *lines, last = [json.loads(line) for line in ask("/api/chat", body).splitlines()]
    assert (last["done"], last["message"]["content"]) == (True, "")
    expect = CASES[body["model"]]
    assert "".join(line["message"]["content"] for line in lines) == expect["text"]
    assert "".join(line["message"].get("thinking") or "" for line in lines) == expect["reasoning"]
