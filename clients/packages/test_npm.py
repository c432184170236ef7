"""Installs the packages for npm from their files, and runs the program with their launcher."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import termios
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from test_packages import VERSION, files_of, one, run, works

LAUNCHER = "node_modules/toolwire/bin/toolwire.js"
# Node of the suites, which can replace itself by the program, and the same Node without that.
NODE = shutil.which("node")
OLDER = "process.execve = undefined;"
ways = pytest.mark.parametrize("preloaded", ["", OLDER], ids=["node", "older-node"])


def npm(folder, *arguments):
    environment = os.environ | {"npm_config_cache": str(folder / "cache"), "npm_config_update_notifier": "false"}
    return run("npm", *arguments, cwd=folder, env=environment)


@pytest.fixture(scope="module")
def installed(packages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("it's npm")
    npm(folder, "install", "--offline", *packages.glob("*.tgz"))
    yield folder
    npm(folder, "uninstall", *json.loads((folder / "package.json").read_text())["dependencies"])
    assert files_of(folder / "node_modules") <= {".package-lock.json"}


def command(folder, preloaded):
    preload = folder / "preload.cjs"
    preload.write_text(preloaded)
    return [NODE, "--require", str(preload), str(folder / LAUNCHER)]


@ways
def test_launcher(preloaded, installed):
    works(*command(installed, preloaded))


def test_npx(installed):
    assert npm(installed, "exec", "--offline", "toolwire", "--", "--version") == f"toolwire {VERSION}\n"


def refusal(*command):
    done = subprocess.run(command, capture_output=True, text=True, env={})
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def test_launcher_says_what_is_missing(packages, place):
    npm(place, "install", "--offline", "--omit=optional", one(packages, f"toolwire-{VERSION}.tgz"))
    name = f"@toolwire/linux-{'x64' if os.uname().machine == 'x86_64' else 'arm64'}"
    assert f"npm install {name}@{VERSION}" in refusal(*command(place, ""))
    other = 'Object.defineProperty(process, "platform", { value: "win32" });'
    assert "there is no program for win32-" in refusal(*command(place, other))
    program = place / "node_modules" / name / "bin/toolwire"
    program.parent.mkdir(parents=True)
    program.write_text("")
    for preloaded in "", OLDER:
        assert f"cannot run {program}: " in refusal(*command(place, preloaded))


class Upstream(BaseHTTPRequestHandler):
    """Responds when it is told to."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.set()
        self.server.gate.wait(60)
        message = {"role": "assistant", "content": "To the end."}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
        body = json.dumps(answer | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def upstream():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    server.asked, server.gate = threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()


def until_logged(log, text):
    """Reads the log until a line has `text`, and returns that line."""
    for line in log:
        if text in line:
            return line
    raise AssertionError(f"the log has ended without {text!r}")


@contextmanager
def serving(folder, preloaded, upstream, **options):
    flags = ["--upstream", f"http://127.0.0.1:{upstream.server_port}/v1", "--dialect", "chat", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command(folder, preloaded), "serve", *flags], stderr=subprocess.PIPE, text=True, env={}, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def ask(port, answers):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    answers.append(connection.getresponse().read().decode())


@ways
@pytest.mark.parametrize("way", ["terminal", "SIGINT", "SIGTERM"])
def test_signals_end_the_program_after_its_open_responses(way, preloaded, installed, upstream):
    """A signal reaches the program exactly once: a second one would abort the response."""
    terminal, stdin = os.openpty()
    options = {"stdin": subprocess.DEVNULL}
    if way == "terminal":
        options = {"stdin": stdin, "preexec_fn": lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)}
    with serving(installed, preloaded, upstream, start_new_session=True, **options) as process:
        port = int(until_logged(process.stderr, "listens on http").split("127.0.0.1:")[1].split()[0])
        answers = []
        client = threading.Thread(target=ask, args=(port, answers))
        client.start()
        assert upstream.asked.wait(60)
        if way == "terminal":
            os.write(terminal, b"\x03")
        else:
            process.send_signal(signal.Signals[way])
        until_logged(process.stderr, "shutting down")
        upstream.gate.set()
        client.join(60)
        assert "To the end." in answers[0]
        assert process.wait(60) == 0
        # The program has ended, and not only its launcher.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    os.close(terminal)
    os.close(stdin)


@ways
def test_status_of_a_killed_program(preloaded, installed, upstream):
    with serving(installed, preloaded, upstream, stdin=subprocess.DEVNULL) as process:
        until_logged(process.stderr, "listens on http")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]) if children else process.pid, signal.SIGKILL)
        assert process.wait(60) in (-signal.SIGKILL, 128 + signal.SIGKILL)
