"""Plays cases made from public bug reports of other gateways, servers and clients: play.py [SUBSTRING]

Each line of cases.jsonl is a case. `ref` lists the reports, `up` is a model in toolwire.py, `client` is the client's API, `request`
contains what to add to a plain request, and `response` is the upstream's response (or `pieces`, in which a number is a pause in
seconds). `check` describes the expected response to the client: `calls`, `text`, `finish`, `no_error` and `max_seconds`. Its `got_is`
and `asked_is` are Python expressions over `got` (see received.py), `asked` (the body of the upstream request) and `asked_headers`.
TOOLWIRE_BIN selects the program."""

import http.client
import json
import os
import socket
import socketserver
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import received
import toolwire

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
TOOLS = [
    ["get_weather", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}],
    ["list_files", {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}}}],
]


class Upstream(socketserver.ThreadingMixIn, HTTPServer):
    """An upstream that responds with `answer`, and stores the last request in `asked` and `headers`."""

    daemon_threads = True
    answer = ([], 200, "text/event-stream")
    asked, headers = {}, {}

    def handle_error(self, *_):
        pass


class Exchange(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.asked = json.loads(body)
        self.server.headers = {name.lower(): value for name, value in self.headers.items()}
        pieces, status, content_type = self.server.answer
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.end_headers()
        for piece in pieces:
            if isinstance(piece, (int, float)):
                time.sleep(piece)
            else:
                self.wfile.write(piece.encode())
                self.wfile.flush()


def ok(dialect):
    """Returns a short, correct response."""
    event = lambda event: f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    data = lambda value: f"data: {json.dumps(value)}\n\n"
    if dialect == "messages":
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        return "".join(map(event, [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_stop"},
        ]))
    if dialect == "responses":
        text = {"type": "output_text", "text": "ok", "annotations": []}
        item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
        response = {"id": "r", "object": "response", "created_at": 1, "model": "m"}
        return "".join(map(event, [
            {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}},
            {"type": "response.output_text.delta", "item_id": "m1", "output_index": 0, "content_index": 0, "delta": "ok"},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response | {"status": "completed", "output": [item]}},
        ]))
    if dialect == "gemini":
        return data({"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]})
    if dialect == "ollama":
        message = {"role": "assistant", "content": "ok"}
        return json.dumps({"model": "m", "message": message, "done": True, "done_reason": "stop"}) + "\n"
    chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = lambda delta, finish: chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return data(choice({"content": "ok"}, None)) + data(choice({}, "stop")) + "data: [DONE]\n\n"


def request(case):
    """Builds the body of the client's request."""
    extra = dict(case["request"])
    tools = extra.pop("_tools", TOOLS)
    stream, api = case["stream"], case["client"]
    body = {"model": case["up"], "stream": stream}
    turns = [{"role": "user", "content": "hi"}]
    if api == "chat":
        body["messages"] = turns
        if stream:
            body["stream_options"] = {"include_usage": True}
        function = lambda name, schema: {"name": name, "description": "d", "parameters": schema}
        body["tools"] = [{"type": "function", "function": function(*tool)} for tool in tools]
    elif api == "messages":
        body |= {"max_tokens": 1000, "messages": turns}
        body["tools"] = [{"name": name, "description": "d", "input_schema": schema} for name, schema in tools]
    else:
        body |= {"input": turns, "store": False}
        function = lambda name, schema: {"type": "function", "name": name, "description": "d", "parameters": schema}
        body["tools"] = [function(*tool) | {"strict": False} for tool in tools]
    return body | extra


def ask(address, case):
    headers = {"content-type": "application/json", "authorization": "Bearer x"} | (case.get("headers") or {})
    if case["client"] == "messages":
        headers.setdefault("anthropic-version", "2023-06-01")
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("POST", PATHS[case["client"]], json.dumps(request(case)).encode(), headers)
    response = connection.getresponse()
    got = received.read(case["client"], response.status, response.read(), case["stream"])
    connection.close()
    return got


def faults(case, got, seconds, upstream):
    """Returns the differences from what `check` describes."""
    check = case["check"]
    calls = []
    for _, name, arguments in got["calls"]:
        try:
            calls.append([name, json.loads(arguments)])
        except ValueError:
            calls.append([name, f"not JSON: {arguments}"])
    if calls != check.get("calls", calls):
        yield f"calls {calls}"
    if "finish" in check and got["finish"] not in check["finish"]:
        yield f"finish {got['finish']}"
    if got["text"] != check.get("text", got["text"]):
        yield f"text {got['text']!r}"
    if check.get("no_error") and got["error"]:
        yield f"error {got['error']}"
    if seconds > check.get("max_seconds", seconds):
        yield f"took {seconds:.1f} s"
    names = {"got": got, "asked": upstream.asked, "asked_headers": upstream.headers, "json": json, "events": received.events}
    for key in ("got_is", "asked_is"):
        try:
            holds = key not in check or eval(check[key], names)
        except Exception as error:
            holds = False
            yield repr(error)
        if not holds:
            shown = {name: value for name, value in got.items() if name != "bytes"}
            yield f"{check[key]} is false: {json.dumps(upstream.asked if key == 'asked_is' else shown)[:600]}"


def play(case, address, upstream):
    dialect = toolwire.DIALECTS[case["up"]]
    pieces = case.get("pieces") or case.get("response") or ok(dialect)
    kind = case.get("ct") or ("application/x-ndjson" if dialect == "ollama" else "text/event-stream")
    upstream.answer = ([pieces] if isinstance(pieces, str) else pieces, case.get("status", 200), kind)
    upstream.asked, upstream.headers = {}, {}
    begun = time.monotonic()
    try:
        got = ask(address, case)
    except Exception as error:
        return [repr(error)]
    return list(faults(case, got, time.monotonic() - begun, upstream))


def free_address():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % found.getsockname()[1]


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    program = os.environ.get("TOOLWIRE_BIN", str(ROOT / "target/debug/toolwire"))
    upstream = Upstream(("127.0.0.1", 0), Exchange)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    address = free_address()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        server = toolwire.start(program, address, "127.0.0.1:%d" % upstream.server_port, folder)
        try:
            for line in (HERE / "cases.jsonl").read_text().splitlines():
                case = json.loads(line)
                if wanted not in case["id"]:
                    continue
                found = play(case, address, upstream)
                for fault in found:
                    print(f"{case['id']} ({case['client']} over {case['up']}): {fault}"[:900])
                passed, failed = passed + (not found), failed + bool(found)
        finally:
            server.terminate()
            server.wait(10)
    print(f"reports: {passed} passed, {failed} failed")
    sys.exit(bool(failed) or not passed)


if __name__ == "__main__":
    main()
