// Starts toolwire with the console, a scripted model as its upstream, and a proxy in front of it. The proxy strips a path prefix, and can
// replace responses with scripted ones.

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const binary = path.resolve(process.env.TOOLWIRE_BIN ?? path.join(here, "../../target/debug/toolwire"));
const pageFolder = path.join(here, "../../crates/admin/src/console/page");
const TYPES = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

export const listen = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));

const json = (response, status, value) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));

// One pixel, sent as Gemini sends images.
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkaPhfDwAEAAH/kFxk8QAAAABJRU5ErkJggg==";
const picture = (response) => json(response, 200, { candidates: [{ content: { parts: [{ inlineData: { mimeType: "image/png", data: PIXEL } }] } }] });

// A search API like Serper's, which refuses keys that start with `wrong`.
function search(request, response) {
  if (request.headers["x-api-key"].startsWith("wrong")) return json(response, 403, { message: "Unauthorized.", statusCode: 403 });
  json(response, 200, { organic: [{ title: "Rust <b>1.95</b>", link: "https://rust.example/", snippet: "New.", position: 1 }], balance: 100, rateLimit: 5 });
}

// A model in the dialect `chat`, which repeats the question. Words in the question control it: `calc`, `find` and `enquire` (it calls the tools `calc`, `web_search` and
// `files__ask`), `think` (it reasons), `slowly` (the second half of the response waits for the gate), `late` (all of it waits), `fail` (it responds
// with an error), `limit` (with 429 and a time to wait), `crash` (with 500).
async function model() {
  const gate = {};
  // Methods and paths of the requests.
  const requests = [];
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    requests.push(`${request.method} ${request.url}`);
    if (request.url.startsWith("/v1/files/")) return stored(request, response);
    if (request.url.includes(":generateContent")) return picture(response);
    if (request.headers["x-api-key"]) return search(request, response);
    if (request.url === "/v1/models") return json(response, 200, { data: [{ id: "fast" }, { id: "echo" }] });
    if (!request.url.endsWith("/chat/completions")) return response.writeHead(404).end("{}");
    const { messages } = JSON.parse(body);
    const last = messages.at(-1);
    const asked = typeof last.content === "string" ? last.content : JSON.stringify(last.content);
    if (asked.includes("fail")) return response.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify({ error: { message: "The model is broken: <b>really</b>", type: "invalid_request_error" } }));
    if (asked.includes("crash")) return json(response, 500, { error: { message: "CUDA out of memory" } });
    if (asked.includes("limit")) {
      response.setHeader("retry-after", "7");
      return json(response, 429, { error: { message: "Rate limit reached" } });
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.flushHeaders();
    if (asked.includes("late")) await gate.wait;
    const send = (delta, finish = null) => response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
    send({ role: "assistant", content: "" });
    if (asked.includes("think")) for (const word of ["First ", "I weigh ", "it."]) send({ reasoning_content: word });
    if (last.role === "user" && asked.includes("calc")) {
      send({ tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "calc", arguments: '{"expression":' } }] });
      if (asked.includes("slowly")) await gate.wait;
      send({ tool_calls: [{ index: 0, function: { arguments: '"6*7"}' } }] });
      send({}, "tool_calls");
    } else if (last.role === "user" && asked.includes("find")) {
      send({ tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "web_search", arguments: '{"query":"rust"}' } }] });
      send({}, "tool_calls");
    } else if (last.role === "user" && asked.includes("enquire")) {
      send({ tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "files__ask", arguments: "{}" } }] });
      send({}, "tool_calls");
    } else {
      for (const word of `You said: **${asked}**`.split(/(?<= )/)) send({ content: word });
      if (asked.includes("slowly")) {
        await gate.wait;
        send({ content: "\n\n- the second half" });
      }
      send({}, "stop");
    }
    response.end("data: [DONE]\n\n");
  });
  return { server, gate, requests, port: await listen(server) };
}

// Serves a file that somebody has uploaded to the upstream. Its name is its media type, or `error`.
function stored(request, response) {
  const kind = request.url.slice("/v1/files/".length).replaceAll("_2F", "/").replaceAll("_2B", "+");
  const script = "globalThis.ran = true; alert(document.domain)";
  const text = kind.includes("xml") ? `<svg xmlns="http://www.w3.org/2000/svg"><script>${script}</script></svg>` : `<!doctype html><script>${script}</script>`;
  const isError = kind === "error";
  response.writeHead(isError ? 500 : 200, { "content-type": isError ? "text/html" : kind, "content-disposition": "inline" }).end(text);
}

const ECHO = '[[models]]\nname = "echo"\nupstream = "scripted"\n';

const configuration = (upstream, folder, { key, permission = "allow", top = "", seconds = 0, models = ECHO }) => `
${top}
listen = "127.0.0.1:0"
state_dir = "${folder}/state"
[admin]
${key ? 'api_keys = ["env:CONSOLE_KEY"]' : ""}
capture = "redacted"
[[upstreams]]
name = "scripted"
dialect = "chat"
base_url = "http://127.0.0.1:${upstream}/v1"
${models}
[execution]
[[providers]]
name = "calc"
kind = "command"
command = ["python3", "-c", "import sys, time; time.sleep(${seconds}); sys.stdout.write('42')"]
description = "Evaluates an expression"
parameters = { type = "object", properties = { expression = { type = "string", description = "What to evaluate" }, digits = { type = "integer", minimum = 0, maximum = 9 } }, required = ["expression"] }
[[providers]]
name = "serper"
kind = "serper"
api_key = "env:CONSOLE_KEY"
base_url = "http://127.0.0.1:${upstream}"
scrape_url = "http://127.0.0.1:${upstream}/scrape"
[[providers]]
name = "painter"
kind = "images"
api_key = "env:CONSOLE_KEY"
base_url = "http://127.0.0.1:${upstream}/v1beta"
[[providers]]
name = "files"
kind = "mcp"
command = ["${process.execPath}", "${path.join(here, "mcp.mjs")}"]
[[tools]]
name = "calc"
permission = "${permission}"
`;

