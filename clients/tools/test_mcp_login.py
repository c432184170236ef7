"""Logins at an MCP server that wants OAuth, end to end: the command line and the console log in, with the browser played by the test,
and the model's calls go to the server with the token."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import BINARY, HERE, STARTING, Upstream, free_port, on_demand, process, serving, toolwire, until, wait_for_port

ADMIN = "admin-key-of-the-test"


class Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirects."""

    def redirect_request(self, *_):
        return None


def redirected(url):
    """Returns the address to which the browser is sent."""
    with pytest.raises(urllib.error.HTTPError) as moved:
        urllib.request.build_opener(Stay).open(url, timeout=STARTING)
    return moved.value.headers["Location"]


class Setup:
    """A toolwire with one MCP server, `guarded`, that wants a login."""

    def __init__(self, tmp_path, gateway, port):
        self.folder, self.gateway, self.server = tmp_path, gateway, f"http://127.0.0.1:{port}"

    def command(self, *arguments):
        command = [BINARY, "mcp", *arguments, "--config", str(self.folder / "toolwire.toml")]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments):
        """Returns the status, stdout and stderr of a command."""
        running = self.command(*arguments)
        stdout, stderr = running.communicate(timeout=STARTING)
        return running.returncode, stdout, stderr

    def log_in(self):
        running = self.command("login", "guarded")
        url = running.stdout.readline().strip()
        with urllib.request.urlopen(url, timeout=STARTING) as page:
            assert "Logged in" in page.read().decode()
        stdout, stderr = running.communicate(timeout=STARTING)
        assert running.returncode == 0, stderr
        assert stdout == "guarded: logged in\n"

    def control(self, action):
        with urllib.request.urlopen(f"{self.server}/control/{action}", timeout=STARTING) as response:
            return json.load(response)

    def admin(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.gateway.url}/admin/{path}", json.dumps(body or {}).encode(), headers, method=method
        )
        if method == "GET":
            request.data = None
        with urllib.request.urlopen(request, timeout=STARTING) as response:
            return json.load(response)

    def provider(self):
        return self.admin("GET", "tools")["providers"][0]

    def waits(self):
        until(lambda: self.provider()["state"] == "needs_login")


@pytest.fixture
def guarded(tmp_path):
    tmp_path, port = tmp_path.resolve(), free_port()
    tables = f"""
[admin]
api_keys = ["{ADMIN}"]
[execution]
audit = "{tmp_path}/audit"
[[providers]]
name = "guarded"
kind = "mcp"
url = "http://127.0.0.1:{port}/mcp"
"""
    with process(sys.executable, str(HERE / "login_server.py"), str(port)):
        wait_for_port(port)
        with serving(Upstream, script=on_demand) as upstream, toolwire(tmp_path, upstream, tables) as gateway:
            yield Setup(tmp_path, gateway, port)


def test_command_line(guarded):
    guarded.waits()
    assert guarded.provider()["reason"] == "needs a login: run `toolwire mcp login guarded`"
    status, listed, _ = guarded.run("list")
    assert status == 0 and "guarded  needs login" in listed
    guarded.log_in()
    # The running server notices the login.
    assert "guarded__add" in guarded.gateway.tools("guarded__")
    assert "42" in guarded.gateway.call("guarded__add", a=40, b=2)
    _, listed, _ = guarded.run("list", "--json")
    listed = json.loads(listed)[0]
    assert (listed["state"], listed["refreshable"]) == ("ok", True)
    for entry in os.scandir(guarded.folder / "state/mcp-logins"):
        assert entry.stat().st_mode & 0o777 == 0o600
    status, stdout, _ = guarded.run("logout", "guarded")
    assert (status, stdout) == (0, "guarded: logged out\n")
    assert guarded.control("counts")["revoke"] == 1
    until(lambda: "needs a login" in guarded.gateway.call("guarded__add", a=40, b=2) or not guarded.gateway.names())
    assert guarded.run("logout", "guarded")[0] == 1


def test_expiry_and_revocation(guarded):
    guarded.control("expire?seconds=2")
    guarded.log_in()
    guarded.gateway.tools("guarded__")
    add = lambda number: guarded.gateway.call("guarded__add", a=number, b=1)
    guarded.control("expire?seconds=3600")
    # Many calls after the token has expired refresh it once.
    until(lambda: guarded.admin("GET", "tools")["providers"][0]["login"]["expires_at"] is not None)
    time.sleep(2.5)
    before = guarded.control("counts")["refresh"]
    with ThreadPoolExecutor(20) as pool:
        assert all(str(number + 1) in text for number, text in enumerate(pool.map(add, range(20))))
    assert guarded.control("counts")["refresh"] - before <= 1
    # Without access and refresh tokens, a person must log in again.
    guarded.control("revoke")
    assert "needs a login" in add(1)
    guarded.waits()
    guarded.log_in()
    until(lambda: guarded.gateway.names())
    assert "3" in add(2)
    # No token is shown anywhere.
    shown = (guarded.folder / "log").read_text() + (guarded.folder / "audit").read_text()
    assert "Bearer" not in shown and "access_token" not in shown


def test_console(guarded):
    guarded.waits()
    page = f"{guarded.gateway.url}/console/"
    url = guarded.admin("POST", "providers/guarded/login", {"redirect": page})["url"]
    back = redirected(url)
    assert back.startswith(f"{page}?")
    # The page is there, and passes the response on.
    with urllib.request.urlopen(back, timeout=STARTING) as served:
        assert served.headers["Referrer-Policy"] == "no-referrer"
    query = urllib.parse.urlsplit(back).query
    for wrong, status in [(query.replace("state=", "state=x"), 400), ("code=1", 400)]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            guarded.admin("POST", "logins", {"query": wrong})
        assert refused.value.code == status
    assert guarded.admin("POST", "logins", {"query": query}) == {"provider": "guarded", "key": None}
    assert guarded.gateway.tools("guarded__")
    login = guarded.provider()["login"]
    assert login["state"] == "logged_in" and login["refreshable"]
    assert guarded.admin("DELETE", "providers/guarded/login") == {"ok": True}
    guarded.waits()
    assert query not in (guarded.folder / "log").read_text()


def test_pasted_response(guarded):
    """The browser is on another machine, so its last page cannot be loaded."""
    running = guarded.command("login", "guarded")
    url = running.stdout.readline().strip()
    back = redirected(url)
    # A request with another host name is not the browser's.
    foreign = urllib.request.Request(back, headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(foreign, timeout=STARTING)
    assert refused.value.code == 400
    stdout, stderr = running.communicate(f"http://127.0.0.1/callback?code=1&state=2\n{back}\n", timeout=STARTING)
    assert running.returncode == 0, stderr
    assert stdout == "guarded: logged in\n" and "no login waits for this response" in stderr
    assert guarded.gateway.tools("guarded__")
