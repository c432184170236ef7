"""MCP servers as hosted tools, end to end: a scripted upstream calls a server's tool, toolwire runs the call, and the upstream
responds with the result. The servers are the reference servers from npm and PyPI, that of Playwright, and one that uses the Python SDK."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from harness import HERE, STARTING, Handler, Upstream, free_port, on_demand, process, serving, toolwire, until, wait_for_port

SERVERS = HERE / "node_modules/@modelcontextprotocol"
EVERYTHING = str(SERVERS / "server-everything/dist/index.js")
FILESYSTEM = str(SERVERS / "server-filesystem/dist/index.js")
MEMORY = str(SERVERS / "server-memory/dist/index.js")
PLAYWRIGHT = str(HERE / "node_modules/@playwright/mcp/cli.js")
MODERN = str(HERE / "modern_server.py")

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")

IDENTITY = ["-c", "user.name=a", "-c", "user.email=a@example.org"]


@contextmanager
def with_server(tmp_path, name, settings):
    """Runs toolwire with one MCP server."""
    provider = f'[execution]\n[[providers]]\nname = "{name}"\nkind = "mcp"\n{settings}\n'
    with serving(Upstream, script=on_demand) as upstream, toolwire(tmp_path, upstream, provider) as gateway:
        gateway.upstream = upstream
        yield gateway


@contextmanager
def modern(transport):
    if transport == "stdio":
        yield f'command = ["{sys.executable}", "{MODERN}"]\nprotocol = "discover"'
        return
    port = free_port()
    with process(sys.executable, MODERN, str(port)):
        wait_for_port(port)
        yield f'url = "http://127.0.0.1:{port}/mcp"\nprotocol = "discover"'


# The transports of the server with all features: its argument for them, and the path of its URL.
TRANSPORTS = {"stdio": ("stdio", None), "http": ("streamableHttp", "mcp"), "sse": ("sse", "sse")}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Runs toolwire with the reference servers, and the one with all features over each transport."""
    tmp_path = tmp_path_factory.mktemp("reference").resolve()
    (tmp_path / "note.txt").write_text("written by the test")
    subprocess.run(["git", "init", "--quiet", "--initial-branch", "from-the-test", str(tmp_path)], check=True)
    subprocess.run(["git", "-C", str(tmp_path), *IDENTITY, "commit", "--quiet", "--allow-empty", "-m", "first"], check=True)
    python = Path(sys.executable).parent
    programs = {
        "stdio": ["node", EVERYTHING, "stdio"],
        "files": ["node", FILESYSTEM, str(tmp_path)],
        "memory": ["node", MEMORY],
        "time": [str(python / "mcp-server-time")],
        "git": [str(python / "mcp-server-git")],
        "fetch": [str(python / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"],
    }
    with ExitStack() as stack:
        tables = {name: f"command = {json.dumps(command)}" for name, command in programs.items()}
        for name, (argument, path) in TRANSPORTS.items():
            if path:
                port = free_port()
                stack.enter_context(process("node", EVERYTHING, argument, PORT=str(port)))
                tables[name] = f'url = "http://127.0.0.1:{port}/{path}"'
        tables["files"] += '\ntools = ["read_*", "list_*"]'
        tables["memory"] += f'\nenv = {{ MEMORY_FILE_PATH = "{tmp_path}/memory.jsonl" }}'
        providers = [f'[[providers]]\nname = "{name}"\nkind = "mcp"\n{table}\n' for name, table in tables.items()]
        upstream = stack.enter_context(serving(Upstream, script=on_demand))
        settings = '[execution]\nvisibility = "reasoning"\n' + "".join(providers)
        gateway = stack.enter_context(toolwire(tmp_path, upstream, settings))
        gateway.folder, gateway.upstream = tmp_path, upstream
        yield gateway


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_everything(reference, transport):
    assert f"{transport}__echo" in reference.tools(f"{transport}__")
    call = lambda tool, **arguments: reference.call(f"{transport}__{tool}", **arguments)
    assert "hello from a test" in call("echo", message="hello from a test")
    assert "5" in call("get-sum", a=2, b=3)
    assert "temperature" in call("get-structured-content", location="New York")
    # toolwire gives the model images, and stores them.
    shown = call("get-tiny-image")
    assert shown.endswith("sees text sees image_url"), shown
    url = re.search(r"http://[^)]*/api/images/[^)]*", shown)
    with urllib.request.urlopen(url[0], timeout=STARTING) as image:
        assert image.read(8) == b"\x89PNG\r\n\x1a\n"
    # Links in results can be read.
    link = re.search(r"demo://resource/dynamic/text/\d+", call("get-resource-links", count=4))
    assert "plaintext" in call("resources", uri=link[0])
    listed = json.loads(call("resources"))
    assert listed["resources"] and listed["templates"]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_progress_and_instructions(reference, transport):
    reference.tools(f"{transport}__")
    question = {"tool": f"{transport}__trigger-long-running-operation", "arguments": {"duration": 2, "steps": 2}}
    response = reference.response(json.dumps(question))
    assert "completed" in response["content"]
    lines = response["reasoning_content"].splitlines()
    assert lines[0].startswith("Running: ") and any("50%" in line for line in lines), lines
    _, request = reference.upstream.requests[-1]
    system = next(message["content"] for message in request["messages"] if message["role"] == "system")
    assert f"the server `{transport}` says" in system and "> # Everything Server" in system


def test_filesystem(reference):
    names = reference.tools("files__")
    assert "files__read_text_file" in names and "files__write_file" not in names
    note = str(reference.folder / "note.txt")
    assert "written by the test" in reference.call("files__read_text_file", path=note)
    denied = reference.call("files__read_text_file", path="/etc/passwd")
    assert "denied" in denied and "root:" not in denied


def test_memory(reference):
    assert reference.tools("memory__")
    entity = {"name": "toolwire", "entityType": "proxy", "observations": ["runs tools"]}
    reference.call("memory__create_entities", entities=[entity])
    assert "runs tools" in reference.call("memory__search_nodes", query="toolwire")


def test_time(reference):
    assert reference.tools("time__")
    assert "Asia/Tokyo" in reference.call("time__get_current_time", timezone="Asia/Tokyo")


def test_git(reference):
    assert reference.tools("git__")
    assert "from-the-test" in reference.call("git__git_status", repo_path=str(reference.folder))


class Page(Handler):
    def do_GET(self):
        self.reply(200, "text/html", b"<html><body><h1>A page</h1><p>read by the fetch server</p></body></html>")


def test_fetch(reference):
    assert reference.tools("fetch__")
    with serving(Page) as page:
        assert "fetch server" in reference.call("fetch__fetch", url=f"http://127.0.0.1:{page.server_port}/")


@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium")
def test_browser(tmp_path):
    """A model that sees gets the screenshot of a page as an image."""
    options = ["--headless", "--isolated", "--no-sandbox", "--executable-path", CHROMIUM, "--output-dir", str(tmp_path)]
    settings = f"command = {json.dumps(['node', PLAYWRIGHT, *options])}"
    with serving(Page) as page, with_server(tmp_path, "browser", settings) as gateway:
        assert "browser__browser_take_screenshot" in gateway.tools("browser__")
        url = f"http://127.0.0.1:{page.server_port}/"
        assert url in gateway.call("browser__browser_navigate", url=url)
        assert 'heading "A page"' in gateway.call("browser__browser_snapshot")
        shown = gateway.call("browser__browser_take_screenshot", type="png")
        assert shown.endswith("sees text sees image_url"), shown
        *_, (_, request) = gateway.upstream.requests
        image = request["messages"][-1]["content"][-1]["image_url"]["url"]
        kind, data = image.split(",", 1)
        assert kind == "data:image/png;base64" and base64.b64decode(data)[:8] == b"\x89PNG\r\n\x1a\n"


def test_http_server_that_dies_and_comes_back(tmp_path):
    """The restarted server does not know the old session."""
    port = free_port()
    with process("node", EVERYTHING, "streamableHttp", PORT=str(port)) as first:
        wait_for_port(port)
        with with_server(tmp_path, "every", f'url = "http://127.0.0.1:{port}/mcp"') as gateway:
            assert "every__echo" in gateway.tools("every__")
            first.kill()
            first.wait()
            with process("node", EVERYTHING, "streamableHttp", PORT=str(port)):
                wait_for_port(port)
                until(lambda: "once more" in gateway.call("every__echo", message="once more"))


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_protocol_without_handshake(tmp_path, transport):
    with modern(transport) as server, with_server(tmp_path, "modern", server) as gateway:
        assert "modern__add" in gateway.tools("modern__")
        assert "42" in gateway.call("modern__add", a=40, b=2)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_client_that_leaves_cancels_the_call(tmp_path, transport):
    file = tmp_path / "call"
    question = json.dumps({"tool": "modern__wait", "arguments": {"file": str(file)}})
    with modern(transport) as server, with_server(tmp_path, "modern", server) as gateway:
        assert gateway.tools("modern__")
        leaving = gateway.started(question)
        until(file.exists)
        leaving.close()
        until(lambda: file.read_text() == "cancelled")
        assert "42" in gateway.call("modern__add", a=40, b=2)


def test_programs_do_not_outlive_toolwire(tmp_path):
    """Neither the server nor its child process, which does not read stdin, is left running."""
    file = tmp_path / "started"
    command = f'["sh", "-c", "sleep 1000 & echo $! > {file}; exec {sys.executable} {MODERN}"]'
    with with_server(tmp_path, "modern", f'command = {command}\nprotocol = "discover"') as gateway:
        assert gateway.tools("modern__")
        started = Path("/proc") / file.read_text().strip()
        assert started.exists()
    assert not started.exists() or ") Z " in (started / "stat").read_text()
