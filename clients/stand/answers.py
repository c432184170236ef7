"""Writes the scripted upstream's responses, in the API that the request's path belongs to.

The code follows the vendors' documentation and shares nothing with toolwire's readers.
"""

import json
import select
import socket
import struct
import zlib

# How long a response waits for its reader, in seconds.
PATIENCE = 30

# The token counts in every response, if its API has counts.
INPUT_TOKENS, OUTPUT_TOKENS = 11, 7

# The messages of simulated failures.
REFUSAL = "Too many requests for now."
FAILURE = "The model broke down."

# Arguments are sent in pieces of this many characters, after a first short one.
PIECE = 1000


class Gone(Exception):
    """The reader has disconnected, or has not done what the response waited for."""


def pieces(text, size=PIECE):
    return [text[at : at + size] for at in range(0, len(text), size)]


def turns_of(request):
    """Returns the turns of a request in any dialect."""
    request = request.get("Prompt", request)
    return next(request[key] for key in ("messages", "turns", "contents", "input") if key in request)


class Answer:
    """A response to toolwire. This class does HTTP and what the dialects share; subclasses write the stream."""

    content_type = b"text/event-stream"

    def __init__(self, connection, request, number, *, variant=None, go=None):
        self.connection = connection
        self.request = request
        # The number of earlier requests to this scenario.
        self.number = number
        # The second segment of the request's path.
        self.variant = variant
        self.go = go
        self.calls = 0

    # Implemented by each dialect.

    def begin(self):
        """Writes the head, and everything before the first content."""
        # The connection closes after the response. Without this header, clients may reuse it, and then sometimes fail.
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\nconnection: close\r\n" % self.content_type
        self.send(head + b"transfer-encoding: chunked\r\n\r\n")

    def text(self, *texts):
        raise NotImplementedError

    def reasoning(self, *texts):
        raise NotImplementedError

    def call(self, name, arguments):
        """Writes a call. `arguments` is JSON, which may be incomplete."""
        raise NotImplementedError

    def finish(self, reason):
        """Ends the response. `reason` is a finish reason of Chat Completions."""
        raise NotImplementedError

    def fail(self):
        """Reports a failure in the middle of the stream."""
        raise NotImplementedError

    def error_body(self, status):
        return {"error": {"message": REFUSAL, "type": "rate_limit_error", "param": None, "code": None}}

    # HTTP.

    def refuse(self, status=503):
        """Sends an error response instead of the stream."""
        self.json(self.error_body(status), b"%d Refused\r\nretry-after: 7" % status)

    def json(self, value, status=b"200 OK"):
        """Sends a JSON response. `status` may include further header lines."""
        body = json.dumps(value).encode()
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\nconnection: close\r\n" % status
        self.send(head + b"content-length: %d\r\n\r\n%s" % (len(body), body))

    def cut(self):
        """Ends the body in the middle of the stream, with complete HTTP framing."""
        self.send(b"0\r\n\r\n")

    def reset(self):
        # With a linger time of zero, closing resets the connection.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def wait(self, seconds):
        """Waits. Raises `Gone` if the reader disconnects in the meantime."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if not readable:
            return
        try:
            arrived = self.connection.recv(1, socket.MSG_PEEK)
        except ConnectionError as error:
            raise Gone from error
        if not arrived:
            raise Gone

    def wait_for_go(self):
        if not self.go.acquire(timeout=PATIENCE):
            raise Gone

    def object(self, value, event=None):
        """Sends one event of the stream."""
        name = f"event: {event}\n" if event else ""
        self.chunk(f"{name}data: {json.dumps(value)}\n\n".encode())

    def chunk(self, data):
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def send(self, data):
        try:
            self.connection.sendall(data)
        except OSError as error:
            raise Gone from error


class Chat(Answer):
    """OpenAI Chat Completions. Version 2 of Lumo's protocol is similar enough to use this class, too."""

    def begin(self):
        super().begin()
        self._delta({"role": "assistant", "content": ""})

    def text(self, *texts):
        for text in texts:
            self._delta({"content": text})

    def reasoning(self, *texts):
        for text in texts:
            self._delta({"reasoning_content": text})

    def call(self, name, arguments):
        function = {"name": name, "arguments": ""}
        self.calls += 1
        head = {"index": self.calls - 1, "id": f"call_up{self.number}x{self.calls}", "type": "function", "function": function}
        self._delta({"tool_calls": [head]})
        self.more(arguments[:5])
        for piece in pieces(arguments[5:]):
            self.more(piece)

    def more(self, arguments):
        self._delta({"tool_calls": [{"index": self.calls - 1, "function": {"arguments": arguments}}]})

    def finish(self, reason):
        self._delta({}, reason)
        counts = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
        if not self.request.get("stream") or (self.request.get("stream_options") or {}).get("include_usage"):
            self._object({"choices": [], "usage": counts | {"total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}})
        self.chunk(b"data: [DONE]\n\n")
        self.send(b"0\r\n\r\n")

    def fail(self):
        self.object({"error": {"message": FAILURE, "type": "server_error", "param": None, "code": "broken"}})
        self.cut()

    def _delta(self, delta, reason=None):
        self._object({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _object(self, members):
        head = {"id": "chatcmpl-up", "object": "chat.completion.chunk", "created": 1712000000, "model": "up"}
        self.object(head | members)


class LumoV1(Answer):
    """Version 1 of Lumo's protocol, which has pieces of text for several targets. The model writes calls as text."""

    def begin(self):
        super().begin()
        self.counts = {}
        self.object({"type": "queued", "target": "message"})
        self.object({"type": "ingesting", "target": "message"})

    def text(self, *texts):
        self._tokens("message", texts)

    def reasoning(self, *texts):
        self._tokens("reasoning", texts)

    def call(self, name, arguments):
        self.text("<pre>", f'{{"name": "{name}", "argu', 'ments": ', *pieces(arguments), "}", "</pre>")

    def finish(self, _reason):
        self.object({"type": "done"})
        self.send(b"0\r\n\r\n")

    def fail(self):
        self.object({"type": "error", "message": FAILURE})
        self.cut()

    def _tokens(self, target, texts):
        for text in texts:
            count = self.counts[target] = self.counts.get(target, -1) + 1
            self.object({"type": "token_data", "target": target, "count": count, "content": text})


class Messages(Answer):
    """Anthropic Messages."""

    def begin(self):
        super().begin()
        self.index = -1
        self.block = None
        usage = {"input_tokens": INPUT_TOKENS, "output_tokens": 1}
        message = {"id": "msg_up", "type": "message", "role": "assistant", "model": "up", "content": []}
        self._event("message_start", message=message | {"stop_reason": None, "stop_sequence": None, "usage": usage})
        self._event("ping")

    def text(self, *texts):
        self._open({"type": "text", "text": ""})
        for text in texts:
            self._delta({"type": "text_delta", "text": text})

    def reasoning(self, *texts):
        self._open({"type": "thinking", "thinking": "", "signature": ""})
        for text in texts:
            self._delta({"type": "thinking_delta", "thinking": text})
        self._delta({"type": "signature_delta", "signature": "c2lnbmF0dXJl"})
        self._close()

    def call(self, name, arguments):
        self._close()
        self.calls += 1
        self._open({"type": "tool_use", "id": f"toolu_up{self.number}x{self.calls}", "name": name, "input": {}})
        self.more("")
        self.more(arguments[:5])
        for piece in pieces(arguments[5:]):
            self.more(piece)

    def more(self, arguments):
        self._delta({"type": "input_json_delta", "partial_json": arguments})

    def finish(self, reason):
        self._close()
        reasons = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
        delta = {"stop_reason": reasons[reason], "stop_sequence": None}
        self._event("message_delta", delta=delta, usage={"output_tokens": OUTPUT_TOKENS})
        self._event("message_stop")
        self.send(b"0\r\n\r\n")

    def fail(self):
        self._event("error", error={"type": "api_error", "message": FAILURE})
        self.cut()

    def error_body(self, status):
        return {"type": "error", "error": {"type": "rate_limit_error", "message": REFUSAL}, "request_id": "req_up"}

    def _open(self, block):
        if self.block != block["type"]:
            self._close()
            self.index += 1
            self.block = block["type"]
            self._event("content_block_start", index=self.index, content_block=block)

    def _close(self):
        if self.block:
            self._event("content_block_stop", index=self.index)
        self.block = None

    def _delta(self, delta):
        self._event("content_block_delta", index=self.index, delta=delta)

    def _event(self, kind, **members):
        self.object({"type": kind} | members, event=kind)


class Responses(Answer):
    """OpenAI Responses."""

    def begin(self):
        super().begin()
        self.number_of_event = 0
        # The current item, and the text of its current part.
        self.item = None
        self.output = []
        self._event("created", response=self._response("in_progress"))
        self._event("in_progress", response=self._response("in_progress"))

    def text(self, *texts):
        if not self.item or self.item["type"] != "message":
            self._open({"type": "message", "role": "assistant", "content": []}, "msg")
            self.part = {"type": "output_text", "text": "", "annotations": []}
            self._item_event("content_part.added", content_index=0, part=self.part)
        for text in texts:
            self.part = self.part | {"text": self.part["text"] + text}
            self._item_event("output_text.delta", content_index=0, delta=text, logprobs=[])

    def reasoning(self, *texts):
        self._open({"type": "reasoning", "summary": []}, "rs")
        empty, text = {"type": "summary_text", "text": ""}, "".join(texts)
        self._item_event("reasoning_summary_part.added", summary_index=0, part=empty)
        for piece in texts:
            self._item_event("reasoning_summary_text.delta", summary_index=0, delta=piece)
        self._item_event("reasoning_summary_text.done", summary_index=0, text=text)
        self._item_event("reasoning_summary_part.done", summary_index=0, part=empty | {"text": text})
        self.item["summary"] = [empty | {"text": text}]
        self._close()

    def call(self, name, arguments):
        self.calls += 1
        head = {"type": "function_call", "call_id": f"call_up{self.number}x{self.calls}", "name": name, "arguments": ""}
        self._open(head, "fc")
        self.more(arguments[:5])
        for piece in pieces(arguments[5:]):
            self.more(piece)

    def more(self, arguments):
        self.item["arguments"] += arguments
        self._item_event("function_call_arguments.delta", delta=arguments)

    def finish(self, reason):
        self._close()
        status = "incomplete" if reason == "length" else "completed"
        self._event(status, response=self._response(status))
        self.send(b"0\r\n\r\n")

    def fail(self):
        self._event("failed", response=self._response("failed"))
        self.cut()

    def _response(self, status):
        counts = {
            "input_tokens": INPUT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        }
        return {
            "id": "resp_up",
            "object": "response",
            "created_at": 1712000000,
            "status": status,
            "model": "up",
            "output": self.output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": {"code": "server_error", "message": FAILURE} if status == "failed" else None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "usage": None if status in ("in_progress", "failed") else counts,
        }

    def _open(self, item, prefix):
        self._close()
        self.item = {"id": f"{prefix}_up{len(self.output)}", "status": "in_progress"} | item
        self._event("output_item.added", output_index=len(self.output), item=self.item)

    def _close(self):
        if not self.item:
            return
        if self.item["type"] == "message":
            self._item_event("output_text.done", content_index=0, text=self.part["text"], logprobs=[])
            self._item_event("content_part.done", content_index=0, part=self.part)
            self.item["content"] = [self.part]
        if self.item["type"] == "function_call":
            self._item_event("function_call_arguments.done", arguments=self.item["arguments"])
        self.item["status"] = "completed"
        self._event("output_item.done", output_index=len(self.output), item=self.item)
        self.output.append(self.item)
        self.item = None

    def _item_event(self, kind, **members):
        self._event(kind, item_id=self.item["id"], output_index=len(self.output), **members)

    def _event(self, kind, **members):
        kind = f"response.{kind}"
        self.object({"type": kind, "sequence_number": self.number_of_event} | members, event=kind)
        self.number_of_event += 1


class Gemini(Answer):
    """Google Gemini's streamGenerateContent with `alt=sse`. Calls are not split."""

    def text(self, *texts):
        for text in texts:
            self._part({"text": text})

    def reasoning(self, *texts):
        for text in texts:
            self._part({"text": text, "thought": True})

    def call(self, name, arguments):
        self.calls += 1
        # Only the first of several parallel calls has a signature.
        signature = {"thoughtSignature": "c2lnbmF0dXJl"} if self.calls == 1 else {}
        try:
            self._part({"functionCall": {"name": name, "args": json.loads(arguments)}} | signature)
        except ValueError:
            self.chunk(f'data: {{"candidates": [{{"content": {{"parts": [{{"functionCall": {{"name": "{name}", '.encode())

    def finish(self, reason):
        self._part({"text": ""}, finishReason="MAX_TOKENS" if reason == "length" else "STOP")
        self.send(b"0\r\n\r\n")

    def fail(self):
        self.object(self.error_body(503))
        self.cut()

    def error_body(self, status):
        words = {429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        message = REFUSAL if status == 429 else FAILURE
        return {"error": {"code": status, "message": message, "status": words[status]}}

    def _part(self, part, **members):
        counts = {"promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS}
        candidate = {"content": {"role": "model", "parts": [part]}, "index": 0} | members
        usage = counts | {"totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS}
        self.object({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "up", "responseId": "up"})


class Interactions(Answer):
    """Google's Interactions."""

    def begin(self):
        super().begin()
        self.index = -1
        self.step = None
        self._event("interaction.created", interaction=self._interaction("in_progress"))

    def text(self, *texts):
        self._open({"type": "model_output"})
        for text in texts:
            self._delta({"type": "text", "text": text})

    def reasoning(self, *texts):
        self._open({"type": "thought"})
        for text in texts:
            self._delta({"type": "thought_summary", "content": {"type": "text", "text": text}})
        self._delta({"type": "thought_signature", "signature": "c2lnbmF0dXJl"})
        self._close()

    def call(self, name, arguments):
        self._close()
        self.calls += 1
        self._open({"type": "function_call", "id": f"up{self.number}x{self.calls}", "name": name, "arguments": {}})
        self.more(arguments[:5])
        for piece in pieces(arguments[5:]):
            self.more(piece)

    def more(self, arguments):
        self._delta({"type": "arguments_delta", "arguments": arguments})

    def finish(self, reason):
        self._close()
        statuses = {"stop": "completed", "tool_calls": "requires_action", "length": "incomplete"}
        usage = {"total_input_tokens": INPUT_TOKENS, "total_output_tokens": OUTPUT_TOKENS}
        self._event("interaction.completed", interaction=self._interaction(statuses[reason]) | {"usage": usage})
        self.chunk(b"event: done\ndata: [DONE]\n\n")
        self.send(b"0\r\n\r\n")

    def fail(self):
        self._event("error", error={"code": "internal_error", "message": FAILURE})
        self.cut()

    def error_body(self, status):
        return Gemini.error_body(self, status)

    def _open(self, step):
        if self.step != step["type"]:
            self._close()
            self.index += 1
            self.step = step["type"]
            self._event("step.start", index=self.index, step=step)

    def _close(self):
        if self.step:
            self._event("step.stop", index=self.index)
        self.step = None

    def _delta(self, delta):
        self._event("step.delta", index=self.index, delta=delta)

    def _interaction(self, status):
        return {"id": "v1_up", "object": "interaction", "status": status, "model": "up"}

    def _event(self, kind, **members):
        self.object({"event_type": kind} | members, event=kind)


class Bedrock(Answer):
    """Amazon Bedrock's ConverseStream, in binary frames."""

    content_type = b"application/vnd.amazon.eventstream"

    def begin(self):
        super().begin()
        self.index = -1
        self.block = None
        self._event("messageStart", role="assistant")

    def text(self, *texts):
        self._open("text")
        for text in texts:
            self._delta({"text": text})

    def reasoning(self, *texts):
        self._open("reasoning")
        for text in texts:
            self._delta({"reasoningContent": {"text": text}})
        self._delta({"reasoningContent": {"signature": "c2lnbmF0dXJl"}})
        self._close()

    def call(self, name, arguments):
        self._close()
        self.calls += 1
        self._open("call", {"toolUse": {"toolUseId": f"tooluse_up{self.number}x{self.calls}", "name": name}})
        self.more(arguments[:5])
        for piece in pieces(arguments[5:]):
            self.more(piece)

    def more(self, arguments):
        self._delta({"toolUse": {"input": arguments}})

    def finish(self, reason):
        self._close()
        self._event("messageStop", stopReason=BEDROCK_REASONS[reason])
        counts = {"inputTokens": INPUT_TOKENS, "outputTokens": OUTPUT_TOKENS, "totalTokens": INPUT_TOKENS + OUTPUT_TOKENS}
        self._event("metadata", usage=counts, metrics={"latencyMs": 1})
        self.send(b"0\r\n\r\n")

    def fail(self):
        self._frame({":message-type": "exception", ":exception-type": "internalServerException"}, {"message": FAILURE})
        self.cut()

    def error_body(self, status):
        return {"message": REFUSAL}

    def _open(self, kind, start=None):
        if self.block != kind:
            self._close()
            self.index += 1
            self.block = kind
            if start:
                self._event("contentBlockStart", contentBlockIndex=self.index, start=start)

    def _close(self):
        if self.block:
            self._event("contentBlockStop", contentBlockIndex=self.index)
        self.block = None

    def _delta(self, delta):
        self._event("contentBlockDelta", contentBlockIndex=self.index, delta=delta)

    def _event(self, kind, **members):
        self._frame({":message-type": "event", ":event-type": kind, ":content-type": "application/json"}, members)

    def _frame(self, headers, value):
        payload = json.dumps(value).encode()
        # The length of the name, the name, the type of a string, its length, the string.
        headers = b"".join(
            struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", 7, len(word)) + word.encode()
            for name, word in headers.items()
        )
        head = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
        frame = head + struct.pack(">I", zlib.crc32(head)) + headers + payload
        self.chunk(frame + struct.pack(">I", zlib.crc32(frame)))


# The reasons of Bedrock for those of Chat Completions.
BEDROCK_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


class Ollama(Answer):
    """Ollama's /api/chat, with lines of JSON. Calls are not split, and have no ids."""

    content_type = b"application/x-ndjson"

    def text(self, *texts):
        for text in texts:
            self._message({"content": text})

    def reasoning(self, *texts):
        for text in texts:
            self._message({"content": "", "thinking": text})

    def call(self, name, arguments):
        self.calls += 1
        try:
            function = {"name": name, "arguments": json.loads(arguments)}
            self._message({"content": "", "tool_calls": [{"function": function}]})
        except ValueError:
            self.chunk(f'{{"model": "up", "message": {{"tool_calls": [{{"function": {{"name": "{name}", '.encode())

    def finish(self, reason):
        done = {"done": True, "done_reason": "length" if reason == "length" else "stop", "total_duration": 1000}
        self._message({"content": ""}, **done, prompt_eval_count=INPUT_TOKENS, eval_count=OUTPUT_TOKENS)
        self.send(b"0\r\n\r\n")

    def fail(self):
        self.object({"error": FAILURE})
        self.cut()

    def error_body(self, status):
        return {"error": REFUSAL}

    def object(self, value, event=None):
        self.chunk(json.dumps(value).encode() + b"\n")

    def _message(self, message, **members):
        head = {"model": "up", "created_at": "2026-11-23T00:00:00.000000Z", "done": False}
        self.object(head | {"message": {"role": "assistant"} | message} | members)


# The dialect for paths that end like this. The first match counts.
PATHS = [
    ("/ai/v1/chat", LumoV1),
    ("/api/chat", Ollama),
    ("/messages", Messages),
    ("/responses", Responses),
    (":streamGenerateContent", Gemini),
    (":generateContent", Gemini),
    ("/interactions", Interactions),
    ("/converse-stream", Bedrock),
    ("/converse", Bedrock),
    ("/chat/completions", Chat),
    # toolwire forwards these requests unread.
    ("/embeddings", Chat),
]


def of_path(path):
    """Returns the class that writes responses to requests for `path`."""
    path = path.split("?")[0]
    return next(dialect for end, dialect in PATHS if path.endswith(end))
