"""An MCP server for tests, on stdio or HTTP. Its argument says how it misbehaves. Only Python's standard library."""

import http.server
import json
import os
import sys
import threading
import time

MODE = sys.argv[1]
COUNTER = sys.argv[2] if len(sys.argv) > 2 else None
LOCK = threading.Lock()


def count():
    """Counts starts or lists in a file, and returns how many there were."""
    with open(COUNTER, "a+") as file:
        file.write("x")
        file.flush()
        return file.tell()


def tool(name, **more):
    return {"name": name, "description": f"The tool {name}", "inputSchema": {"type": "object"}, **more}


def text(content):
    return {"content": [{"type": "text", "text": content}]}


def tools(params):
    cursor = int((params or {}).get("cursor") or 0)
    if MODE == "pages":
        page = {"tools": [tool(f"t{cursor}")]}
        return page if cursor == 2 else {**page, "nextCursor": str(cursor + 1)}
    if MODE == "endless-pages":
        return {"tools": [tool(f"t{cursor}-{n}") for n in range(50)], "nextCursor": str(cursor + 1)}
    if MODE == "same-cursor":
        return {"tools": [tool("echo")], "nextCursor": "1"}
    if MODE == "changing":
        return {"tools": [tool(f"t{count()}")]}
    if MODE == "modern":
        return {"resultType": "complete", "tools": [tool("echo")], "ttlMs": 1000, "cacheScope": "public"}
    return {"tools": [tool("echo"), tool("environment"), tool("huge"), tool("die"), tool("sleep")]}


def call(params):
    name, arguments = params["name"], params.get("arguments") or {}
    if MODE == "unreadable":
        return 5
    if name == "environment":
        return text(" ".join(sorted(os.environ)))
    if name == "huge":
        return text("x" * (5 << 20))
    if name == "die":
        os._exit(1)
    if name == "sleep":
        time.sleep(1000)
    return text(json.dumps(arguments))


def answer(message):
    """The result or error for a request; None for what is not one."""
    method, params = message.get("method"), message.get("params")
    if "id" not in message or method is None:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "server/discover" and MODE == "modern":
        supported = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        return {**head, "result": {**supported, "ttlMs": 0, "cacheScope": "public"}}
    if method == "initialize":
        server = {"name": "scripted", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        version = params["protocolVersion"] if MODE != "old" else "2024-11-05"
        return {**head, "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}}
    if method == "tools/list":
        return {**head, "result": tools(params)}
    if method == "tools/call" and params["name"] == "refuse":
        return {**head, "error": {"code": -32602, "message": "no such tool"}}
    if method == "tools/call":
        return {**head, "result": call(params)}
    return {**head, "error": {"code": -32601, "message": "unknown method"}}


def write(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def notify(method, **params):
    write({"jsonrpc": "2.0", "method": method, "params": params})


def change_for_ever():
    while True:
        notify("notifications/tools/list_changed")


def prepare():
    if MODE == "silent":
        time.sleep(1000)
    if MODE == "dies-at-start":
        count()
        sys.exit(1)
    if MODE == "stderr":
        threading.Thread(target=lambda: [sys.stderr.write("noise " * 1000) for _ in iter(int, 1)], daemon=True).start()
    if MODE == "stray" and os.fork() == 0:
        time.sleep(1000)


def before(message):
    """What is sent before the answer to a request."""
    method = message.get("method")
    if MODE == "changing" and method == "notifications/initialized":
        threading.Thread(target=change_for_ever, daemon=True).start()
    if method != "tools/call":
        return
    if MODE == "garbage":
        sys.stdout.write("Listening…\n\n{\n[1]\n{\"id\": 77, \"result\": {}}\nnull\n")
    if MODE == "flood":
        line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
        for _ in range(100):
            sys.stdout.write((line + "\n") * 1000)
    if MODE == "asks":
        line = json.dumps({"jsonrpc": "2.0", "id": "own", "method": "ping"})
        for _ in range(20):
            sys.stdout.write((line + "\n") * 1000)
    if MODE == "elicits":
        question = {"message": "Your password?", "requestedSchema": {"type": "object", "properties": {}}}
        write({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": question})
        reply = json.loads(sys.stdin.readline())
        message["params"]["arguments"] = reply
    if MODE == "stray":
        os._exit(0)


def serve_stdio():
    prepare()
    for line in sys.stdin:
        message = json.loads(line)
        before(message)
        reply = answer(message)
        if reply is not None:
            write(reply)
    if MODE == "stays":
        time.sleep(1000)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(405)

    do_DELETE = do_GET

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if MODE == "http-key" and self.headers["Authorization"] != "Bearer hunter2-hunter2":
            return self.reply(401)
        if MODE == "http-moved" and self.path == "/mcp":
            return self.reply(307, Location="/mcp/")
        if MODE == "http-elsewhere" and self.path == "/mcp":
            return self.reply(307, Location="http://127.0.0.1:1/mcp")
        if MODE == "http-old" and message["method"] == "server/discover":
            return self.reply(400, b"unknown")
        reply = answer(message)
        if reply is None:
            return self.reply(202)
        body = json.dumps(reply).encode()
        if MODE == "http-events":
            return self.reply(200, b": hello\n\nid: 1\ndata: " + body + b"\n\n", Content_Type="text/event-stream")
        return self.reply(200, body, Content_Type="application/json; charset=utf-8")

    def log_message(self, *_):
        pass


if MODE.startswith("http"):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
else:
    serve_stdio()
