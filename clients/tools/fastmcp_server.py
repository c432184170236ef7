"""An MCP server built with FastMCP that wants OAuth, with FastMCP's own authorization server at the same port, which logs in at once."""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider

PORT = int(sys.argv[1])
auth = InMemoryOAuthProvider(
    base_url=f"http://127.0.0.1:{PORT}",
    required_scopes=["use"],
    client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["use"], default_scopes=["use"]),
    revocation_options=RevocationOptions(enabled=True),
)
server = FastMCP("fast", auth=auth)


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


server.run(transport="http", host="127.0.0.1", port=PORT, show_banner=False)
