// Lumo's encryption, against openpgp.js and WebCrypto, which its web client uses: this server decrypts what toolwire sends, and
// encrypts what it answers.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { webcrypto } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import * as openpgp from "openpgp";

const PROGRAM = process.env.TOOLWIRE_BIN ?? new URL("../../target/debug/toolwire", import.meta.url).pathname;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const folder = mkdtempSync(join(tmpdir(), "toolwire-"));
after(() => rmSync(folder, { recursive: true }));

const bytes = (text) => new TextEncoder().encode(text);
const aad = (id, what) => bytes(`lumo.${what[0]}.${id}.${what[1]}`);

/** What the server reads of a request: the text of its turns, and how to encrypt a piece of the response. */
async function opened(body, privateKey) {
  const { lumo, messages } = JSON.parse(body);
  assert.match(lumo.request_id, UUID);
  const message = await openpgp.readMessage({ binaryMessage: Buffer.from(lumo.request_key, "base64") });
  const { data } = await openpgp.decrypt({ message, decryptionKeys: privateKey, format: "binary" });
  assert.equal(data.length, 32);
  const key = await webcrypto.subtle.importKey("raw", data, "AES-GCM", false, ["encrypt", "decrypt"]);
  const turns = messages.map(async ({ encrypted, content }) => {
    assert.equal(encrypted, true);
    const sealed = Buffer.from(content, "base64");
    const additionalData = aad(lumo.request_id, ["request", "turn"]);
    const how = { name: "AES-GCM", iv: sealed.subarray(0, 12), additionalData };
    return new TextDecoder().decode(await webcrypto.subtle.decrypt(how, key, sealed.subarray(12)));
  });
  const seal = async (plain) => {
    const iv = webcrypto.getRandomValues(new Uint8Array(12));
    const how = { name: "AES-GCM", iv, additionalData: aad(lumo.request_id, ["response", "chunk"]) };
    return Buffer.concat([iv, Buffer.from(await webcrypto.subtle.encrypt(how, key, plain))]).toString("base64");
  };
  return { turns: await Promise.all(turns), seal };
}

async function respond(request, response, privateKey) {
  const body = await new Promise((resolve) => {
    const pieces = [];
    request.on("data", (piece) => pieces.push(piece)).on("end", () => resolve(Buffer.concat(pieces)));
  });
  const { turns, seal } = await opened(body, privateKey);
  const frame = (delta, finish_reason) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  // One character is cut.
  const text = bytes(`${turns.join(" | ")} ✓`);
  const [first, second] = [text.subarray(0, -1), text.subarray(-1)];
  const sealed = await seal(bytes('{"path":"é"}'));
  const call = (fields) => frame({ tool_calls: [{ index: 0, ...fields }] });
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(frame({ content: await seal(first), encrypted: true }));
  response.write(frame({ content: await seal(second), encrypted: true }));
  response.write(call({ id: "c1", type: "function", function: { name: "list_files", arguments: sealed.slice(0, 9) } }));
  response.write(call({ function: { arguments: sealed.slice(9) } }));
  response.end(`${frame({}, "tool_calls")}data: [DONE]\n\n`);
}

/** Starts toolwire with this configuration; gives its base URL. */
function start(config) {
  const program = spawn(PROGRAM, ["serve", "--config", config, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  after(() => program.kill());
  return new Promise((resolve, reject) => {
    let said = "";
    program.stderr.on("data", (piece) => {
      said += piece;
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
      if (address) resolve(address[0]);
    });
    program.on("exit", () => reject(new Error(said)));
  });
}

/** Whether the program was built without the encryption. */
function isBuiltWithout(config) {
  try {
    execFileSync(PROGRAM, ["check", "--config", config], { stdio: "pipe" });
    return false;
  } catch (error) {
    assert.match(error.stderr.toString(), /built without it/);
    return true;
  }
}

test("openpgp.js and WebCrypto read what toolwire encrypts, and the other way round", async (context) => {
  // A key as Lumo's.
  const { privateKey, publicKey } = await openpgp.generateKey({
    type: "ecc",
    curve: "curve25519Legacy",
    userIDs: [{ name: "test" }],
    format: "object",
  });
  const server = createServer((request, response) => {
    respond(request, response, privateKey).catch((error) => response.writeHead(500).end(String(error)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => server.close());
  writeFileSync(join(folder, "key.asc"), publicKey.armor());
  const config = join(folder, "toolwire.toml");
  writeFileSync(
    config,
    `[[upstreams]]
name = "lumo"
dialect = "lumo"
base_url = "http://127.0.0.1:${server.address().port}/api"
[upstreams.lumo]
u2l = true
u2l_key = "key.asc"
[[models]]
name = "lumo"
upstream = "lumo"
`,
  );
  if (isBuiltWithout(config)) return context.skip("this toolwire is built without `lumo-u2l`");
  const url = await start(config);
  const tool = { type: "function", function: { name: "list_files", parameters: { type: "object", properties: {} } } };
  const messages = [
    { role: "system", content: "Süß" },
    { role: "user", content: "Hello 😀" },
  ];
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "lumo", messages, tools: [tool] }),
  });
  const body = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(body));
  const { content, tool_calls } = body.choices[0].message;
  assert.equal(content, "Süß | Hello 😀 ✓");
  assert.deepEqual(tool_calls[0].function, { name: "list_files", arguments: '{"path":"é"}' });
});
