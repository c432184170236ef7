"""A client of Anthropic Messages, using Anthropic's SDK."""

import json
from functools import cache

import anthropic
from sdk import STAND, TIMEOUT, Answer

FINISHES = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}

# Anthropic's SDK appends `/v1` to the base URL itself.
BASE_URL = STAND["url"].removesuffix("/v1")


@cache
def client():
    return anthropic.Anthropic(base_url=BASE_URL, api_key=STAND["key"], max_retries=0, timeout=TIMEOUT)


def as_messages(request):
    """Converts a Chat Completions request to a Messages request."""
    turns, system = [], []
    for message in request["messages"]:
        content = message.get("content") or ""
        if message["role"] in ("system", "developer"):
            system.append(content)
        elif message["role"] == "tool":
            block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": content}
            turns.append({"role": "user", "content": [block]})
        elif message["role"] == "assistant":
            blocks = [{"type": "text", "text": content}] if content else []
            blocks += [
                {
                    "type": "tool_use",
                    "id": call["id"],
                    "name": call["function"]["name"],
                    "input": json.loads(call["function"]["arguments"] or "{}"),
                }
                for call in message.get("tool_calls", [])
            ]
            turns.append({"role": "assistant", "content": blocks})
        else:
            turns.append({"role": "user", "content": content})
    made = {"model": request["model"], "max_tokens": 1000, "messages": turns}
    if system:
        made["system"] = "\n".join(system)
    tools = [tool["function"] for tool in request.get("tools", [])]
    if tools:
        empty = {"type": "object", "properties": {}}
        made["tools"] = [
            {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "input_schema": tool.get("parameters") or empty,
            }
            for tool in tools
        ]
        wanted = request.get("tool_choice", "auto")
        if isinstance(wanted, dict):
            choice = {"type": "tool", "name": wanted["function"]["name"]}
        else:
            choice = {"type": "any" if wanted == "required" else wanted}
        if request.get("parallel_tool_calls") is False:
            choice["disable_parallel_tool_use"] = True
        made["tool_choice"] = choice
    return made


def answer_of(message):
    answer = Answer(finish=FINISHES[message.stop_reason])
    answer.usage = {
        "prompt_tokens": message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0),
        "completion_tokens": message.usage.output_tokens,
    }
    for block in message.content:
        if block.type == "text":
            answer.text += block.text
        elif block.type == "thinking":
            answer.reasoning += block.thinking
        elif block.type == "tool_use":
            answer.calls.append({"id": block.id, "name": block.name, "arguments": written(block.input)})
    return answer


def written(arguments):
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


class Messages:
    """anthropic: its `.stream()` helper, and non-streaming requests."""

    sees = {"text", "reasoning", "calls", "usage"}
    sees_errors_as = {"status", "message"}

    def stream(self, request):
        pieces = []
        try:
            with client().messages.stream(**as_messages(request)) as events:
                pieces.extend(event.text for event in events if event.type == "text")
                answer = answer_of(events.get_final_message())
        except anthropic.APIError as error:
            return Answer(text="".join(pieces), error=error)
        assert "".join(pieces) == answer.text
        return answer

    def whole(self, request):
        try:
            return answer_of(client().messages.create(**as_messages(request)))
        except anthropic.APIError as error:
            return Answer(error=error)

    def leave(self, request):
        with client().messages.stream(**as_messages(request)) as events:
            next(event for event in events if event.type == "text")
