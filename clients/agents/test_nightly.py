"""What only a nightly run has besides complete agents: clients that extract a call's arguments, or have no tools."""

import json
import os
import signal
import socket
import subprocess
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest
from scripted import upstream
from stand import STAND

if not os.environ.get("NIGHTLY"):
    pytest.skip("only in a nightly run", allow_module_level=True)

# Imported first, since each of the two imports the other.
import programs  # noqa: F401
from nightly_programs import FOLDER, Aider, Framework

__all__ = ["upstream"]

CASES = {case["name"]: case["expect"] for case in STAND["matrix"]}
TEXT = CASES["via-chat-plain"]["text"]
CALL = CASES["via-chat-one-call"]["calls"][0]
# How long a server may take to start, in seconds.
STARTING = 60

ways = pytest.mark.parametrize("way", ["stream", "whole"])
# A native upstream, and one whose model is taught to write calls as text.
upstreams = pytest.mark.parametrize("upstream", ["chat", "lumo-v1"])


# instructor yields no partial object if the arguments are one piece, as with lumo-v1.
@pytest.mark.parametrize("way, upstream", [("stream", "chat"), ("whole", "chat"), ("whole", "lumo-v1")])
@pytest.mark.parametrize("api", ["chat", "messages"])
def test_instructor_extracts_the_arguments_of_a_call(api, way, upstream, folders):
    client = Framework("frameworks-older", "instructor", api, way)
    status, output = client.run(f"via-{upstream}-one-call", *folders)
    assert status == 0, output[-2000:]
    assert json.loads(output.splitlines()[-1]) == CALL["arguments"]


@upstreams
@ways
def test_aider_prints_the_answer(way, upstream, folders):
    status, output = Aider(way).run(f"via-{upstream}-plain", *folders)
    assert (status, TEXT in output) == (0, True), output[-2000:]


@pytest.mark.parametrize("api", ["ollama", "gemini"])
@pytest.mark.parametrize("model", ["via-chat-refused", "via-chat-fails-late", "via-chat-cut-text"])
def test_home_assistant_shows_an_error(model, api, folders):
    status, output = Framework("home-assistant", "home_assistant", api, "stream").run(model, *folders)
    assert (status, CASES[model]["error"].get("message", "closed the stream") in output) == (1, True), output[-2000:]


def test_home_assistant_sends_an_image(folders, upstream):
    (folders[1] / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    status, output = Framework("home-assistant", "home_assistant", "ollama", "stream").run("via-chat-plain", *folders)
    assert (status, TEXT in output) == (0, True), output[-2000:]
    assert "data:image/png;base64,iVBORw0KGgo=" in json.dumps(upstream.seen("plain")["requests"][-1])


@pytest.fixture(scope="module")
def tavern(tmp_path_factory):
    """SillyTavern's server, which knows the key. Yields a function that posts to it and returns the status and the body."""
    folder = tmp_path_factory.mktemp("tavern")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--port", port, "--dataRoot", folder / "data", "--configPath", folder / "config.yaml", "--disableCsrf"]
    command = ["node", FOLDER / "sillytavern/node_modules/sillytavern/server.js", *map(str, options), "--browserLaunchEnabled", "false"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)

    def post(path, body):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()

    try:
        until = time.monotonic() + STARTING
        while True:
            try:
                status, body = post("/api/secrets/write", {"key": "api_key_custom", "value": STAND["key"]})
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, Path(folder / "log").read_text()[-2000:]
                time.sleep(0.2)
        assert status == 200, body
        yield post
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def asked(upstream, scenario, way):
    function = {"name": CALL["name"], "parameters": {"type": "object"}}
    return {
        "chat_completion_source": "custom",
        "custom_url": STAND["url"],
        "model": f"via-{upstream}-{scenario}",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": way == "stream",
        "tools": [{"type": "function", "function": function}],
    }


@upstreams
@ways
@pytest.mark.parametrize("scenario", ["plain", "one-call"])
def test_sillytavern_passes_the_answer_on(scenario, way, upstream, tavern):
    status, body = tavern("/api/backends/chat-completions/generate", asked(upstream, scenario, way))
    assert status == 200, body
    if way == "whole":
        parts = [json.loads(body)["choices"][0]["message"]]
    else:
        *events, last = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
        assert last == "[DONE]"
        parts = [choice["delta"] for event in events for choice in json.loads(event)["choices"]]
    text = "".join(part.get("content") or "" for part in parts)
    functions = [call["function"] for part in parts for call in part.get("tool_calls") or []]
    if scenario == "plain":
        assert (text, functions) == (TEXT, [])
    else:
        assert functions[0]["name"] == CALL["name"]
        assert json.loads("".join(function["arguments"] for function in functions)) == CALL["arguments"]
