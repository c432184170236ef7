"""Starts toolwire with hosted tools in front of a scripted upstream."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
BINARY = os.environ.get("TOOLWIRE_BIN") or str(REPOSITORY / "target/debug/toolwire")

# How long a server may take to be ready, in seconds.
STARTING = 60


class Handler(BaseHTTPRequestHandler):
    """Reads and writes JSON bodies. Collects the paths and bodies of requests in `server.requests`."""

    protocol_version = "HTTP/1.1"

    def read(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        return body

    def reply(self, status, content_type, body):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Upstream(Handler):
    """A Chat Completions server. `server.script` maps a request to text, calls (name, arguments) and a finish reason."""

    def do_POST(self):
        text, calls, finish = self.server.script(self.read())
        head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        choice = lambda delta, finish=None: {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        frames = [choice({"content": piece}) for piece in re.findall(r"\s*\S+\s*", text)]
        for index, (name, arguments) in enumerate(calls):
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
            frames.append(choice({"tool_calls": [call]}))
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        frames += [choice({}, finish), {**head, "choices": [], "usage": usage}]
        lines = [json.dumps(frame) for frame in frames] + ["[DONE]"]
        self.reply(200, "text/event-stream", "".join(f"data: {line}\n\n" for line in lines).encode())


def spoken(request):
    """Returns the messages, without those that only have the files of results."""
    return [message for message in request["messages"] if not isinstance(message["content"], list)]


def results(request):
    """Returns the results of calls since the last user message."""
    found = []
    for message in spoken(request):
        found = [] if message["role"] == "user" else found + [message] * (message["role"] == "tool")
    return [message["content"] for message in found]


def on_demand(request):
    """Makes the call in the user's message, which is JSON: {"tool": …, "arguments": …}. Then responds with the result. If the message
    is `list`, responds with the names of the offered tools."""
    last = spoken(request)[-1]
    if last["role"] == "tool":
        files = request["messages"][-1]["content"]
        return last["content"] + "".join(f" sees {part['type']}" for part in files if isinstance(files, list)), [], "stop"
    if last["content"] == "list":
        return json.dumps([tool["function"]["name"] for tool in request.get("tools", [])]), [], "stop"
    wanted = json.loads(last["content"])
    return "", [(wanted["tool"], wanted["arguments"])], "tool_calls"


@contextmanager
def serving(handler, **attributes):
    """Runs a server with this handler. Its `requests` collect the requests."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.requests = []
    vars(server).update(attributes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def process(*command, **environment):
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


class Toolwire:
    """A running toolwire, used with a client key or without one."""

    def __init__(self, url, key=None):
        self.url = url
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}

    def ask(self, question):
        """Returns the text of the response to a question."""
        return self.response(question)["content"]

    def started(self, question):
        """Returns the connection of a question whose response is not read."""
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": question}], "stream": True})
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=STARTING)
        connection.request("POST", "/v1/chat/completions", body, self.headers)
        return connection

    def response(self, question):
        """Returns the message with which a question is answered."""
        return self.completion(question)["choices"][0]["message"]

    def completion(self, question):
        body = {"model": "m", "messages": [{"role": "user", "content": question}]}
        request = urllib.request.Request(f"{self.url}/v1/chat/completions", json.dumps(body).encode(), self.headers)
        with urllib.request.urlopen(request, timeout=STARTING) as response:
            return json.load(response)

    def names(self):
        """Returns the names of the tools that are offered to the model."""
        return json.loads(self.ask("list"))

    def tools(self, prefix):
        """Waits until tools with this prefix are offered, and returns their names."""
        return until(lambda: [name for name in self.names() if name.startswith(prefix)])

    def call(self, tool, **arguments):
        return self.ask(json.dumps({"tool": tool, "arguments": arguments}))


def until(found):
    """Waits until `found` returns a truthy value, and returns the value."""
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.05)
    pytest.fail("it does not happen")


@contextmanager
def toolwire(tmp_path, upstream, tables, port=0):
    """Runs toolwire in front of `upstream`. `tables` is the rest of the configuration, including `[execution]`."""
    config, log = tmp_path / "toolwire.toml", tmp_path / "log"
    config.write_text(
        f"""
listen = "127.0.0.1:{port}"
state_dir = "{tmp_path}/state"
[[upstreams]]
name = "scripted"
dialect = "chat"
base_url = "http://127.0.0.1:{upstream.server_port}/v1"
[[models]]
name = "*"
upstream = "scripted"
{tables}
"""
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWIRE_")}
    with open(log, "wb") as output:
        served = subprocess.Popen([BINARY, "serve", "--config", str(config)], stderr=output, env=environment)
    try:
        url = None
        deadline = time.monotonic() + STARTING
        while url is None and time.monotonic() < deadline and served.poll() is None:
            said = re.search(rb"on (http://[0-9.:]+)", log.read_bytes())
            url = said and said[1].decode()
            time.sleep(0.02)
        assert url, log.read_text()
        yield Toolwire(url)
    except BaseException:
        sys.stderr.write(log.read_text())
        raise
    finally:
        served.send_signal(signal.SIGTERM)
        served.wait(20)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_port(port):
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"nothing listens on port {port}")
