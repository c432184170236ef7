"""An MCP server for tests, on stdio or HTTP. Its argument selects how it misbehaves. It needs only Python's standard library."""

import http.server
import json
import os
import queue
import sys
import threading
import time

MODE = sys.argv[1]
COUNTER = sys.argv[2] if len(sys.argv) > 2 else None
LOCK = threading.Lock()
# Set when a call was cancelled, and when the tools have changed.
CANCELLED, CHANGED = threading.Event(), threading.Event()


def count():
    """Counts a start or a list in a file, and returns the number so far."""
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
    if MODE == "hostile":
        return {"tools": hostile_tools()}
    if MODE == "subscribed":
        page = {"tools": [tool("before"), *([tool("after")] if CHANGED.is_set() else [])]}
        return {**page, "resultType": "complete", "ttlMs": 86400000, "cacheScope": "public"}
    if MODE == "modern":
        return {"resultType": "complete", "tools": [tool("echo")], "ttlMs": 1000, "cacheScope": "public"}
    return {"tools": [tool("echo"), tool("environment"), tool("huge"), tool("die"), tool("sleep")]}


def hostile_tools():
    """Tools that no client should accept unchanged. Those with `ok` in their names are harmless."""
    names = ["", "a\nb", "a\0b", "x" * 129, "ok-first", "ok-first", "ok ünïcode/../name", "s__ok", "ok__", "{ok}"]
    large = tool("large", inputSchema={"type": "object", "description": "x" * (1 << 20)})
    deep = tool("deep", inputSchema=json.loads('{"a":' * 100 + "{}" + "}" * 100))
    told = tool("ok-told", description="one\x1b[2Jtwo\x00\x07\nthree\u202e", title="label\r\n\x1b]0;x\x07")
    many = [tool(f"many{number}") for number in range(10_000)]
    return [*map(tool, names), large, deep, told, *many]


def call(params):
    name, arguments = params["name"], params.get("arguments") or {}
    if MODE == "unreadable":
        return 5
    if MODE == "null":
        return None
    if name == "video":
        return {"content": [{"type": "text", "text": "a"}, {"type": "video", "data": "x"}]}
    if name == "environment":
        return text(" ".join(sorted(os.environ)))
    if name == "huge":
        return text("x" * (5 << 20))
    if name == "steps":
        return steps(params["_meta"]["progressToken"], arguments)
    if name == "die":
        os._exit(1)
    if name == "sleep":
        time.sleep(1000)
    if name == "wait":
        CANCELLED.wait()
    if name == "cancelled":
        return text(str(CANCELLED.is_set()))
    return text(json.dumps(arguments))


def steps(token, arguments):
    """Reports progress, also of calls that do not exist, and with values that make no sense."""
    for number in range(arguments["count"]):
        for unknown in (None, True, 1.5, [], "x", -1, 10**30):
            notify("notifications/progress", progressToken=unknown, progress=1)
        for odd in ({}, {"progress": "1"}, {"progress": 1e400}, {"progress": 1, "message": 5}):
            notify("notifications/progress", progressToken=token, **odd)
        message = "x" * 1_000_000 if arguments.get("long") else f"step {number}"
        notify("notifications/progress", progressToken=token, progress=number, total=arguments["count"], message=message)
        time.sleep(arguments.get("pause", 0))
    return text("all steps")


def resources(method, params):
    """Lists and reads resources. Some have pages without end, or contents that no client should accept unchanged."""
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "test://item/{id}", "name": "items"}]}
    if method == "resources/list" and MODE == "resources-endless":
        cursor = int(params.get("cursor") or 0)
        many = [{"uri": f"test://item/{cursor}-{n}", "name": "x" * 10_000} for n in range(9)]
        return {"resources": [{"uri": "x" * 10_000, "name": "long"}, *many], "nextCursor": str(cursor + 1)}
    if method == "resources/list" and MODE == "resources-same":
        return {"resources": [{"uri": "test://item/1", "name": "one"}], "nextCursor": "1"}
    if method == "resources/list":
        return {"resources": [{"uri": "test://item/1", "name": "one", "mimeType": "text/plain", "size": 3}]}
    contents = {
        "test://item/1": [{"uri": "test://item/1", "text": "the first"}],
        "test://image": [{"uri": "test://image", "mimeType": "image/png", "blob": "iVBORw0KGgo="}],
        "test://blob": [{"uri": "test://blob", "mimeType": "application/zip", "blob": "AAAA"}],
        "test://two": [{"uri": "test://a", "text": "a"}, {"uri": "test://b", "text": "b"}],
        "test://none": [],
        "test://odd": 5,
    }
    is_known = method == "resources/read" and params["uri"] in contents
    return {"contents": contents[params["uri"]]} if is_known else None


def answer(message):
    """Returns the result or the error for a request. None for messages that are not requests."""
    method, params = message.get("method"), message.get("params")
    if "id" not in message or method is None:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "server/discover" and MODE in ("modern", "subscribed"):
        capabilities = {"tools": {"listChanged": True} if MODE == "subscribed" else {}}
        supported = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        return {**head, "result": {**supported, "ttlMs": 0, "cacheScope": "public"}}
    if method == "initialize":
        server = {"name": "scripted", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        version = params["protocolVersion"] if MODE != "old" else "2024-11-05"
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}
        if MODE.startswith("resources"):
            capabilities["resources"] = {}
        if MODE == "instructs":
            result["instructions"] = "Say\x1b please.\n" + "x" * 10_000
        return {**head, "result": result}
    if method == "tools/list" and MODE != "resources-only":
        return {**head, "result": tools(params)}
    if method.startswith("resources/") and MODE.startswith("resources"):
        found = resources(method, params or {})
        return {**head, **({"result": found} if found else {"error": {"code": -32002, "message": "no such resource"}})}
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


