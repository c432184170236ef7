"""A client of Ollama, using its SDK. The SDK drops the ids of calls, so each call gets its place instead."""

import json
from functools import cache

import ollama
from stand import STAND, TIMEOUT, Answer

BASE_URL = STAND["url"].removesuffix("/v1")


@cache
def client():
    headers = {"authorization": f"Bearer {STAND['key']}"}
    return ollama.Client(host=BASE_URL, headers=headers, timeout=TIMEOUT)


def as_chat(request):
    """Converts a Chat Completions request to one of Ollama."""
    names = {}
    messages = []
    for message in request["messages"]:
        turn = {"role": message["role"], "content": message.get("content") or ""}
        for call in message.get("tool_calls") or []:
            function = call["function"]
            names[call["id"]] = function["name"]
            arguments = json.loads(function["arguments"] or "{}")
            turn.setdefault("tool_calls", []).append({"function": {"name": function["name"], "arguments": arguments}})
        if message["role"] == "tool":
            turn["tool_name"] = names[message["tool_call_id"]]
        messages.append(turn)
    return {"model": request["model"], "messages": messages, "tools": request.get("tools")}


class Ollama:
    """ollama: `chat`, streamed and complete."""

    sees = {"text", "reasoning", "calls", "usage"}
    sees_errors_as = {"status", "message"}

    def stream(self, request):
        answer = Answer()
        try:
            for part in client().chat(**as_chat(request), stream=True):
                self._take(part, answer)
        except (ollama.ResponseError, ConnectionError) as error:
            answer.error = error
        return answer

    def whole(self, request):
        answer = Answer()
        try:
            self._take(client().chat(**as_chat(request), stream=False), answer)
        except (ollama.ResponseError, ConnectionError) as error:
            answer.error = error
        return answer

    def leave(self, request):
        parts = client().chat(**as_chat(request), stream=True)
        next(part for part in parts if part.message.content)
        parts.close()

    def _take(self, part, answer):
        assert answer.finish is None, "a part follows the last one"
        answer.text += part.message.content or ""
        answer.reasoning += part.message.thinking or ""
        for call in part.message.tool_calls or []:
            function = call.function
            arguments = json.dumps(dict(function.arguments))
            answer.calls.append({"id": f"call_{len(answer.calls)}", "name": function.name, "arguments": arguments})
        if part.done:
            assert part.total_duration >= part.eval_duration >= 0
            calls = part.done_reason == "stop" and answer.calls
            answer.finish = "tool_calls" if calls else part.done_reason
            counts = {"prompt_tokens": part.prompt_eval_count, "completion_tokens": part.eval_count}
            answer.usage = {name: count for name, count in counts.items() if count is not None}
