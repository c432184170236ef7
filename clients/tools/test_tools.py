"""MCP servers as hosted tools, from request to answer: a scripted upstream calls a tool of a server, toolwire runs it, and the
upstream answers with what it got. The servers are the reference servers of npm, and one of the Python SDK."""

import json
import os
import re
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
BINARY = os.environ.get("TOOLWIRE_BIN") or str(HERE.parents[1] / "target/debug/toolwire")
SERVERS = HERE / "node_modules/@modelcontextprotocol"
EVERYTHING = str(SERVERS / "server-everything/dist/index.js")
FILESYSTEM = str(SERVERS / "server-filesystem/dist/index.js")
MODERN = str(HERE / "modern_server.py")

# Seconds that a server may take to be ready.
STARTING = 60


class Model(BaseHTTPRequestHandler):
    """Calls the tool that the user's message names, as JSON: {"tool": …, "arguments": …}. Then answers with its result. Without
    such a message, it lists the tools that it was given."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        last = request["messages"][-1]
        if last["role"] == "tool":
            delta, finish = {"content": last["content"]}, "stop"
        elif last["content"] == "list":
            names = [tool["function"]["name"] for tool in request.get("tools", [])]
            delta, finish = {"content": json.dumps(names)}, "stop"
        else:
            wanted = json.loads(last["content"])
            function = {"name": wanted["tool"], "arguments": json.dumps(wanted["arguments"])}
            call = {"index": 0, "id": "call_1", "type": "function", "function": function}
            delta, finish = {"tool_calls": [call]}, "tool_calls"
        head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        chunks = [(delta, None), ({}, finish)]
        frames = [{**head, "choices": [{"index": 0, "delta": part, "finish_reason": end}]} for part, end in chunks]
        lines = [json.dumps(frame) for frame in frames] + ["[DONE]"]
        body = "".join(f"data: {line}\n\n" for line in lines).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


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


@contextmanager
def process(*command, **environment):
    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    try:
        yield
    finally:
        running.kill()
        running.wait()


@contextmanager
def toolwire(tmp_path, providers):
    """Serves with these providers; gives a function that asks a question and returns the answer's text."""
    model = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    config = tmp_path / "toolwire.toml"
    config.write_text(
        f"""
listen = "127.0.0.1:0"
state_dir = "{tmp_path}/state"
[execution]
[[upstreams]]
name = "scripted"
dialect = "chat"
base_url = "http://127.0.0.1:{model.server_port}/v1"
[[models]]
name = "*"
upstream = "scripted"
{providers}
"""
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWIRE_")}
    log = open(tmp_path / "log", "w+b")
    served = subprocess.Popen([BINARY, "serve", "--config", str(config)], stderr=log, env=environment)
    try:
        url = None
        deadline = time.monotonic() + STARTING
        while url is None and time.monotonic() < deadline and served.poll() is None:
            said = re.search(rb"on (http://[0-9.:]+)", (tmp_path / "log").read_bytes())
            url = said and said[1].decode()
            time.sleep(0.05)
        assert url, (tmp_path / "log").read_text()

        def ask(question):
            body = {"model": "m", "messages": [{"role": "user", "content": question}]}
            request = urllib.request.Request(
                f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=STARTING) as response:
                return json.load(response)["choices"][0]["message"]["content"]

        yield ask
    except AssertionError:
        sys.stderr.write((tmp_path / "log").read_text())
        raise
    finally:
        served.terminate()
        served.wait(20)
        log.close()
        model.shutdown()


def tools_of(ask, prefix):
    """Waits until the server's tools are offered, and returns their names."""
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        names = [name for name in json.loads(ask("list")) if name.startswith(f"{prefix}__")]
        if names:
            return names
        time.sleep(0.1)
    pytest.fail("no tools are offered")


def call(ask, tool, **arguments):
    return ask(json.dumps({"tool": tool, "arguments": arguments}))


@contextmanager
def everything(transport):
    if transport == "stdio":
        yield f'command = ["node", "{EVERYTHING}", "stdio"]'
        return
    port = free_port()
    with process("node", EVERYTHING, "streamableHttp", PORT=str(port)):
        wait_for_port(port)
        yield f'url = "http://127.0.0.1:{port}/mcp"'


@contextmanager
def modern(transport):
    if transport == "stdio":
        yield f'command = ["{sys.executable}", "{MODERN}"]\nprotocol = "discover"'
        return
    port = free_port()
    with process(sys.executable, MODERN, str(port)):
        wait_for_port(port)
        yield f'url = "http://127.0.0.1:{port}/mcp"\nprotocol = "discover"'


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_everything(tmp_path, transport):
    with everything(transport) as server:
        provider = f'[[providers]]\nname = "every"\nkind = "mcp"\n{server}\n'
        with toolwire(tmp_path, provider) as ask:
            assert "every__echo" in tools_of(ask, "every")
            assert "hello from a test" in call(ask, "every__echo", message="hello from a test")
            assert "5" in call(ask, "every__get-sum", a=2, b=3)
            structured = call(ask, "every__get-structured-content", location="New York")
            assert "temperature" in structured
            # toolwire keeps images, and the model gets their URLs.
            url = re.search(r"http://[^)]*/api/images/[^)]*", call(ask, "every__get-tiny-image"))
            with urllib.request.urlopen(url[0], timeout=STARTING) as image:
                assert image.read(8) == b"\x89PNG\r\n\x1a\n"


def test_filesystem(tmp_path):
    folder = (tmp_path / "data").resolve()
    folder.mkdir()
    (folder / "note.txt").write_text("written by the test")
    provider = f"""
[[providers]]
name = "files"
kind = "mcp"
command = ["node", "{FILESYSTEM}", "{folder}"]
tools = ["read_*", "list_*"]
"""
    with toolwire(tmp_path, provider) as ask:
        names = tools_of(ask, "files")
        assert "files__read_text_file" in names
        assert "files__write_file" not in names
        assert "written by the test" in call(ask, "files__read_text_file", path=str(folder / "note.txt"))
        denied = call(ask, "files__read_text_file", path="/etc/passwd")
        assert "denied" in denied and "root:" not in denied


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_protocol_without_handshake(tmp_path, transport):
    with modern(transport) as server:
        provider = f'[[providers]]\nname = "modern"\nkind = "mcp"\n{server}\n'
        with toolwire(tmp_path, provider) as ask:
            assert tools_of(ask, "modern") == ["modern__add"]
            assert "42" in call(ask, "modern__add", a=40, b=2)