def subscribe(message):
    """Acknowledges a subscription, and reports that the tools have changed."""
    subscription = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    accepted = message["params"]["notifications"]
    notify("notifications/subscriptions/acknowledged", _meta=subscription, notifications=accepted)
    CHANGED.set()
    notify("notifications/tools/list_changed", _meta=subscription)


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
    """Sends what precedes the answer to a request."""
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


def write_reply(message, reply):
    """Writes the answer, along with answers to requests that were never sent."""
    is_call = message.get("method") == "tools/call"
    if MODE == "other-ids" and is_call:
        for id in (reply["id"] + 1, -1, "x", None, 0.5):
            write({**reply, "id": id, "result": text("of another call")})
    write(reply)
    if MODE == "twice" and is_call:
        write({**reply, "result": text("a second answer")})


def serve_stdio():
    prepare()
    held, has_sent_huge = [], False
    for line in sys.stdin:
        message = json.loads(line)
        before(message)
        if message.get("method") == "notifications/cancelled":
            CANCELLED.set()
        if message.get("method") == "subscriptions/listen":
            subscribe(message)
            continue
        if message.get("method") == "tools/call" and message["params"]["name"] == "wait":
            threading.Thread(target=lambda: write(answer(message)), daemon=True).start()
            continue
        reply = answer(message)
        if MODE == "slow-echo" and message.get("method") == "tools/call":
            is_huge = message["params"]["name"] == "huge"
            has_sent_huge = has_sent_huge or is_huge
            if not is_huge and not has_sent_huge:
                held.append(reply)
                continue
            write(reply)
            while held:
                write(held.pop())
            continue
        if reply is not None:
            write_reply(message, reply)
    if MODE == "stays":
        time.sleep(1000)


SESSIONS = []
# The messages for the newest stream of the older transport.
EVENTS = [queue.Queue()]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refusal(self, message):
        """Returns how the server rejects a session that it does not know. It forgets a session after its first call."""
        shown, method = self.headers["Mcp-Session-Id"], message["method"]
        if method == "initialize":
            return None
        if shown in SESSIONS:
            if method == "tools/call":
                SESSIONS.remove(shown)
            return None
        status, said = {
            "http-session-404": (404, "Session not found"),
            "http-session-400": (400, "Bad Request: No valid session ID provided"),
            "http-session-new": (400, "Bad Request: Server not initialized"),
        }[MODE]
        error = {"code": -32000, "message": said}
        return status, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()

    def do_DELETE(self):
        self.reply(405)

    def do_GET(self):
        if MODE == "http-sse-elsewhere" and self.path == "/mcp":
            return self.reply(307, Location="http://127.0.0.1:1/mcp")
        if not MODE.startswith("http-sse"):
            return self.reply(405)
        if self.headers["X-Own"] != "a":
            return self.reply(400)
        endpoint = {
            "http-sse-foreign": "http://127.0.0.1:1/messages",
            "http-sse-scheme": f"https://127.0.0.1:{server.server_address[1]}/messages",
            "http-sse-none": None,
        }.get(MODE, "messages?session=1")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        EVENTS[0] = own = queue.Queue()
        if endpoint:
            self.event("endpoint", endpoint)
        while True:
            self.event("message", own.get())

    def event(self, name, data):
        self.wfile.write(f": hello\r\nevent: {name}\r\ndata: {data}\r\n\r\n".encode())

    def post_to_endpoint(self, message):
        """Answers over the stream, except with the reply to a message for another endpoint."""
        if self.path != "/messages?session=1" or self.headers["X-Own"] != "a":
            return self.reply(404, b"no such page")
        self.reply(202)
        if message["method"] == "tools/call" and message["params"]["name"] == "garbage":
            EVENTS[0].put("{")
        reply = answer(message)
        if reply is not None:
            EVENTS[0].put(json.dumps(reply))

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if MODE == "http-missing":
            return self.reply(404, b"<html>not here</html>")
        if MODE == "http-oauth" and "Authorization" not in self.headers:
            challenge = 'Bearer resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource"'
            return self.reply(401, WWW_Authenticate=challenge)
        if MODE == "http-oauth":
            return self.reply(401, WWW_Authenticate='Bearer error="invalid_token"')
        if MODE.startswith("http-sse"):
            return self.post_to_endpoint(message)
        if MODE == "http-key" and self.headers["Authorization"] != "Bearer hunter2-hunter2":
            return self.reply(401)
        if MODE.startswith("http-session") and (refusal := self.refusal(message)):
            return self.reply(*refusal, Content_Type="application/json")
        if message["method"] == "notifications/cancelled":
            CANCELLED.set()
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
        if MODE.startswith("http-session") and message["method"] == "initialize":
            SESSIONS.append(f"session-{count()}")
            return self.reply(200, body, Content_Type="application/json", Mcp_Session_Id=SESSIONS[-1])
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
