"""An MCP server built with the Python SDK. Uses the protocol version without a handshake, over stdio or, if given a port, HTTP."""

import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer

server = MCPServer("modern")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def wait(file: str) -> str:
    """Waits, and writes to the file when the call is cancelled."""
    Path(file).write_text("waits")
    try:
        await anyio.sleep(1000)
    except anyio.get_cancelled_exc_class():
        Path(file).write_text("cancelled")
        raise
    return "done"


if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
