"""Clients of three APIs. Each sends a request through its SDK, streaming or not, and returns the response that the SDK has assembled."""

from dataclasses import dataclass, field

import anthropic
import openai
from harness import STARTING

WEATHER = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@dataclass
class Answer:
    """What a client has received."""

    text: str
    finish: str
    # Calls to the client's tools: (id, name, arguments).
    calls: list = field(default_factory=list)
    # Calls that the server ran: (type of the item or block, name, the SDK's object).
    hosted: list = field(default_factory=list)
    tokens: int = 0
    # What the client appends to its history.
    own: list = field(default_factory=list)


class Chat:
    """openai, Chat Completions."""

    def __init__(self, url):
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=STARTING)

    def question(self, text):
        return [{"role": "user", "content": text}]

    def result(self, id, content):
        return [{"role": "tool", "tool_call_id": id, "content": content}]

    def ask(self, history, stream, tools=()):
        declared = {"tools": [{"type": "function", "function": tool} for tool in tools]} if tools else {}
        request = {"model": "m", "messages": history, **declared}
        if stream:
            with self.client.chat.completions.stream(**request, stream_options={"include_usage": True}) as events:
                completion = events.get_final_completion()
        else:
            completion = self.client.chat.completions.create(**request)
        [choice] = completion.choices
        message = choice.message
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]
        # A call and its result are separate elements with the same id.
        results = {}
        for element in getattr(message, "tool_results", None) or []:
            results.setdefault(element["id"], {}).update(element)
        hosted = [("tool_results", result["name"], result) for result in results.values()]
        own = [message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})]
        return Answer(message.content or "", choice.finish_reason, calls, hosted, completion.usage.total_tokens, own)


class Responses:
    """openai, Responses."""

    def __init__(self, url):
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=STARTING)

    def question(self, text):
        return [{"role": "user", "content": text}]

    def result(self, id, content):
        return [{"type": "function_call_output", "call_id": id, "output": content}]

    def ask(self, history, stream, tools=()):
        declared = {"tools": [{"type": "function", **tool} for tool in tools]} if tools else {}
        request = {"model": "m", "input": history, "store": False, **declared}
        if stream:
            with self.client.responses.stream(**request) as events:
                response = events.get_final_response()
        else:
            response = self.client.responses.create(**request)
        calls = [(item.call_id, item.name, item.arguments) for item in response.output if item.type == "function_call"]
        run = [item for item in response.output if item.type in ("web_search_call", "mcp_call")]
        hosted = [(item.type, getattr(item, "name", None), item) for item in run]
        own = [item.model_dump(exclude_none=True) for item in response.output]
        # Remove fields that the SDK's helpers add.
        for item in own:
            for part in [item, *(item.get("content") or [])]:
                part.pop("parsed", None), part.pop("parsed_arguments", None)
        return Answer(response.output_text, response.status, calls, hosted, response.usage.total_tokens, own)


class Messages:
    """anthropic."""

    def __init__(self, url):
        self.client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=STARTING)

    def question(self, text):
        return [{"role": "user", "content": text}]

    def result(self, id, content):
        return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": content}]}]

    def ask(self, history, stream, tools=()):
        declare = lambda tool: {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
        declared = {"tools": [declare(tool) for tool in tools]} if tools else {}
        request = {"model": "m", "messages": history, "max_tokens": 1000, **declared}
        if stream:
            with self.client.messages.stream(**request) as events:
                message = events.get_final_message()
        else:
            message = self.client.messages.create(**request)
        text = "".join(block.text for block in message.content if block.type == "text")
        calls = [(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"]
        run = [block for block in message.content if block.type not in ("text", "tool_use", "thinking")]
        hosted = [(block.type, getattr(block, "name", None), block) for block in run]
        tokens = message.usage.input_tokens + message.usage.output_tokens
        own = [{"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]}]
        return Answer(text, message.stop_reason, calls, hosted, tokens, own)


SDKS = {"chat": Chat, "responses": Responses, "messages": Messages}

# How each API says that a response is complete, or that the client must run calls.
COMPLETE = {"chat": "stop", "responses": "completed", "messages": "end_turn"}
CALLS = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}
