"""What only a nightly run has besides complete agents: clients that extract a call's arguments, or have no tools."""

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from scripted import upstream
from stand import STAND

if not os.environ.get("NIGHTLY"):
    pytest.skip("only in a nightly run", allow_module_level=True)

# Imported first, since each of the two imports the other.
from programs import ROOT_URL  # isort: skip
from nightly_programs import FOLDER, Aider, Framework, in_python

__all__ = ["upstream"]

CASES = {case["name"]: case["expect"] for case in STAND["matrix"]}
TEXT = CASES["via-chat-plain"]["text"]
CALL = CASES["via-chat-one-call"]["calls"][0]
# How long a server may take to start, in seconds.
STARTING = 180

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


@contextmanager
def server(folder, command, environment, first):
    """Runs a server, the last option of which is its port. Yields a function that sends a request and returns its status and body.

    `first` is the first one, which is repeated until the server listens.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)} | environment
    with open(folder / "log", "wb") as log:
        command = [*map(str, command), str(port)]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)

    def send(path, body=None, headers=()):
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"content-type": "application/json"} | dict(headers)
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()

    try:
        until = time.monotonic() + STARTING
        while True:
            try:
                status, body = send(*first)
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, Path(folder / "log").read_text()[-2000:]
                time.sleep(0.2)
        assert status == 200, body
        yield send, body
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def tavern(tmp_path_factory):
    """SillyTavern's server, which knows the key."""
    folder = tmp_path_factory.mktemp("tavern")
    options = ["--dataRoot", folder / "data", "--configPath", folder / "config.yaml", "--disableCsrf"]
    options += ["--browserLaunchEnabled", "false", "--port"]
    command = ["node", FOLDER / "sillytavern/node_modules/sillytavern/server.js", *options]
    key = {"key": "api_key_custom", "value": STAND["key"]}
    with server(folder, command, {}, ("/api/secrets/write", key)) as (send, _):
        yield send


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


def parts_of(body, way):
    """Returns the text of an answer in the form of Chat Completions, and the parts of its calls."""
    if way == "whole":
        parts = [json.loads(body)["choices"][0]["message"]]
    else:
        *events, last = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
        assert last == "[DONE]"
        parts = [choice["delta"] for event in events for choice in json.loads(event)["choices"]]
    text = "".join(part.get("content") or "" for part in parts)
    return text, [call["function"] for part in parts for call in part.get("tool_calls") or []]


@upstreams
@ways
@pytest.mark.parametrize("scenario", ["plain", "one-call"])
def test_sillytavern_passes_the_answer_on(scenario, way, upstream, tavern):
    status, body = tavern("/api/backends/chat-completions/generate", asked(upstream, scenario, way))
    assert status == 200, body
    text, functions = parts_of(body, way)
    if scenario == "plain":
        assert (text, functions) == (TEXT, [])
    else:
        assert functions[0]["name"] == CALL["name"]
        assert json.loads("".join(function["arguments"] for function in functions)) == CALL["arguments"]


@pytest.fixture(scope="module")
def webui(tmp_path_factory):
    """Open WebUI's server, with toolwire as its server of Ollama. It runs without the packages that embed documents on the machine."""
    folder = tmp_path_factory.mktemp("webui")
    environment = {"DATA_DIR": str(folder), "WEBUI_AUTH": "False", "WEBUI_SECRET_KEY": "key", "RAG_EMBEDDING_ENGINE": "ollama"}
    environment |= {"ENABLE_OPENAI_API": "False", "OFFLINE_MODE": "True", "SCARF_NO_ANALYTICS": "True"}
    command = [in_python("open-webui", "open-webui"), "serve", "--host", "127.0.0.1", "--port"]
    first = ("/api/v1/auths/signin", {"email": "admin@localhost", "password": "admin"})
    with server(folder, command, environment, first) as (send, body):
        headers = {"authorization": f"Bearer {json.loads(body)['token']}"}
        keys = {"0": {"enable": True, "key": STAND["key"]}}
        settings = {"ENABLE_OLLAMA_API": True, "OLLAMA_BASE_URLS": [ROOT_URL], "OLLAMA_API_CONFIGS": keys}
        status, body = send("/ollama/config/update", settings, headers)
        assert status == 200, body
        yield lambda path, body=None: send(path, body, headers)


@ways
@pytest.mark.parametrize("model", ["loop-native", "loop-hermes"])
def test_open_webui_lists_models_and_finishes_a_loop(model, way, webui):
    assert "version" in json.loads(webui("/ollama/api/version")[1])
    assert model in {each["id"] for each in json.loads(webui("/api/models")[1])["data"]}
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": city}}]
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]

    def ask():
        body = {"model": model, "messages": messages, "tools": tools, "stream": way == "stream"}
        status, answer = webui("/api/chat/completions", body)
        assert status == 200, answer
        return parts_of(answer, way)

    text, [call] = ask()
    assert (call["name"], json.loads(call["arguments"])) == ("get_weather", {"city": "Paris"})
    messages.append({"role": "assistant", "content": text, "tool_calls": [{"id": "1", "type": "function", "function": call}]})
    messages.append({"role": "tool", "tool_call_id": "1", "content": "18 °C"})
    assert ask() == ("It is 18 °C.", [])
