// Starts toolwire with a scripted model and a search, and servers of other people's pages.

import { spawn } from "node:child_process";
import { openSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const binary = path.resolve(process.env.TOOLWIRE_BIN ?? path.join(here, "../../../target/debug/toolwire"));

export const KEY = "key-of-the-page";
export const MODELS = ["native", "taught"];
export const REFUSAL = "The model has <b>no</b> time today.";

const listen = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server.address().port)));
const json = (response, status, value) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));

const RESULTS = { organic: [{ title: "Rust 2.0 is out", link: "https://rust.example/", snippet: "All about it.", position: 1 }] };

// What the model does, by a word in the user's last message.
const CALLS = { weather: ["get_weather", { city: "Paris" }], news: ["web_search", { query: "Rust" }] };

// Refuses with `fail`, closes the connection in the middle with `broken`. Responds in the API of Chat Completions. A request that declares tools gets native calls. Other models are taught to write calls as text.
async function respond(request, response, requests) {
  let body = "";
  for await (const piece of request) body += piece;
  if (request.url === "/search") return json(response, 200, RESULTS);
  if (!request.url.endsWith("/chat/completions")) return response.writeHead(404).end("{}");
  const asked = JSON.parse(body);
  requests.push(asked);
  const last = asked.messages.at(-1);
  const text = typeof last.content === "string" ? last.content : JSON.stringify(last.content);
  const isResult = last.role === "tool" || text.includes("<result>");
  if (!isResult && text.includes("fail")) return json(response, 400, { error: { message: REFUSAL, type: "invalid_request_error" } });
  const word = !isResult && Object.keys(CALLS).find((each) => text.includes(each));
  const pieces = [];
  if (word && asked.tools) {
    const [name, given] = CALLS[word];
    pieces.push({ tool_calls: [{ index: 0, id: `call_${requests.length}`, type: "function", function: { name, arguments: "" } }] });
    pieces.push({ tool_calls: [{ index: 0, function: { arguments: JSON.stringify(given) } }] });
  } else if (word) {
    const [name, given] = CALLS[word];
    pieces.push(..."Let me see. ".match(/.{1,4}/g), ...`<tool_call>\n${JSON.stringify({ name, arguments: given })}\n</tool_call>`.match(/.{1,7}|\n/g));
  } else if (isResult) {
    pieces.push("I have read: ", /\d+ °C|Rust 2\.0/.exec(text)?.[0] ?? "nothing", ".");
  } else {
    pieces.push("You said: ", `**${text}**`);
  }
  const isCall = word && asked.tools;
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (delta, finish = null) => response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
  for (const piece of pieces) send(typeof piece === "string" ? { content: piece } : piece);
  if (!isResult && text.includes("broken")) return response.write(": the last bytes\n\n", () => response.destroy());
  send({}, isCall ? "tool_calls" : "stop");
  response.end("data: [DONE]\n\n");
}

const configuration = (upstream, folder) => `
listen = "127.0.0.1:0"
state_dir = "${folder}/state"
api_keys = ["${KEY}"]
[[upstreams]]
name = "scripted"
dialect = "chat"
base_url = "http://127.0.0.1:${upstream}/v1"
[[models]]
name = "native"
upstream = "scripted"
[[models]]
name = "taught"
upstream = "scripted"
tools = "hermes"
[execution]
[[providers]]
name = "serper"
kind = "serper"
api_key = "any"
base_url = "http://127.0.0.1:${upstream}"
`;

// Starts toolwire. `requests` are those that its model has received.
export async function stand() {
  const folder = await mkdtemp(path.join(tmpdir(), "toolwire-pages-"));
  const requests = [];
  const upstream = http.createServer((request, response) => respond(request, response, requests));
  const file = path.join(folder, "toolwire.toml");
  await writeFile(file, configuration(await listen(upstream), folder));
  const child = spawn(binary, ["serve", "--config", file], { env: { PATH: process.env.PATH }, stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  const port = await new Promise((resolve, reject) => {
    child.stderr.on("data", (piece) => {
      log += piece;
      const found = /listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(log);
      if (found) resolve(Number(found[1]));
    });
    child.once("exit", () => reject(new Error(`toolwire has ended:\n${log}`)));
  });
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    log: () => log,
    async close() {
      child.kill();
      upstream.closeAllConnections();
      upstream.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort() {
  const server = createServer();
  const port = await listen(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

// Starts the server of a page in a folder of its own, and waits until it responds, at most for `limit` milliseconds. The last argument of
// `command` is its port.
export async function pageServer(command, limit, environment = () => ({})) {
  const folder = await mkdtemp(path.join(tmpdir(), "toolwire-page-"));
  const port = await freePort();
  const log = path.join(folder, "log");
  const file = openSync(log, "w");
  const [program, ...options] = command(folder);
  const env = { PATH: process.env.PATH, HOME: folder, ...environment(folder) };
  const child = spawn(program, [...options, String(port)], { cwd: folder, env, stdio: ["ignore", file, file], detached: true });
  const url = `http://127.0.0.1:${port}`;
  const close = async () => {
    if (child.exitCode === null) process.kill(-child.pid, "SIGKILL");
    await rm(folder, { recursive: true, force: true });
  };
  for (const until = Date.now() + limit; ; ) {
    const response = await fetch(url).catch(() => null);
    if (response?.ok) return { url, close };
    if (child.exitCode !== null || Date.now() > until) {
      const said = await readFile(log, "utf8");
      await close();
      throw new Error(`the server does not start:\n${said.slice(-3000)}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
