// Tests Lumo's encryption against openpgp.js and WebCrypto, which Lumo's web client uses. A test server decrypts toolwire's requests,
// and encrypts its responses, correctly or not.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { webcrypto } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";

import * as openpgp from "openpgp";

const path = (name) => new URL(name, import.meta.url).pathname;
const PROGRAM = process.env.TOOLWIRE_BIN ?? path("../../target/debug/toolwire");
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
// The key id of the encryption subkey in Lumo's key.
const SUBKEY = "e7df128a8fc5de04";
const LUMO = path("../../crates/dialects/src/lumo/u2l/lumo.asc");
const PICTURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0xff, 0x80]);

const folder = mkdtempSync(join(tmpdir(), "toolwire-"));
// Run after all tests. `after` cannot be called later: inside another hook, it would run at the end of that hook.
const cleanups = [() => rmSync(folder, { recursive: true })];
after(() => cleanups.forEach((cleanup) => cleanup()));

const bytes = (text) => new TextEncoder().encode(text);
const text = (buffer) => new TextDecoder("utf-8", { fatal: true }).decode(buffer);
const requestData = (id) => bytes(`lumo.request.${id}.turn`);
const responseData = (id) => bytes(`lumo.response.${id}.chunk`);

/** A decrypted request: its turns and images. Encrypts the pieces of its response. */
class Opened {
  constructor(id, key) {
    Object.assign(this, { id, key, turns: [], images: [] });
  }

  static async read(body, privateKey) {
    const { Prompt, lumo, messages } = JSON.parse(body);
    const { request_id, request_key } = Prompt ?? lumo;
    assert.match(request_id, UUID);
    const message = await openpgp.readMessage({ binaryMessage: Buffer.from(request_key, "base64") });
    const { data } = await openpgp.decrypt({ message, decryptionKeys: privateKey, format: "binary" });
    assert.equal(data.length, 32);
    const key = await webcrypto.subtle.importKey("raw", data, "AES-GCM", false, ["encrypt", "decrypt"]);
    const opened = new Opened(request_id, key);
    for (const turn of Prompt?.turns ?? messages) await opened.turn(turn);
    return opened;
  }

  async turn({ encrypted, content, images = [] }) {
    assert.equal(encrypted, true);
    for (const part of Array.isArray(content) ? content : [{ type: "text", text: content, encrypted }]) {
      const { type, image_url } = part;
      assert.equal((type === "text" ? part : image_url).encrypted, true);
      if (type === "text") this.turns.push(text(await this.open(part.text)));
      else await this.image(/^data:application\/octet-stream;base64,(.*)$/.exec(image_url.url)[1]);
    }
    for (const { encrypted, data } of images) {
      assert.equal(encrypted, true);
      await this.image(data);
    }
  }

  async image(sealed) {
    this.images.push(Buffer.from(await this.open(sealed)));
  }

  open(base64) {
    const sealed = Buffer.from(base64, "base64");
    const how = { name: "AES-GCM", iv: sealed.subarray(0, 12), additionalData: requestData(this.id) };
    return webcrypto.subtle.decrypt(how, this.key, sealed.subarray(12));
  }

  async seal(plain, additionalData = responseData(this.id)) {
    const iv = webcrypto.getRandomValues(new Uint8Array(12));
    const sealed = await webcrypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData }, this.key, plain);
    return Buffer.concat([iv, Buffer.from(sealed)]).toString("base64");
  }
}

const frame = (object) => `data: ${JSON.stringify(object)}\n\n`;
const choice = (delta, finish_reason) => frame({ choices: [{ index: 0, delta, finish_reason }] });
const piece = (content) => choice({ content, encrypted: true });
const end = (reason) => `${choice({}, reason)}data: [DONE]\n\n`;
const call = (fields) => choice({ tool_calls: [{ index: 0, ...fields }] });

/** Repeats the request's turns, in two pieces that split a character, and makes a call. */
async function repeat(opened) {
  const said = bytes(`${opened.turns.join(" | ")} ✓`);
  const sealed = await opened.seal(bytes('{"path":"é"}'));
  return (
    piece(await opened.seal(said.subarray(0, -1))) +
    piece(await opened.seal(said.subarray(-1))) +
    call({ id: "c1", type: "function", function: { name: "list_files", arguments: sealed.slice(0, 9) } }) +
    call({ function: { arguments: sealed.slice(9) } }) +
    end("tool_calls")
  );
}

const typed = (object) => frame({ type: "token_data", ...object });

/** Like `repeat`, but in version 1 of the protocol and without a call. */
async function repeatFirst(opened) {
  const sealed = await opened.seal(bytes(opened.turns.join(" | ")));
  return typed({ target: "message", content: sealed, encrypted: true }) + frame({ type: "done" });
}

