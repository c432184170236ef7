"""An MCP server built with the Python SDK. Uses the protocol version without a handshake, over stdio or, if given a port, HTTP."""

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
