"""Large requests: how long it takes until the upstream gets their first byte.

Client and upstream run in this process and read the same clock. Requests are sent one at a time.
"""

import itertools
import json
import socket
import sys
import threading
import time
from typing import NamedTuple

from options import ROOT
from processes import MOCK, free_port, on_core
from targets import CHAT_PATH, MESSAGES_PATH, for_messages, tool

TOOLS = [
    tool(f"tool_{number}", **{f"argument_{place}": "string" for place in range(8)}) for number in range(40)
]


def body(size=250_000):
    """A conversation of `size` bytes with 40 tools. It consists of program code, so escapes occur at irregular intervals."""
    result = {"model": "m", "stream": True, "tools": TOOLS, "messages": []}
    code = "".join(file.read_text() for file in sorted((ROOT / "crates/wire/src").rglob("*.rs")))
    turns = itertools.cycle(code[at:at + 2000] for at in range(0, len(code), 2000))
    left = size - len(json.dumps(result))
    while left > 3000:
        role = "assistant" if len(result["messages"]) % 2 else "user"
        result["messages"].append({"role": role, "content": next(turns)})
        left -= len(json.dumps(result["messages"][-1]))
    result["messages"].append({"role": "user", "content": "And now?"})
    return json.dumps(result).encode()


class Form(NamedTuple):
    """What a client asks, and the words with which its response ends."""
    path: str
    body: bytes
    end: bytes


def forms(converts):
    """Returns the requests by name. What converts gets them for models behind Chat Completions, taught, and Messages."""
    asked = body()
    model = lambda name: asked.replace(b'"model": "m"', b'"model": "%s"' % name)
    result = {"large": Form(CHAT_PATH, asked, b"[DONE]")}
    if converts:
        result["large-taught"] = Form(CHAT_PATH, model(b"taught"), b"[DONE]")
        result["large-to-messages"] = Form(CHAT_PATH, model(b"messages"), b"[DONE]")
        result["large-from-messages"] = Form(
            MESSAGES_PATH, json.dumps(for_messages(json.loads(asked))).encode(), b"message_stop")
    return result


ANSWER = b"".join(
    b"data: " + json.dumps({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}).encode()
    + b"\n\n" for choice in (
        {"index": 0, "delta": {"role": "assistant", "content": "Yes."}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
    )) + b"data: [DONE]\n\n"
MESSAGE = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
MESSAGES_ANSWER = b"".join(
    b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in (
        {"type": "message_start", "message": MESSAGE | {"usage": {"input_tokens": 1, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Yes."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ))


class Sink:
    """An upstream that records when a request's first and last byte arrived."""

    def __init__(self):
        self.port, self.first, self.last = free_port(), 0, 0
        listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with on_core(MOCK):
            self.read(connection)

    def read(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (data := connection.recv(1 << 18)):
            self.first = time.perf_counter()
            head, _, rest = data.partition(b"\r\n\r\n")
            head = head.lower()
            is_chunked, read = b"transfer-encoding: chunked" in head, len(rest)
            length = 0 if is_chunked else int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            while not rest.endswith(b"0\r\n\r\n") if is_chunked else read < length:
                rest = connection.recv(1 << 18)
                read += len(rest)
            self.last = time.perf_counter()
            answer = MESSAGES_ANSWER if MESSAGES_PATH.encode() in head.partition(b"\r\n")[0] else ANSWER
            reply = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(answer)
            connection.sendall(reply + answer)


SINK = None


def sink():
    """Returns the upstream, which is started for the first measured target."""
    global SINK
    SINK = SINK or Sink()
    return SINK


def times(port, form, requests):
    """Returns the times, in µs, from the first byte that the client sends to the first and last bytes that the upstream gets."""
    with on_core(MOCK):
        return one_by_one(port, form, requests)


def one_by_one(port, form, requests):
    sent, upstream = form.body, sink()
    head = f"POST {form.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
    client = socket.create_connection(("127.0.0.1", port), 30)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    first, last = [], []
    for _ in range(requests):
        begun = time.perf_counter()
        client.sendall(head.encode() + sent)
        answer = b""
        while form.end not in answer:
            piece = client.recv(1 << 16)
            answer += piece
            if not piece or not answer.startswith(b"HTTP/1.1 200"):
                sys.exit(f"a large request failed: {answer[:300]}")
        client.setblocking(False)
        try:
            while client.recv(1 << 16):
                pass
        except BlockingIOError:
            client.settimeout(30)
        first.append((upstream.first - begun) * 1e6)
        last.append((upstream.last - begun) * 1e6)
    client.close()
    return first, last
