// An MCP server that wants a login and has no tools, and its authorization server, which logs in whoever comes.

import http from "node:http";
import { listen } from "./stand.mjs";

export async function authorization() {
  let origin;
  // The paths of requests.
  const requests = [];
  const server = http.createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, origin);
    requests.push(`${request.method} ${pathname}`);
    request.resume();
    const json = (status, value, headers = {}) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));
    const at = (path) => `${origin}${path}`;
    switch (pathname) {
      case "/.well-known/oauth-protected-resource/mcp":
        return json(200, { resource: at("/mcp"), authorization_servers: [origin] });
      case "/.well-known/oauth-authorization-server":
        return json(200, { issuer: origin, authorization_endpoint: at("/authorize"), token_endpoint: at("/token"), registration_endpoint: at("/register"), revocation_endpoint: at("/revoke"), code_challenge_methods_supported: ["S256"] });
      case "/register":
        return json(201, { client_id: "own" });
      case "/authorize": {
        const back = new URL(searchParams.get("redirect_uri"));
        back.search = new URLSearchParams({ code: "1", state: searchParams.get("state"), iss: origin });
        return response.writeHead(302, { location: back.href }).end();
      }
      case "/token":
        return json(200, { access_token: `access-${requests.length}`, refresh_token: `refresh-${requests.length}`, token_type: "bearer", expires_in: 3600 });
      case "/revoke":
        return json(200, {});
      default:
        return json(401, {}, { "www-authenticate": `Bearer resource_metadata="${at("/.well-known/oauth-protected-resource/mcp")}"` });
    }
  });
  origin = `http://127.0.0.1:${await listen(server)}`;
  return { url: `${origin}/mcp`, requests, close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()) };
}
