"""What MCP servers have for people, with the reference server over two transports: questions during a call, which are answered over the
admin API, prompts, and calls that run as tasks."""

import http.client
import json
import threading
import urllib.request
from contextlib import ExitStack

import pytest
from harness import STARTING, Upstream, free_port, on_demand, process, serving, toolwire, until, wait_for_port
from test_mcp import EVERYTHING

TRANSPORTS = ["stdio", "http"]

ADMIN = {"Authorization": "Bearer the-admin-key-of-the-tests", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    """Runs toolwire with the admin API, whose events are read."""
    tmp_path = tmp_path_factory.mktemp("people")
    port = free_port()
    with ExitStack() as stack:
        stack.enter_context(process("node", EVERYTHING, "streamableHttp", PORT=str(port)))
        wait_for_port(port)
        servers = {"stdio": f"command = {json.dumps(['node', EVERYTHING, 'stdio'])}", "http": f'url = "http://127.0.0.1:{port}/mcp"'}
        providers = [f'[[providers]]\nname = "{name}"\nkind = "mcp"\n{server}\n' for name, server in servers.items()]
        upstream = stack.enter_context(serving(Upstream, script=on_demand))
        (tmp_path / "key").write_text("the-admin-key-of-the-tests")
        admin = f'[admin]\napi_keys = ["file:{tmp_path}/key"]\n'
        gateway = stack.enter_context(toolwire(tmp_path, upstream, f"{admin}[execution]\n{''.join(providers)}"))
        events = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=STARTING)
        events.request("GET", "/admin/events", headers=ADMIN)
        assert events.getresponse().status == 200
        yield gateway
        events.close()


def admin(gateway, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{gateway.url}/admin/{path}", data, ADMIN)
    with urllib.request.urlopen(request, timeout=STARTING) as response:
        return json.load(response)


def answered(gateway, tool, answer, **arguments):
    """Calls a tool, gives all its questions the same answer, and returns the input of the first one and the tool's result."""
    asked, has_ended = [], threading.Event()

    def give():
        while not has_ended.wait(0.05):
            for question in admin(gateway, "permissions")["questions"]:
                asked.append(question["input"])
                admin(gateway, f"permissions/{question['request_id']}", answer)

    person = threading.Thread(target=give, daemon=True)
    person.start()
    result = gateway.call(tool, **arguments)
    has_ended.set()
    person.join(STARTING)
    return asked[0], result


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_form(gateway, transport):
    tool = f"{transport}__trigger-elicitation-request"
    until(lambda: tool in gateway.names())
    asked, result = answered(gateway, tool, {"action": "accept", "content": {"name": "Ferris the Crab"}})
    assert asked["mode"] == "form" and "name" in asked["schema"]["required"]
    assert "Ferris the Crab" in result
    _, result = answered(gateway, tool, {"action": "decline"})
    assert "declined" in result


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_page(gateway, transport):
    tool = f"{transport}__trigger-url-elicitation"
    until(lambda: tool in gateway.names())
    url = "https://example.org/sign-in"
    asked, result = answered(gateway, tool, {"action": "accept"}, url=url, message="Sign in")
    assert (asked["mode"], asked["url"], asked["message"]) == ("url", url, "Sign in")
    assert "completed" in result
    # The tool fails until another page was opened, and is called again.
    asked, result = answered(gateway, tool, {"action": "accept"}, url=url, errorPath=True)
    assert asked["url"] != url and "completed" in result


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_task(gateway, transport):
    tool = f"{transport}__simulate-research-query"
    until(lambda: tool in gateway.names())
    assert "Research Report: crabs" in gateway.call(tool, topic="crabs", ambiguous=False)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_task_that_asks(gateway, transport):
    tool = f"{transport}__simulate-research-query"
    until(lambda: tool in gateway.names())
    asked, result = answered(gateway, tool, {"action": "decline"}, topic="python", ambiguous=True)
    assert "interpretation" in asked["schema"]["properties"]
    assert "User declined" in result


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_prompts(gateway, transport):
    named = lambda: {own["name"]: own for own in admin(gateway, "prompts")["prompts"] if own["provider"] == transport}
    until(named)
    prompt = named()["args-prompt"]
    assert {"name": "city", "required": True}.items() <= prompt["arguments"][0].items()
    [message] = admin(gateway, f"prompts/{transport}/args-prompt", {"arguments": {"city": "Kyiv"}})["messages"]
    assert message["role"] == "user" and "Kyiv" in message["content"]
