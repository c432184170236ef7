"""toolwire as an MCP server: clients of MCP's own SDK list and call its hosted tools, over HTTP and over stdin and stdout."""

import asyncio

import pytest
from harness import BINARY, Upstream, serving, toolwire
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

TOOL = """[execution]
[[providers]]
name = "shout"
kind = "command"
command = ["tr", "a-z", "A-Z"]
description = "Repeats its arguments loudly"
parameters = { type = "object", properties = { text = { type = "string" } }, required = ["text"] }
"""


async def used(target):
    async with Client(target) as client:
        [tool] = (await client.list_tools()).tools
        assert (tool.name, tool.description) == ("shout", "Repeats its arguments loudly")
        assert tool.input_schema["required"] == ["text"]
        answer = await client.call_tool("shout", {"text": "hi"})
        assert (answer.is_error, answer.content[0].text) == (False, '{"TEXT":"HI"}')
        refused = await client.call_tool("shout", {})
        assert refused.is_error and "invalid_arguments" in refused.content[0].text


def test_tools_are_offered_over_http(tmp_path):
    with serving(Upstream) as upstream, toolwire(tmp_path, upstream, TOOL) as gateway:
        asyncio.run(used(f"{gateway.url}/mcp"))


def test_tools_are_offered_over_stdin_and_stdout(tmp_path):
    file = tmp_path / "toolwire.toml"
    model = '[[upstreams]]\nname = "u"\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n[[models]]\nname = "m"\nupstream = "u"\n'
    file.write_text(f'state_dir = "{tmp_path}/state"\n{model}{TOOL}')
    program = StdioServerParameters(command=BINARY, args=["mcp", "serve", "--config", str(file)])
    asyncio.run(used(stdio_client(program)))