// `key`: the admin key, if one is required. `prefix`: the path below which the proxy serves everything. `answers`: responses that replace
// toolwire's, {"METHOD path": (request, response, body) => …}; a test may change them. `top`: additional lines for the configuration. `seconds`: how long the tool `calc` takes. `models`: the tables of models.
export async function stand({ key = null, prefix = "", permission, top, seconds, models, answers = {} } = {}) {
  const folder = await mkdtemp(path.join(tmpdir(), "toolwire-console-"));
  const upstream = await model();
  const file = path.join(folder, "toolwire.toml");
  const begin = async () => {
    await writeFile(file, configuration(upstream.port, folder, { key, permission, top, seconds, models }));
    return spawn(binary, ["serve", "--config", file], { env: { PATH: process.env.PATH, CONSOLE_KEY: key ?? "no-key-is-needed" }, stdio: ["ignore", "ignore", "pipe"] });
  };
  let child = await begin();
  let port = await announced(child);
  const version = /v\/([0-9a-f]{8})\//.exec(await (await fetch(`http://127.0.0.1:${port}/console/`)).text())[1];
  const state = { answers, isDown: false };
  const proxy = http.createServer(async (request, response) => {
    if (state.isDown || !request.url.startsWith(`${prefix}/`)) return request.socket.destroy();
    const target = request.url.slice(prefix.length);
    const scripted = state.answers[`${request.method} ${target.split("?")[0]}`];
    if (scripted) {
      let body = "";
      for await (const piece of request) body += piece;
      return scripted(request, response, body ? JSON.parse(body) : null);
    }
    forward(request, response, port, target, version);
  });
  const own = await listen(proxy);
  return {
    url: `http://127.0.0.1:${own}${prefix}/console/`,
    // Changes when the program is started again.
    get direct() {
      return `http://127.0.0.1:${port}`;
    },
    upstream: `http://127.0.0.1:${upstream.port}`,
    state,
    // The requests that the model has received.
    asked: () => upstream.requests,
    async calls(name) {
      const { tools } = await (await fetch(`http://127.0.0.1:${port}/admin/tools`)).json();
      return tools.find((tool) => tool.name === name).figures.calls;
    },
    // Holds back the second half of slow responses. Returns a function that releases it.
    hold() {
      let go;
      upstream.gate.wait = new Promise((resolve) => (go = resolve));
      return go;
    },
    // Closes all of the page's connections.
    drop: () => proxy.closeAllConnections(),
    // Stops the model, and the services on the same server.
    closeUpstream() {
      upstream.server.closeAllConnections();
      upstream.server.close();
    },
    async kill() {
      child.kill("SIGKILL");
      await ended(child);
    },
    async start() {
      child = await begin();
      port = await announced(child);
    },
    async close() {
      child.kill();
      proxy.closeAllConnections();
      proxy.close();
      this.closeUpstream();
      await ended(child);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

// Starts toolwire as README.md does: for one upstream, without a configuration file.
export async function plain(flags = ["--dialect", "chat"]) {
  const upstream = await model();
  const child = spawn(binary, ["serve", `http://127.0.0.1:${upstream.port}/v1`, ...flags, "--listen", "127.0.0.1:0"], { env: { PATH: process.env.PATH }, stdio: ["ignore", "ignore", "pipe"] });
  const port = await announced(child);
  return {
    direct: `http://127.0.0.1:${port}`,
    asked: () => upstream.requests,
    async close() {
      child.kill();
      upstream.server.closeAllConnections();
      upstream.server.close();
      await ended(child);
    },
  };
}

// Sends a client's request, and returns the raw text of the response's stream.
export const ask = (own, text) => fetch(`${own.direct}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ model: "echo", stream: true, messages: [{ role: "user", content: text }] }) }).then((response) => response.text());

const ended = (child) => new Promise((resolve) => (child.exitCode === null && child.signalCode === null ? child.once("exit", resolve) : resolve()));

function announced(child) {
  return new Promise((resolve, reject) => {
    let log = "";
    child.stderr.on("data", (piece) => {
      log += piece;
      const found = /listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(log);
      if (found) resolve(Number(found[1]));
    });
    child.once("exit", () => reject(new Error(`toolwire has ended:\n${log}`)));
  });
}

function forward(request, response, port, target, version) {
  const upstream = http.request({ host: "127.0.0.1", port, path: target, method: request.method, headers: request.headers }, async (answer) => {
    // For development of the page: serves its files from disk, with the headers that the program sends.
    const file = process.env.CONSOLE_FROM_DISK && target.startsWith(`/console/v/${version}/`) && target.slice(`/console/v/${version}/`.length);
    const headers = { ...answer.headers };
    if (file) {
      answer.resume();
      delete headers["content-encoding"];
      delete headers["content-length"];
      delete headers["transfer-encoding"];
      headers["cache-control"] = "no-store";
      response.writeHead(200, { ...headers, "content-type": TYPES[path.extname(file)] });
      return response.end(await readFile(path.join(pageFolder, file)));
    }
    response.writeHead(answer.statusCode, headers);
    answer.pipe(response);
    answer.on("close", () => answer.complete || response.destroy());
  });
  upstream.on("error", () => response.destroy());
  response.on("close", () => upstream.destroy());
  request.pipe(upstream);
}
