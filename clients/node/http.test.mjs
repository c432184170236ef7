// HTTP/1.1 with Node's own client: framing, persistent connections, and responses without a body.

import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";

import { STAND, TIMEOUT } from "./sdk.mjs";

const url = new URL(`${STAND.url}/chat/completions`);
const call = { id: "c", type: "function", function: { name: "get_weather", arguments: "{}" } };
const messages = [
  { role: "user", content: "Paris?" },
  { role: "assistant", tool_calls: [call] },
  { role: "tool", tool_call_id: "c", content: "18 °C" },
];

/** Sends a request. Returns the response's head and body, and the socket. */
function exchange(agent, method, path, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request({
      agent,
      method,
      path,
      host: url.hostname,
      port: url.port,
      headers: { authorization: `Bearer ${STAND.key}`, "content-type": "application/json", ...headers },
      timeout: TIMEOUT,
    });
    request.on("error", reject).on("timeout", () => request.destroy(new Error("no response")));
    request.on("response", (response) => {
      const pieces = [];
      const { socket } = response;
      response.on("error", reject).on("data", (piece) => pieces.push(piece));
      response.on("end", () =>
        resolve({
          status: response.statusCode,
          headers: response.headers,
          complete: response.complete,
          text: Buffer.concat(pieces).toString(),
          socket,
        }),
      );
    });
    request.end(body);
  });
}

const ask = (agent, stream, model = "loop-native", headers = {}) =>
  exchange(agent, "POST", url.pathname, JSON.stringify({ model, stream, messages }), headers);

test("one connection carries every kind of response", async () => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const sockets = new Set();
  for (let round = 0; round < 2; round += 1) {
    const streamed = await ask(agent, true);
    assert.equal(streamed.headers["transfer-encoding"], "chunked");
    assert.ok(streamed.complete && streamed.text.endsWith("data: [DONE]\n\n"), streamed.text);
    const whole = await ask(agent, false);
    assert.equal(Number(whole.headers["content-length"]), Buffer.byteLength(whole.text));
    const unknown = await ask(agent, true, "nobody");
    assert.equal(unknown.status, 404);
    assert.ok(JSON.parse(unknown.text).error);
    const head = await exchange(agent, "HEAD", "/healthz");
    assert.deepEqual([head.status, head.text], [200, ""]);
    const options = await exchange(agent, "OPTIONS", url.pathname);
    assert.deepEqual([options.status, options.text, options.headers["content-length"]], [204, "", undefined]);
    for (const { socket, headers } of [streamed, whole, unknown, head, options]) {
      sockets.add(socket);
      assert.ok(headers.date);
    }
  }
  assert.equal(sockets.size, 1, "the connection was not kept");
  agent.destroy();
});

test("the end of the connection is announced where a client asks for it", async () => {
  const agent = new http.Agent({ keepAlive: true });
  for (const stream of [true, false]) {
    const { headers, complete } = await ask(agent, stream, "loop-native", { connection: "close" });
    assert.deepEqual([headers.connection, complete], ["close", true]);
  }
  agent.destroy();
});

test("an error inside a stream ends the body in order", async () => {
  const { complete, text } = await ask(undefined, true, "dies-in-text");
  assert.ok(complete && text.includes('"error"'), text);
});
