"""The scripted upstream: a Chat Completions server whose answers follow from the last message, and that counts them."""

import email.utils
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What every answer says that it used.
INPUT_TOKENS, OUTPUT_TOKENS = 10, 3


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply("application/json", json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text, calls = scripted(request["messages"])
        head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        frame = lambda delta, finish=None: head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        frames = [frame({"content": text})] if text else []
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": json.dumps(arguments)}
            frames.append(frame({"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}))
        usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
        frames += [frame({}, "tool_calls" if calls else "stop"), head | {"choices": [], "usage": usage}]
        self.reply("text/event-stream", "".join(f"data: {line}\n\n" for line in [*map(json.dumps, frames), "[DONE]"]))
        with self.server.lock:
            self.server.answers += 1

    def reply(self, kind, body):
        self.send_response_only(200)
        self.send_header("Date", email.utils.formatdate(time.time() + self.server.clock_offset, usegmt=True))
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        if self.server.closes:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


def scripted(messages):
    """Returns the text and the calls of the answer. A message `turn N` calls a hosted tool and one of the client's."""
    results = []
    for message in messages:
        results = results + [message["content"]] if message["role"] == "tool" else [] if message["role"] == "user" else results
    if results:
        return " / ".join(results), []
    asked = [message["content"] for message in messages if message["role"] == "user"]
    if asked[-1].startswith("turn "):
        return "", [("lookup", {"key": asked[-1]}), ("note", {"text": asked[-1]})]
    # Everything the user has said, so that a continued response shows whether its history was complete.
    return "said " + ", ".join(asked) + "; " + "x" * 2000, []


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        """Clients that break off, or refuse the certificate, are expected here."""


class Upstream:
    """Its clock differs from this machine's by `clock_offset` seconds. With TLS, each request has its own connection."""

    def __init__(self, certificate=None, clock_offset=0):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.lock, self.server.answers, self.server.clock_offset = threading.Lock(), 0, clock_offset
        self.server.closes = certificate is not None
        if certificate:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            # A session that is resumed shows no certificate.
            self.context.num_tickets = 0
            self.shows(certificate)
            # The handshake is left to the thread of the connection, since it may fail.
            self.server.socket = self.context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if certificate else 'http'}://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def shows(self, certificate):
        """Shows this certificate to new connections. Its key is in the same file."""
        self.context.load_cert_chain(certificate)

    @property
    def answers(self):
        """How many requests were answered in full."""
        with self.server.lock:
            return self.server.answers

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
