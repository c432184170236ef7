"""The upstreams' dialects: the frames of one turn, and how each dialect reports a failure."""

import json

from answers import Turn

PIECE = 60


def pieces(text):
    return [text[start:start + PIECE] for start in range(0, len(text), PIECE)]


def sse(value, event=None):
    data = value if isinstance(value, str) else json.dumps(value)
    return (f"event: {event}\n" if event else "").encode() + f"data: {data}\n\n".encode()


def line(value):
    return json.dumps(value).encode() + b"\n"


class Dialect:
    """`frames` returns three lists: the beginning, a frame for each token or piece of a call, and the end."""

    content_type = "text/event-stream"

    def frames(self, answer, number, turn):
        raise NotImplementedError

    def error(self):
        """A failure within a stream."""
        return sse({"error": {"message": "soak: scripted", "type": "server_error", "code": "server_error"}})

    def refusal(self, status):
        """The body of a failure before the stream."""
        return {"error": {"message": "soak: scripted", "type": "server_error", "code": None}}


class Chat(Dialect):
    kind = "chat.completion.chunk"

    def chunk(self, answer, delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = {"id": f"chatcmpl-{answer.id}", "object": self.kind, "created": 1790000000, "model": "soak"}
        return sse(head | {"choices": [choice]})

    def frames(self, answer, number, turn):
        begin = [self.chunk(answer, {"role": "assistant", "content": ""})]
        middle = [self.chunk(answer, {"content": token}) for token in turn.tokens]
        for index, (name, arguments) in enumerate(turn.calls):
            call = {"index": index, "id": f"call_{answer.id}_{number}_{index}", "type": "function"}
            middle.append(self.chunk(answer, {"tool_calls": [call | {"function": {"name": name, "arguments": ""}}]}))
            for piece in pieces(json.dumps(arguments)):
                middle.append(self.chunk(answer, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
        end = [self.chunk(answer, {}, "tool_calls" if turn.calls else "stop"), sse("[DONE]")]
        return begin, middle, end


class Lumo(Chat):
    kind = "CompletionChunk"


def hermes(name, arguments):
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def qwen3_coder(name, arguments):
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def in_text(turn, write):
    """Returns the turn with its calls as text."""
    text = "".join("\n" + write(name, arguments) for name, arguments in turn.calls)
    return Turn(turn.tokens + pieces(text), [])


class AsText(Dialect):
    """Another dialect whose model writes calls as text."""

    def __init__(self, inner, write):
        self.inner, self.write, self.content_type = inner, write, inner.content_type
        self.error, self.refusal = inner.error, inner.refusal

    def frames(self, answer, number, turn):
        return self.inner.frames(answer, number, in_text(turn, self.write))


class Completions(Dialect):
    def chunk(self, text, finish=None):
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
        return sse({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "soak", "choices": [choice]})

    def frames(self, answer, number, turn):
        return [], [self.chunk(token) for token in turn.tokens], [self.chunk("", "stop"), sse("[DONE]")]


class LumoV1(Dialect):
    def frames(self, answer, number, turn):
        middle = [
            sse({"type": "token_data", "target": "message", "count": count, "content": token})
            for count, token in enumerate(turn.tokens)
        ]
        return [sse({"type": "ingesting", "target": "message"})], middle, [sse({"type": "done"})]

    def error(self):
        return sse({"type": "error", "message": "soak: scripted"})


class Messages(Dialect):
    def event(self, kind, **more):
        return sse({"type": kind} | more, kind)

    def frames(self, answer, number, turn):
        message = {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": "soak", "content": []}
        message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}
        begin = [self.event("message_start", message=message)]
        begin.append(self.event("content_block_start", index=0, content_block={"type": "text", "text": ""}))
        middle = [self.delta(0, {"type": "text_delta", "text": token}) for token in turn.tokens]
        open_ = 0
        for index, (name, arguments) in enumerate(turn.calls, 1):
            block = {"type": "tool_use", "id": f"toolu_{answer.id}_{number}_{index}", "name": name, "input": {}}
            start = self.event("content_block_start", index=index, content_block=block)
            middle.append(self.event("content_block_stop", index=open_) + start)
            for piece in pieces(json.dumps(arguments)):
                middle.append(self.delta(index, {"type": "input_json_delta", "partial_json": piece}))
            open_ = index
        stop = {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None}
        end = [self.event("content_block_stop", index=open_)]
        end += [self.event("message_delta", delta=stop, usage={"output_tokens": 9}), self.event("message_stop")]
        return begin, middle, end

    def delta(self, index, delta):
        return self.event("content_block_delta", index=index, delta=delta)

    def error(self):
        return self.event("error", error={"type": "overloaded_error", "message": "soak: scripted"})

    def refusal(self, status):
        return {"type": "error", "error": {"type": "api_error", "message": "soak: scripted"}}


class Responses(Dialect):
    def event(self, kind, **more):
        return sse({"type": kind, "sequence_number": 0} | more, kind)

    def frames(self, answer, number, turn):
        response = {"id": f"resp_{answer.id}", "object": "response", "created_at": 1, "status": "in_progress"}
        response |= {"model": "soak", "output": [], "error": None, "usage": None}
        item = {"id": "msg_0", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        part, at = {"type": "output_text", "annotations": [], "text": ""}, {"item_id": "msg_0", "output_index": 0}
        begin = [self.event("response.created", response=response)]
        begin.append(self.event("response.output_item.added", output_index=0, item=item))
        begin.append(self.event("response.content_part.added", content_index=0, part=part, **at))
        middle = [self.event("response.output_text.delta", content_index=0, delta=token, **at) for token in turn.tokens]
        text = "".join(turn.tokens)
        part, item = part | {"text": text}, item | {"status": "completed"}
        item["content"] = [part]
        closing = self.event("response.output_text.done", content_index=0, text=text, **at)
        closing += self.event("response.content_part.done", content_index=0, part=part, **at)
        closing += self.event("response.output_item.done", output_index=0, item=item)
        items = [item]
        for index, (name, arguments) in enumerate(turn.calls, 1):
            whole, id = json.dumps(arguments), f"fc_{index}"
            call = {"id": id, "type": "function_call", "call_id": f"call_{answer.id}_{number}_{index}", "name": name}
            open_ = call | {"status": "in_progress", "arguments": ""}
            middle.append(closing + self.event("response.output_item.added", output_index=index, item=open_))
            at = {"item_id": id, "output_index": index}
            middle += [self.event("response.function_call_arguments.delta", delta=piece, **at) for piece in pieces(whole)]
            items.append(call | {"status": "completed", "arguments": whole})
            closing = self.event("response.function_call_arguments.done", arguments=whole, **at)
            closing += self.event("response.output_item.done", output_index=index, item=items[-1])
        usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
        done = response | {"status": "completed", "output": items, "usage": usage}
        return begin, middle, [closing, self.event("response.completed", response=done)]

    def error(self):
        return self.event("error", code="server_error", message="soak: scripted", param=None)


class Gemini(Dialect):
    def chunk(self, *parts, **more):
        candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0} | more
        return sse({"candidates": [candidate], "modelVersion": "soak", "responseId": "x1"})

    def frames(self, answer, number, turn):
        middle = [self.chunk({"text": token}) for token in turn.tokens]
        middle += [self.chunk({"functionCall": {"name": name, "args": arguments}}) for name, arguments in turn.calls]
        return [], middle, [self.chunk({"text": ""}, finishReason="STOP")]

    def error(self):
        return sse(self.refusal(503))

    def refusal(self, status):
        return {"error": {"code": int(status), "message": "soak: scripted", "status": "UNAVAILABLE"}}


class Ollama(Dialect):
    content_type = "application/x-ndjson"

    def chunk(self, message, **more):
        return line({"model": "soak", "created_at": "2026-11-22T10:00:00Z", "message": message, "done": False} | more)

    def frames(self, answer, number, turn):
        said = {"role": "assistant", "content": ""}
        middle = [self.chunk(said | {"content": token}) for token in turn.tokens]
        for name, arguments in turn.calls:
            middle.append(self.chunk(said | {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}))
        counts = {"prompt_eval_count": 9, "eval_count": 9}
        return [], middle, [self.chunk(said, done=True, done_reason="stop", **counts)]

    def error(self):
        return line({"error": "soak: scripted"})

    def refusal(self, status):
        return {"error": "soak: scripted"}


# By the first segment of the upstream's path in the configuration.
KNOWN = {
    "chat": Chat(),
    "lumo": Lumo(),
    "lumo1": AsText(LumoV1(), hermes),
    "hermes": AsText(Chat(), hermes),
    "qwen": AsText(Chat(), qwen3_coder),
    "completions": AsText(Completions(), hermes),
    "messages": Messages(),
    "responses": Responses(),
    "gemini": Gemini(),
    "ollama": Ollama(),
}
