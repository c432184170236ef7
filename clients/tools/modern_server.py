"""An MCP server of the Python SDK, which speaks the protocol without handshake: on stdio, or with a port over HTTP."""

import sys

from mcp.server import MCPServer

server = MCPServer("modern")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
