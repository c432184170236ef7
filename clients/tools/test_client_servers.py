"""Tools that the APIs' own servers run: MCP servers that a client names, and pages that it lets be read. Through the SDKs of the
APIs that have them, with a reference server."""

import json
from contextlib import contextmanager

import anthropic
import openai
import pytest
from harness import HERE, STARTING, Handler, Upstream, free_port, on_demand, process, serving, toolwire, wait_for_port

EVERYTHING = str(HERE / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")


class Site(Handler):
    def do_GET(self):
        self.server.requests.append((self.path, None))
        self.reply(200, "text/html; charset=utf-8", "<title>Lyon</title><p>Rain until noon, 9&nbsp;°C.".encode())


@contextmanager
def gateway(tmp_path):
    """Runs toolwire with a reference server that clients may name. Returns the URLs of both."""
    port = free_port()
    server = f"http://127.0.0.1:{port}/mcp"
    tables = f"""
[execution]
visibility = "items"
[[providers]]
name = "clients"
kind = "client_mcp"
servers = ["{server}"]
allow_private = true
[[providers]]
name = "web"
kind = "fetch"
allow_private = true
"""
    with process("node", EVERYTHING, "streamableHttp", PORT=str(port)):
        wait_for_port(port)
        with serving(Upstream, script=on_demand) as upstream, toolwire(tmp_path, upstream, tables) as running:
            yield running.url, server


def wanted(tool, **arguments):
    return json.dumps({"tool": tool, "arguments": arguments})


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_openai_calls_a_named_server(tmp_path, stream):
    with gateway(tmp_path) as (url, server):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=STARTING)
        tool = {
            "type": "mcp",
            "server_label": "all",
            "server_url": server,
            "authorization": "client-secret",
            "require_approval": "never",
            "allowed_tools": ["echo", "get-sum"],
        }

        def ask(text, **more):
            request = {"model": "m", "input": [{"role": "user", "content": text}], "tools": [tool], **more}
            if not stream:
                return client.responses.create(**request)
            with client.responses.stream(**request) as events:
                kinds = [event.type for event in events]
                response = events.get_final_response()
            called = [item for item in response.output if item.type == "mcp_call"]
            assert not called or {"response.mcp_call.in_progress", "response.mcp_call.completed"} <= set(kinds)
            return response

        answer = ask(wanted("all__echo", message="hello"))
        [listed, called, said] = answer.output
        assert (listed.type, listed.server_label, listed.error) == ("mcp_list_tools", "all", None)
        assert sorted(entry.name for entry in listed.tools) == ["echo", "get-sum"]
        assert (called.type, called.server_label, called.name) == ("mcp_call", "all", "echo")
        assert json.loads(called.arguments) == {"message": "hello"} and called.error is None
        assert "hello" in called.output and "hello" in said.content[0].text
        assert "client-secret" not in answer.model_dump_json()
        # The call stays in the stored history, and only the tools that the client allows are offered.
        again = ask("list", previous_response_id=answer.id)
        assert sorted(name for name in json.loads(again.output_text) if name.startswith("all__")) == ["all__echo", "all__get-sum"]


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "replayed"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_openai_approves_and_declines(tmp_path, stream, stored):
    with gateway(tmp_path) as (url, server):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=STARTING)
        approval = {"never": {"tool_names": ["get-sum"]}}
        tool = {"type": "mcp", "server_label": "all", "server_url": server, "require_approval": approval}
        history, previous, kinds = [], None, []

        def ask(*items):
            nonlocal previous
            history.extend(items)
            request = {"model": "m", "tools": [tool], "input": list(items) if stored else history, "store": stored}
            if stored and previous:
                request["previous_response_id"] = previous
            if stream:
                with client.responses.stream(**request) as events:
                    kinds.extend(event.type for event in events)
                    response = events.get_final_response()
            else:
                response = client.responses.create(**request)
            assert response.status == "completed"
            history.extend(item.model_dump(exclude_none=True) for item in response.output)
            previous = response.id
            return response.output

        def user(text):
            return {"role": "user", "content": text}

        def answer(request, approve, **more):
            return {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve, **more}

        listed, request = ask(user(wanted("all__echo", message="hello")))
        assert (listed.type, listed.server_label) == ("mcp_list_tools", "all")
        assert (request.type, request.server_label, request.name) == ("mcp_approval_request", "all", "echo")
        assert json.loads(request.arguments) == {"message": "hello"}
        called, said = ask(answer(request, True))
        assert (called.type, called.approval_request_id, called.arguments) == ("mcp_call", request.id, request.arguments)
        assert "hello" in called.output and "hello" in said.content[0].text
        [request] = ask(user(wanted("all__echo", message="bye")))
        [said] = ask(answer(request, False, reason="Too long."))
        assert "declined" in said.content[0].text and "Too long." in said.content[0].text
        # This tool needs no approval.
        called, said = ask(user(wanted("all__get-sum", a=2, b=3)))
        assert (called.type, called.name, called.approval_request_id) == ("mcp_call", "get-sum", None)
        assert "5" in said.content[0].text
        if stream:
            events = {"mcp_list_tools.in_progress", "mcp_list_tools.completed", "mcp_call.in_progress", "mcp_call.completed"}
            assert {f"response.{event}" for event in events} <= set(kinds)