/** A search by Lumo itself: the announcement, the call and the result. */
async function search(opened) {
  const tool_call = { id: "s1", name: "web_search" };
  const dispatched = { ...tool_call, arguments: await opened.seal(bytes('{"query":"q"}')), encrypted: true };
  const tool_result = { call_id: "s1", content: await opened.seal(bytes('{"results":[]}')), encrypted: true };
  return (
    frame({ object: "chat.tool_call", tool_call }) +
    frame({ object: "chat.tool_call", tool_call: dispatched }) +
    frame({ object: "chat.tool_result", tool_result }) +
    piece(await opened.seal(bytes("found"))) +
    end("stop")
  );
}

const flipped = (sealed) => {
  const damaged = Buffer.from(sealed, "base64");
  damaged[damaged.length - 1] ^= 1;
  return damaged.toString("base64");
};

/** Ways to encrypt a text incorrectly. */
const WRONG = {
  "the request's associated data": (opened, plain) => opened.seal(plain, requestData(opened.id)),
  "another request's id": (opened, plain) => opened.seal(plain, responseData(webcrypto.randomUUID())),
  "truncated base64": async (opened, plain) => (await opened.seal(plain)).slice(0, -1),
  "a flipped bit in the tag": async (opened, plain) => flipped(await opened.seal(plain)),
  "fewer bytes than nonce and tag": () => Buffer.alloc(27).toString("base64"),
};

const RESPONSES = { repeat, "repeat-first": repeatFirst, search };
RESPONSES.plain = async (opened) => choice({ content: "plain, " }) + piece(await opened.seal(bytes("sealed"))) + end("stop");
RESPONSES["half-a-character"] = async (opened) => piece(await opened.seal(bytes("é").subarray(0, 1))) + end("stop");
RESPONSES["half-of-the-arguments"] = async (opened) => {
  const sealed = await opened.seal(bytes("{}"));
  return call({ id: "c1", type: "function", function: { name: "list_files", arguments: sealed.slice(0, 20) } }) + end("tool_calls");
};
for (const [what, seal] of Object.entries(WRONG)) {
  RESPONSES[what] = async (opened) => piece(await seal(opened, bytes("lost"))) + piece(await opened.seal(bytes("behind"))) + end("stop");
  RESPONSES[`${what}, later`] = async (opened) => piece(await opened.seal(bytes("before"))) + (await RESPONSES[what](opened));
}

/** Responds according to the last turn. */
async function respond(request, response, privateKey, seen) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const opened = await Opened.read(Buffer.concat(pieces), privateKey);
  seen.push(opened);
  const wanted = RESPONSES[opened.turns.at(-1)] ?? (request.url.endsWith("/completions") ? repeat : repeatFirst);
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(await wanted(opened));
}

