"""An MCP server built with the Python SDK that wants OAuth, and its authorization server, at one port. `/authorize` logs the person
in at once who sits at the browser. GET /control/person?name=NAME seats another one, /control/expire?seconds=N sets the lifetime of the
next access tokens, /control/revoke revokes all tokens, /control/counts counts grants, /control/tokens lists all tokens, /control/callers who has called `whoami`."""

import secrets
import sys
import time

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthToken
from starlette.responses import JSONResponse

PORT = int(sys.argv[1])
ORIGIN = f"http://127.0.0.1:{PORT}"


class Logins:
    """Keeps everything in memory, and rotates refresh tokens."""

    def __init__(self):
        self.clients, self.codes, self.access, self.refresh = {}, {}, {}, {}
        self.lifetime, self.counts = 3600, {"code": 0, "refresh": 0, "revoke": 0}
        self.person, self.callers, self.tokens = "operator", [], []

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            client_id=client.client_id,
            scopes=params.scopes or ["use"],
            expires_at=time.time() + 60,
            subject=self.person,
            **params.model_dump(include={"code_challenge", "redirect_uri", "redirect_uri_provided_explicitly", "resource"}),
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state, iss=ORIGIN)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        self.counts["code"] += 1
        return self.issue(client, authorization_code)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh[refresh_token.token]
        self.counts["refresh"] += 1
        return self.issue(client, refresh_token)

    async def load_access_token(self, token):
        return self.access.get(token)

    async def revoke_token(self, token):
        """Revokes all tokens of the person."""
        self.counts["revoke"] += 1
        for kept in (self.access, self.refresh):
            for own in [own for own in kept.values() if own.subject == token.subject]:
                del kept[own.token]

    def issue(self, client, grant):
        """Issues tokens to the person of `grant`, a code or a refresh token."""
        scopes = grant.scopes
        common = {"client_id": client.client_id, **grant.model_dump(include={"scopes", "resource", "subject"})}
        access = AccessToken(token=secrets.token_hex(32), expires_at=int(time.time()) + self.lifetime, **common)
        refresh = RefreshToken(token=secrets.token_hex(32), **common)
        self.tokens += [access.token, refresh.token]
        self.access[access.token], self.refresh[refresh.token] = access, refresh
        return OAuthToken(
            access_token=access.token, refresh_token=refresh.token, expires_in=self.lifetime, scope=" ".join(scopes)
        )


logins = Logins()
server = MCPServer(
    "login",
    auth_server_provider=logins,
    auth=AuthSettings(
        issuer_url=ORIGIN,
        resource_server_url=f"{ORIGIN}/mcp",
        validate_token_resource=True,
        required_scopes=["use"],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["use"], default_scopes=["use"]),
        revocation_options=RevocationOptions(enabled=True),
    ),
)


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def whoami() -> str:
    """Says to whom the token belongs."""
    logins.callers.append(get_access_token().subject)
    return f"you are {logins.callers[-1]}"


@server.custom_route("/control/{action}", methods=["GET"])
async def control(request):
    match request.path_params["action"]:
        case "expire":
            logins.lifetime = int(request.query_params["seconds"])
        case "person":
            logins.person = request.query_params["name"]
        case "tokens":
            return JSONResponse(logins.tokens)
        case "callers":
            return JSONResponse(logins.callers)
        case "revoke":
            logins.access.clear()
            logins.refresh.clear()
    return JSONResponse(logins.counts)


server.run("streamable-http", port=PORT)