def test_openai_is_told_what_is_not_possible(tmp_path):
    with gateway(tmp_path) as (url, server):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=STARTING)
        tool = {"type": "mcp", "server_label": "all", "server_url": server}
        with pytest.raises(openai.BadRequestError, match="require_approval"):
            client.responses.create(model="m", input="list", tools=[{**tool, "require_approval": "sometimes"}])
        answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
        with pytest.raises(openai.BadRequestError, match="approval_request_id"):
            client.responses.create(model="m", input=[{"role": "user", "content": "list"}, answer], tools=[tool])
        other = {**tool, "server_url": "https://other.example/mcp"}
        answer = client.responses.create(model="m", input="list", tools=[other])
        assert answer.metadata["toolwire_ignored_tools"] == "mcp"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_anthropic_calls_a_named_server(tmp_path, stream):
    with gateway(tmp_path) as (url, server):
        client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=STARTING)

        def ask(messages):
            request = {
                "model": "m",
                "max_tokens": 99,
                "messages": messages,
                "mcp_servers": [{"type": "url", "name": "all", "url": server, "authorization_token": "client-secret"}],
                "tools": [
                    {
                        "type": "mcp_toolset",
                        "mcp_server_name": "all",
                        "default_config": {"enabled": False},
                        "configs": {"echo": {"enabled": True}},
                    }
                ],
                "betas": ["mcp-client-2025-11-20"],
            }
            if not stream:
                return client.beta.messages.create(**request)
            with client.beta.messages.stream(**request) as events:
                return events.get_final_message()

        messages = [{"role": "user", "content": wanted("all__echo", message="hello")}]
        answer = ask(messages)
        used, result, said = answer.content
        assert (used.type, used.server_name, used.name, used.input) == ("mcp_tool_use", "all", "echo", {"message": "hello"})
        assert (result.type, result.tool_use_id, result.is_error) == ("mcp_tool_result", used.id, False)
        assert "hello" in result.content[0].text and "hello" in said.text
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "list"}]
        assert [name for name in json.loads(ask(messages).content[-1].text) if name.startswith("all__")] == ["all__echo"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_anthropic_gets_pages(tmp_path, stream):
    with gateway(tmp_path) as (url, _), serving(Site) as site:
        client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=STARTING)
        tool = {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 1}
        page = f"http://127.0.0.1:{site.server_port}/lyon"

        def ask(messages):
            request = {"model": "m", "max_tokens": 99, "messages": messages, "tools": [tool]}
            if not stream:
                return client.messages.create(**request)
            with client.messages.stream(**request) as events:
                return events.get_final_message()

        messages = [{"role": "user", "content": wanted("web_fetch", url=page)}]
        answer = ask(messages)
        used, result, _ = answer.content
        assert (used.type, used.name, used.input) == ("server_tool_use", "web_fetch", {"url": page})
        assert (result.type, result.content.type, result.content.url) == ("web_fetch_tool_result", "web_fetch_result", page)
        assert result.content.content.title == "Lyon"
        assert result.content.content.source.data == "Rain until noon, 9 °C."
        assert answer.usage.server_tool_use.web_fetch_requests == 1
        content = [block.model_dump(exclude_none=True) for block in answer.content]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "list"}]
        assert "web_fetch" in json.loads(ask(messages).content[-1].text)
        assert [path for path, _ in site.requests] == ["/lyon"]