function start(config) {
  const program = spawn(PROGRAM, ["serve", "--config", config, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  cleanups.push(() => program.kill());
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

/** Writes a configuration with the upstreams `lumo` and `first` on this port. `key` is the line that sets their key. */
function configured(name, port, key) {
  const upstream = (name, settings) => `[[upstreams]]
name = "${name}"
dialect = "lumo"
base_url = "http://127.0.0.1:${port}/api"
[upstreams.lumo]
u2l = true
${key}
${settings}
[[models]]
name = "${name}"
upstream = "${name}"
server_calls = "annotate"
`;
  const config = join(folder, `${name}.toml`);
  writeFileSync(config, upstream("lumo", "") + upstream("first", 'version = "v1"'));
  return config;
}

const TOOL = { type: "function", function: { name: "list_files", parameters: { type: "object", properties: {} } } };

async function post(url, path, body) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: answer.status, body: await answer.text() };
}

const chat = (url, content, more = {}) =>
  post(url, "/v1/chat/completions", { model: "lumo", messages: [{ role: "user", content }], tools: [TOOL], ...more });

async function message(url, content, more) {
  const { status, body } = await chat(url, content, more);
  assert.equal(status, 200, body);
  return JSON.parse(body).choices[0].message;
}

describe("openpgp.js and WebCrypto as Lumo", () => {
  const seen = [];
  const faults = [];
  let url, port;

  before(async () => {
    // A key like Lumo's.
    const { privateKey, publicKey } = await openpgp.generateKey({
      type: "ecc",
      curve: "curve25519Legacy",
      userIDs: [{ name: "test" }],
      format: "object",
    });
    const server = createServer((request, response) => {
      respond(request, response, privateKey, seen).catch((error) => {
        faults.push(error);
        response.destroy();
      });
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    cleanups.push(() => server.close());
    ({ port } = server.address());
    writeFileSync(join(folder, "key.asc"), publicKey.armor());
    url = await start(configured("toolwire", port, 'u2l_key = "key.asc"'));
  });
  after(() => assert.deepEqual(faults, []));

  test("they read what toolwire encrypts, and the other way round", async () => {
    const messages = [
      { role: "system", content: "Süß" },
      { role: "user", content: "Hello 😀" },
    ];
    const { content, tool_calls } = await message(url, "", { messages });
    assert.equal(content, "Süß | Hello 😀 ✓");
    assert.deepEqual(tool_calls[0].function, { name: "list_files", arguments: '{"path":"é"}' });
    const ids = seen.map(({ id }) => id);
    await message(url, "again");
    assert.ok(!ids.includes(seen.at(-1).id), "each request has its own key");
  });

  test("a call and its result go back encrypted", async () => {
    const tool_calls = [{ id: "c1", type: "function", function: { name: "list_files", arguments: '{"path":"é"}' } }];
    const messages = [
      { role: "user", content: "list" },
      { role: "assistant", content: null, tool_calls },
      { role: "tool", tool_call_id: "c1", content: "ä.txt" },
    ];
    await message(url, "", { messages });
    const [asked, called, result] = seen.at(-1).turns;
    assert.deepEqual([asked, result], ["list", "ä.txt"]);
    assert.deepEqual(JSON.parse(called), { id: "c1", name: "list_files", arguments: { path: "é" } });
  });

  for (const model of ["lumo", "first"]) {
    test(`images are encrypted as bytes: ${model}`, async () => {
      const image_url = { url: `data:image/png;base64,${PICTURE.toString("base64")}` };
      const parts = [
        { type: "text", text: "What is this?" },
        { type: "image_url", image_url },
      ];
      const { content } = await message(url, parts, { model, tools: undefined });
      assert.match(content, /^What is this\?/);
      assert.deepEqual(seen.at(-1).images, [PICTURE]);
    });
  }

  test("the first version is encrypted", async () => {
    assert.equal((await message(url, "Grüße", { model: "first", tools: undefined })).content, "Grüße");
  });

  test("Lumo's own call is decrypted: announced, dispatched, and its result", async () => {
    const { status, body } = await chat(url, "search", { stream: true, tools: undefined });
    assert.equal(status, 200);
    assert.match(body, /found/);
    assert.doesNotMatch(body, /upstream_decrypt_failed/);
  });

  test("a piece without a mark is plain text", async () => {
    assert.equal((await message(url, "plain")).content, "plain, sealed");
  });

  // In each API, streaming or not, the failure must be reported.
  const APIS = {
    "/v1/chat/completions": (content) => ({ messages: [{ role: "user", content }] }),
    "/v1/responses": (input) => ({ input, store: false }),
    "/v1/messages": (content) => ({ messages: [{ role: "user", content }], max_tokens: 9 }),
  };
  const wrong = [...Object.keys(WRONG), "half-a-character", "half-of-the-arguments"];
  for (const [path, body] of Object.entries(APIS)) {
    test(`what cannot be decrypted fails the response of ${path}`, async () => {
      const tools = path.endsWith("messages")
        ? [{ name: "list_files", input_schema: { type: "object" } }]
        : path.endsWith("responses")
          ? [{ type: "function", name: "list_files", parameters: { type: "object" } }]
          : [TOOL];
      for (const what of wrong) {
        for (const stream of [false, true]) {
          const answer = await post(url, path, { model: "lumo", stream, tools, ...body(what) });
          const where = `${what}, stream: ${stream}: ${answer.status} ${answer.body}`;
          assert.match(answer.body, /cannot be decrypted/, where);
          assert.doesNotMatch(answer.body, /behind/, where);
          if (!stream) assert.equal(answer.status, 502, where);
        }
      }
      for (const what of Object.keys(WRONG)) {
        const answer = await post(url, path, { model: "lumo", stream: true, tools, ...body(`${what}, later`) });
        assert.equal(answer.status, 200, what);
        assert.match(answer.body, /before/, what);
        assert.match(answer.body, /cannot be decrypted/, what);
        assert.doesNotMatch(answer.body, /behind/, what);
      }
    });
  }

  test("a request for Lumo's own key is what openpgp.js writes for it", async () => {
    const requests = [];
    const server = createServer(async (request, response) => {
      const pieces = [];
      for await (const piece of request) pieces.push(piece);
      requests.push(JSON.parse(Buffer.concat(pieces)));
      response.writeHead(500).end();
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    cleanups.push(() => server.close());
    const url = await start(configured("real", server.address().port, ""));
    await chat(url, "secret");
    const { request_key } = requests[0].lumo;
    const own = await openpgp.encrypt({
      message: await openpgp.createMessage({ binary: new Uint8Array(32) }),
      encryptionKeys: await openpgp.readKey({ armoredKey: readFileSync(LUMO, "utf-8") }),
      format: "binary",
    });
    const shape = async (binaryMessage) => {
      const { packets } = await openpgp.readMessage({ binaryMessage });
      const [session, data] = packets;
      return {
        length: binaryMessage.length,
        packets: packets.map((packet) => [packet.constructor.name, packet.version]),
        recipient: session.publicKeyID.toHex(),
        algorithm: session.publicKeyAlgorithm,
        sealed: data.encrypted !== null,
      };
    };
    const ours = await shape(new Uint8Array(Buffer.from(request_key, "base64")));
    assert.deepEqual(ours, await shape(own));
    assert.deepEqual([ours.recipient, request_key.length], [SUBKEY, 240]);
  });
});
