"""The clients' APIs: how each asks, and how its stream is read."""

import json

import answers

PARAMETERS = {
    "write_file": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    }
}


class Stream:
    """What a client has read of one response. `end` is `complete` or `error` once the stream has said so."""

    def __init__(self):
        self.text, self.calls, self.end, self.finish, self.message, self.id = [], {}, None, None, "", None
        # The keys of the calls that the API has declared complete.
        self.closed = set()

    def call(self, key, id=None, name=None, arguments=""):
        call = self.calls.setdefault(key, {"id": None, "name": None, "arguments": []})
        call["id"], call["name"] = id or call["id"], name or call["name"]
        call["arguments"].append(arguments)

    def failed(self, message):
        self.end, self.message = "error", str(message)

    def spoken(self):
        """Returns the calls as (name, arguments). Arguments that are not JSON are returned as text."""
        return [(call["name"], parsed("".join(call["arguments"]))) for call in self.calls.values()]

    def event(self, data):
        """Processes the data of one event."""
        raise NotImplementedError


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


class Chat(Stream):
    path = "/v1/chat/completions"

    @staticmethod
    def request(model, messages, tools):
        body = {"model": model, "stream": True, "messages": messages}
        if tools:
            body["tools"] = [
                {"type": "function", "function": {"name": name, "description": "Writes.", "parameters": schema}}
                for name, schema in PARAMETERS.items()
            ]
        return body

    def event(self, data):
        if data == b"[DONE]":
            self.end = self.end or "complete"
            return
        frame = json.loads(data)
        if "error" in frame:
            return self.failed(frame["error"])
        for choice in frame["choices"]:
            delta = choice["delta"]
            if delta.get("content"):
                self.text.append(delta["content"])
            for call in delta.get("tool_calls") or ():
                function = call.get("function", {})
                self.call(call["index"], call.get("id"), function.get("name"), function.get("arguments") or "")
            self.finish = choice.get("finish_reason") or self.finish

    def finished_with_calls(self):
        return {"tool_calls": True, "stop": False}.get(self.finish)

    def history(self, answer):
        """Returns the history after this response: the question, the response, and the results of its calls."""
        calls = [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": "".join(call["arguments"])}}
            for call in self.calls.values()
        ]
        said = {"role": "assistant", "content": "".join(self.text), "tool_calls": calls}
        result = answers.client_result(answer)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": result} for call in calls]
        return [{"role": "user", "content": answer.tag}, said, *results]


class Messages(Stream):
    path = "/v1/messages"

    @staticmethod
    def request(model, messages, tools):
        body = {"model": model, "stream": True, "max_tokens": 4096, "messages": messages}
        if tools:
            body["tools"] = [
                {"name": name, "description": "Writes.", "input_schema": schema} for name, schema in PARAMETERS.items()
            ]
        return body

    def event(self, data):
        frame = json.loads(data)
        kind = frame["type"]
        if kind == "content_block_start" and frame["content_block"]["type"] == "tool_use":
            self.call(frame["index"], frame["content_block"]["id"], frame["content_block"]["name"])
        elif kind == "content_block_delta":
            delta = frame["delta"]
            if delta["type"] == "text_delta":
                self.text.append(delta["text"])
            elif delta["type"] == "input_json_delta":
                self.call(frame["index"], arguments=delta["partial_json"])
        elif kind == "content_block_stop":
            self.closed.add(frame["index"])
        elif kind == "message_delta":
            self.finish = frame["delta"]["stop_reason"]
        elif kind == "message_stop":
            self.end = self.end or "complete"
        elif kind == "error":
            self.failed(frame["error"])

    def finished_with_calls(self):
        return {"tool_use": True, "end_turn": False}.get(self.finish)

    def history(self, answer):
        said = [{"type": "text", "text": "".join(self.text)}]
        said += [
            {"type": "tool_use", "id": call["id"], "name": call["name"], "input": parsed("".join(call["arguments"]))}
            for call in self.calls.values()
        ]
        result = answers.client_result(answer)
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result} for call in self.calls.values()
        ]
        return [
            {"role": "user", "content": answer.tag},
            {"role": "assistant", "content": said},
            {"role": "user", "content": results},
        ]


class Responses(Stream):
    path = "/v1/responses"

    @staticmethod
    def request(model, messages, tools):
        body = {"model": model, "stream": True, "input": messages}
        if tools:
            body["tools"] = [
                {"type": "function", "name": name, "description": "Writes.", "parameters": schema, "strict": False}
                for name, schema in PARAMETERS.items()
            ]
        return body

    def event(self, data):
        frame = json.loads(data)
        kind = frame["type"]
        if kind == "response.output_text.delta":
            self.text.append(frame["delta"])
        elif kind == "response.output_item.added" and frame["item"]["type"] == "function_call":
            self.call(frame["item"]["id"], frame["item"]["call_id"], frame["item"]["name"])
        elif kind == "response.function_call_arguments.delta":
            self.call(frame["item_id"], arguments=frame["delta"])
        elif kind == "response.function_call_arguments.done":
            self.closed.add(frame["item_id"])
        elif kind in ("response.completed", "response.incomplete"):
            self.end = self.end or "complete"
            self.finish, self.id = frame["response"]["status"], frame["response"]["id"]
        elif kind in ("error", "response.failed"):
            self.failed(frame)

    def finished_with_calls(self):
        return bool(self.calls) if self.finish == "completed" else None

    def history(self, answer):
        items = [{"role": "user", "content": answer.tag}]
        if self.text:
            items.append({"role": "assistant", "content": "".join(self.text)})
        for call in self.calls.values():
            arguments = "".join(call["arguments"])
            items.append(
                {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": arguments})
        result = answers.client_result(answer)
        for call in self.calls.values():
            items.append({"type": "function_call_output", "call_id": call["id"], "output": result})
        return items


KNOWN = {"chat": Chat, "messages": Messages, "responses": Responses}
