"""Logins at an MCP server that wants OAuth, end to end: the command line and the console log in, for all clients or for one key, with
the browser played by the test, and the model's calls go to the server with the token."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from harness import (
    BINARY,
    HERE,
    STARTING,
    Toolwire,
    Upstream,
    free_port,
    on_demand,
    process,
    serving,
    toolwire,
    until,
    wait_for_port,
)

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

    def __init__(self, folder, gateway, server):
        self.folder, self.gateway, self.server = folder, gateway, server

    def command(self, *arguments):
        command = [BINARY, "mcp", *arguments, "--config", str(self.folder / "toolwire.toml")]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *arguments):
        """Returns the status, stdout and stderr of a command."""
        running = self.command(*arguments)
        stdout, stderr = running.communicate(timeout=STARTING)
        return running.returncode, stdout, stderr

    def log_in(self, *options):
        running = self.command("login", "guarded", *options)
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

    def shows_no_token(self):
        tokens = self.control("tokens")
        shown = (self.folder / "log").read_text() + (self.folder / "audit").read_text()
        assert tokens and not [token for token in tokens if token in shown]

    def waits(self):
        until(lambda: self.provider()["state"] == "needs_login")


@contextmanager
def running(folder, server, options=""):
    """Runs a toolwire whose provider `guarded` is the MCP server at `server`. `options` are further settings of the provider."""
    tables = f"""
[admin]
api_keys = ["{ADMIN}"]
[execution]
audit = "{folder}/audit"
[[providers]]
name = "guarded"
kind = "mcp"
url = "{server}/mcp"
{options}
"""
    with serving(Upstream, script=on_demand) as upstream, toolwire(folder, upstream, tables) as gateway:
        yield Setup(folder, gateway, server)


@contextmanager
def started(program):
    """Runs a server that wants a login. Yields its URL."""
    port = free_port()
    with process(sys.executable, str(HERE / program), str(port)):
        wait_for_port(port)
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def server():
    with started("login_server.py") as url:
        yield url


@pytest.fixture
def guarded(tmp_path, server):
    with running(tmp_path.resolve(), server) as setup:
        yield setup


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
    guarded.shows_no_token()


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


def test_fastmcp(tmp_path):
    """A server of another SDK, and its authorization server."""
    with started("fastmcp_server.py") as server, running(tmp_path.resolve(), server) as setup:
        setup.waits()
        setup.log_in()
        assert "guarded__add" in setup.gateway.tools("guarded__")
        assert "42" in setup.gateway.call("guarded__add", a=40, b=2)
        assert setup.run("logout", "guarded")[:2] == (0, "guarded: logged out\n")
        until(lambda: "42" not in setup.gateway.call("guarded__add", a=40, b=2) or not setup.gateway.names())


PER_KEY = "\n".join(
    ['oauth_login_per = "key"', *(f'[[keys]]\nname = "{name}"\nkey = "key-of-{name}"' for name in ("ann", "bob", "eve"))]
)


class Keys:
    """The client keys of a toolwire at whose MCP server each key has a login of its own."""

    def __init__(self, setup):
        self.setup = setup

    def __getattr__(self, name):
        return Toolwire(self.setup.gateway.url, f"key-of-{name}")

    def log_in(self, name):
        self.setup.control(f"person?name={name}@example")
        self.setup.log_in("--key", name)

    def whoami(self, name):
        """Returns the person as whom the tool runs in a request with the key `name`."""
        before = self.setup.control("callers")
        text = getattr(self, name).call("guarded__whoami")
        called = self.setup.control("callers")[len(before) :]
        assert text == f"you are {called[0]}" and len(called) == 1, text
        return called[0]


@pytest.fixture
def keyed(tmp_path, server):
    with running(tmp_path.resolve(), server, PER_KEY) as setup:
        yield setup


def test_each_key_has_a_login_of_its_own(keyed):
    keys = Keys(keyed)
    assert keyed.run("login", "guarded")[0] == 2
    keys.log_in("ann")
    assert keys.ann.tools("guarded__") and keys.whoami("ann") == "ann@example"
    # The other keys have no login.
    assert keys.bob.names() == [] and keys.eve.names() == []
    keys.log_in("bob")
    assert keys.bob.tools("guarded__")
    for name in ("ann", "bob", "bob", "ann"):
        assert keys.whoami(name) == f"{name}@example"
    # Simultaneous calls do not share a connection, a result or a token.
    ask = lambda name: (name, getattr(keys, name).call("guarded__whoami"))
    with ThreadPoolExecutor(8) as pool:
        assert all(text == f"you are {name}@example" for name, text in pool.map(ask, ["ann", "bob"] * 8))
    # A key without a login learns which one it needs.
    [warning] = keys.eve.completion("list")["toolwire"]["warnings"]
    assert warning["code"] == "tools_missing" and "`toolwire mcp login guarded --key eve`" in warning["message"]
    assert "toolwire" not in keys.ann.completion("list")
    # It does not reach the server with the tool of another.
    before = keyed.control("callers")
    keys.eve.call("guarded__whoami")
    assert keyed.control("callers") == before
    # The end of one login leaves the other.
    assert keyed.run("logout", "guarded", "--key", "ann")[:2] == (0, "guarded: logged out\n")
    assert keyed.control("counts")["revoke"] == 1
    until(lambda: keys.ann.names() == [])
    assert keys.whoami("bob") == "bob@example"
    _, listed, _ = keyed.run("list", "--json")
    assert [(own["key"], own["state"]) for own in json.loads(listed)] == [(None, "per key"), ("bob", "ok")]


def test_logins_of_keys_outlive_a_restart(tmp_path, server):
    folder = tmp_path.resolve()
    with running(folder, server, PER_KEY) as setup:
        for name in ("ann", "bob"):
            Keys(setup).log_in(name)
    with running(folder, server, PER_KEY) as setup:
        keys = Keys(setup)
        # The first request of a key waits for its tools.
        assert [keys.whoami(name) for name in ("bob", "ann")] == ["bob@example", "ann@example"]
        assert setup.control("counts")["code"] == 2


def test_logins_of_keys_are_refreshed_apart(keyed):
    keys = Keys(keyed)
    keyed.control("expire?seconds=2")
    for name in ("ann", "bob"):
        keys.log_in(name)
        assert keys.whoami(name) == f"{name}@example"
    keyed.control("expire?seconds=3600")
    time.sleep(2.5)
    before = keyed.control("counts")["refresh"]
    for name in ("bob", "ann", "bob", "ann"):
        assert keys.whoami(name) == f"{name}@example"
    assert keyed.control("counts")["refresh"] - before <= 2
    # After a revocation, the model is told the command of the key.
    keyed.control("revoke")
    refused = keys.ann.call("guarded__whoami")
    assert "`toolwire mcp login guarded --key ann`" in refused and "bob" not in refused
    keys.log_in("ann")
    until(lambda: keys.ann.names())
    assert keys.whoami("ann") == "ann@example"
    keyed.shows_no_token()
