"""A scripted chat upstream and a client of toolwire, in one event loop, with one request at a time on each connection."""

import asyncio
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "reports"))
import received  # noqa: E402

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
HEAD = {"id": "c", "created": 1, "model": "m"}

# How long toolwire may take to respond, in seconds.
PATIENCE = 120


@dataclass
class Script:
    """What the upstream answers. `calls` are native: pairs of a name and the arguments' text."""

    text: str = ""
    finish: str = "stop"
    reasoning: str = ""
    calls: list = field(default_factory=list)
    ids: list = field(default_factory=list)

    def whole(self):
        message = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = list(self._native(self.calls))
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return json.dumps(HEAD | {"object": "chat.completion", "choices": [choice]})

    def stream(self):
        """Returns the events of a stream in pieces of 1 to 9 characters, which are the same each time."""
        pieces = Pieces(self.text + "".join(arguments for _, arguments in self.calls))
        deltas = [{"reasoning_content": piece} for piece in pieces.of(self.reasoning)]
        deltas += [{"content": piece} for piece in pieces.of(self.text)]
        for index, call in enumerate(self._native(self.calls)):
            arguments = call["function"]["arguments"]
            call["function"]["arguments"] = ""
            deltas.append({"tool_calls": [{"index": index} | call]})
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces.of(arguments)]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": self.finish})
        chunks = (HEAD | {"object": "chat.completion.chunk", "choices": [choice]} for choice in choices)
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"

    def _native(self, calls):
        for index, (name, arguments) in enumerate(calls):
            id = self.ids[index] if self.ids else f"call_{index}"
            yield {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


class Pieces:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def of(self, text):
        at = 0
        while at < len(text):
            end = at + self.random.randint(1, 9)
            yield text[at:end]
            at = end


class Connection(asyncio.Protocol):
    """Splits what arrives into HTTP messages, with a content-length or in chunks."""

    def connection_made(self, transport):
        self.transport, self.buffer = transport, b""

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            sized = head.find(b"content-length:")
            if sized >= 0:
                rest = end + 4 + int(head[sized + 15 :].split(b"\r\n", 1)[0])
                if len(self.buffer) < rest:
                    return
                body = self.buffer[end + 4 : rest]
            else:
                body, rest = self.chunks(end + 4)
                if body is None:
                    return
            self.buffer = self.buffer[rest:]
            self.message(head, body)

    def chunks(self, at):
        parts = []
        while (line := self.buffer.find(b"\r\n", at)) >= 0:
            size = int(self.buffer[at:line].split(b";")[0], 16)
            at = line + 4 + size
            if len(self.buffer) < at:
                break
            parts.append(self.buffer[line + 2 : at - 2])
            if not size:
                return b"".join(parts), at
        return None, at


class Upstream(Connection):
    """Answers each request with the script that `answer` returns for its body."""

    def __init__(self, answer):
        self.answer = answer

    def message(self, head, body):
        asked = json.loads(body)
        script = self.answer(asked)
        streamed = asked.get("stream")
        body = (script.stream() if streamed else script.whole()).encode()
        kind = b"text/event-stream" if streamed else b"application/json"
        self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (kind, len(body)) + body)


class Client(Connection):
    waiting = None

    def message(self, head, body):
        self.waiting.set_result((int(head.split()[1]), body))

    def connection_lost(self, error):
        if self.waiting and not self.waiting.done():
            self.waiting.set_exception(ConnectionError(f"toolwire closed the connection: {error}"))

    async def ask(self, api, request):
        """Sends a request, and returns the response as received.py describes it."""
        body = json.dumps(request).encode()
        self.waiting = asyncio.get_running_loop().create_future()
        head = f"POST {PATHS[api]} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        if api == "messages":
            head += "anthropic-version: 2023-06-01\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        status, answer = await asyncio.wait_for(self.waiting, PATIENCE)
        return received.read(api, status, answer, request["stream"])


async def listen(answer):
    """Starts an upstream, and returns its port."""
    server = await asyncio.get_running_loop().create_server(lambda: Upstream(answer), "127.0.0.1", 0)
    return server.sockets[0].getsockname()[1]


async def connect(port):
    _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", port)
    return client


async def share(port, work, play, connections=8):
    """Plays each item of the iterator `work` with `play(client, item)`, on several connections."""
    work = iter(work)

    async def worker():
        client = await connect(port)
        for item in work:
            await play(client, item)
        client.transport.close()

    await asyncio.gather(*(worker() for _ in range(connections)))


def same(left, right):
    """Whether two JSON values are equal, with their types: 1 and 1.0 are, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def difference(wanted, got):
    """Says how calls differ from the wanted pairs of name and arguments, or returns None."""
    if got["status"] != 200 or got["error"]:
        return "error"
    try:
        calls = [(name, json.loads(arguments)) for _, name, arguments in got["calls"]]
    except ValueError:
        return "not JSON"
    if len(calls) != len(wanted):
        return "lost" if len(calls) < len(wanted) else "invented"
    if [name for name, _ in calls] != [name for name, _ in wanted]:
        return "name"
    if not all(same(arguments, want) for (_, arguments), (_, want) in zip(calls, wanted)):
        return "arguments"
    return None
