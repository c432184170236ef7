"""MCP servers as hosted tools, end to end: a scripted upstream calls a server's tool, toolwire runs the call, and the upstream
responds with the result. The servers are the reference servers from npm, and one that uses the Python SDK."""

import re
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import HERE, STARTING, Upstream, free_port, on_demand, process, serving, toolwire, until, wait_for_port

SERVERS = HERE / "node_modules/@modelcontextprotocol"
EVERYTHING = str(SERVERS / "server-everything/dist/index.js")
FILESYSTEM = str(SERVERS / "server-filesystem/dist/index.js")
MODERN = str(HERE / "modern_server.py")


@contextmanager
def with_server(tmp_path, name, settings):
    """Runs toolwire with one MCP server."""
    provider = f'[execution]\n[[providers]]\nname = "{name}"\nkind = "mcp"\n{settings}\n'
    with serving(Upstream, script=on_demand) as upstream, toolwire(tmp_path, upstream, provider) as gateway:
        yield gateway


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
    with everything(transport) as server, with_server(tmp_path, "every", server) as gateway:
        assert "every__echo" in gateway.tools("every__")
        assert "hello from a test" in gateway.call("every__echo", message="hello from a test")
        assert "5" in gateway.call("every__get-sum", a=2, b=3)
        structured = gateway.call("every__get-structured-content", location="New York")
        assert "temperature" in structured
        # toolwire stores images, and gives the model their URLs.
        url = re.search(r"http://[^)]*/api/images/[^)]*", gateway.call("every__get-tiny-image"))
        with urllib.request.urlopen(url[0], timeout=STARTING) as image:
            assert image.read(8) == b"\x89PNG\r\n\x1a\n"


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


def test_filesystem(tmp_path):
    folder = (tmp_path / "data").resolve()
    folder.mkdir()
    (folder / "note.txt").write_text("written by the test")
    settings = f'command = ["node", "{FILESYSTEM}", "{folder}"]\ntools = ["read_*", "list_*"]'
    with with_server(tmp_path, "files", settings) as gateway:
        names = gateway.tools("files__")
        assert "files__read_text_file" in names
        assert "files__write_file" not in names
        assert "written by the test" in gateway.call("files__read_text_file", path=str(folder / "note.txt"))
        denied = gateway.call("files__read_text_file", path="/etc/passwd")
        assert "denied" in denied and "root:" not in denied


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_protocol_without_handshake(tmp_path, transport):
    with modern(transport) as server, with_server(tmp_path, "modern", server) as gateway:
        assert "modern__add" in gateway.tools("modern__")
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
