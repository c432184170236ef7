#!/usr/bin/env python3
"""A program that registers a tool with toolwire and runs its calls at a callback URL. It needs only the standard library.

    python3 provider.py http://127.0.0.1:8787 REGISTRATION_KEY [PORT]

The provider in toolwire's configuration needs `allow_private = true`, since the callback is on this machine.
docs/tools.md describes the protocol.
"""

import hashlib
import hmac
import json
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TRIES, PAUSE = 20, 3  # registration: how often, and seconds in between
TOLERANCE_MS = 300_000  # how old a signed call may be

TOKEN = secrets.token_urlsafe(32)
TOOLS = [
    {
        "name": "clock.now",
        "label": "Time",
        "description": "The current time in UTC.",
        "parameters": {"type": "object", "properties": {}},
    }
]


def run(tool, arguments):
    """Runs a call: what toolwire gets as its result."""
    if tool == "clock.now":
        return {"content": [{"type": "text", "text": datetime.now(timezone.utc).isoformat(timespec="seconds")}]}
    return {"error": f"Unknown tool: {tool}"}


def is_from_toolwire(key, headers, path, body):
    """Whether a request has our token and a fresh signature with the registration key."""
    given = headers.get("Authorization", "")
    stamp = headers.get("X-Toolwire-Timestamp", "")
    if not stamp.isdigit() or abs(int(stamp) - time.time() * 1000) > TOLERANCE_MS:
        return False
    signed = hmac.new(key.encode(), f"{stamp}.POST.{path}.".encode() + body, hashlib.sha256)
    signature = headers.get("X-Toolwire-Signature", "")
    return hmac.compare_digest(given, f"Bearer {TOKEN}") and hmac.compare_digest(signature, "v1=" + signed.hexdigest())


def handler(key):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not is_from_toolwire(key, self.headers, self.path, body):
                self.send_error(401)
                return
            message = json.loads(body)
            if message.get("type") == "TOOL_EXECUTE":
                result = run(message["toolName"], message["params"])
            else:
                result = {"error": "Unknown message"}
            answer = json.dumps(result).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    return Handler


def post(url, key, body):
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def register(base, key, callback):
    """Registers, and returns for how many seconds."""
    body = {"id": "clock-python", "label": "Clock", "callback_url": callback, "token": TOKEN, "tools": TOOLS}
    for tried in range(1, TRIES + 1):
        try:
            answer = post(f"{base}/v1/providers", key, body)
            print("registered:", answer, file=sys.stderr, flush=True)
            return answer["lease_s"]
        except (OSError, ValueError) as error:
            if tried == TRIES:
                raise
            print("not registered yet:", error, file=sys.stderr, flush=True)
            time.sleep(PAUSE)


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: provider.py URL REGISTRATION_KEY [PORT]")
    base, key = sys.argv[1].rstrip("/"), sys.argv[2]
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0), handler(key))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    callback = f"http://127.0.0.1:{server.server_port}/tools"
    lease = register(base, key, callback)
    while True:
        time.sleep(max(lease / 3, 0.1))
        try:
            lease = post(f"{base}/v1/providers/clock-python/heartbeat", key, {})["lease_s"]
        except (OSError, ValueError):
            lease = register(base, key, callback)


if __name__ == "__main__":
    main()
