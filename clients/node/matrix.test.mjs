// Every scenario with every upstream dialect and every client: text, calls, reasoning, token counts, failures, disconnects.

import assert from "node:assert/strict";
import { test } from "node:test";
import { crc32 } from "node:zlib";

import { aiGoogle, gemini } from "./gemini.mjs";
import { interactions } from "./interactions.mjs";
import { langchain } from "./langchain.mjs";
import { aiAnthropic, anthropic } from "./messages.mjs";
import { aiOllama, ollama } from "./ollama.mjs";
import { aiResponses, responses, responsesHelper } from "./responses.mjs";
import { seen, until } from "./scripted.mjs";
import { CLIENTS, STAND } from "./sdk.mjs";

const GEMINI_OLLAMA = [gemini, aiGoogle, interactions, ollama, aiOllama];
const ALL = [...CLIENTS, langchain, anthropic, aiAnthropic, responses, responsesHelper, aiResponses, ...GEMINI_OLLAMA];

for (const client of ALL) {
  for (const { name, request, expect } of STAND.matrix) {
    for (const way of ways(client, `${client.name}, ${name}`)) {
      if (expect.error && client.skipsErrors) continue;
      test(`${way}: ${client.name}, ${name}`, async () => {
        const answer = await client[way](request);
        if (expect.error) checkError(client, answer, expect.error, way);
        else check(client, answer, expect);
      });
    }
  }

  for (const name of STAND.upstreams) {
    test(`client disconnect cancels the upstream request: ${client.name}, ${name}`, async () => {
      const { left } = await seen("stays");
      await client.leave({ model: `via-${name}-stays`, messages: [{ role: "user", content: "Hello" }] });
      await until("stays", { left: left + 1, open: 0 });
    });
  }
}

// The ways in which to ask: one of both, and in a nightly run both.
function ways(client, name) {
  const all = ["stream", "whole"].filter((way) => client[way]);
  return process.env.NIGHTLY ? all : [all[crc32(name) % all.length]];
}

function check(client, answer, expect) {
  assert.equal(answer.error, null);
  assert.equal(answer.text, expect.text);
  if (client.sees.includes("reasoning")) assert.equal(answer.reasoning, expect.reasoning ?? "");
  const calls = answer.calls.map(({ name, arguments: args }) => ({ name, arguments: JSON.parse(args) }));
  assert.deepEqual(calls, expect.calls);
  const ids = answer.calls.map(({ id }) => id);
  assert.ok(ids.every(Boolean) && new Set(ids).size === ids.length, `each call has an id of its own: ${ids}`);
  // The AI SDK translates all providers' finish reasons into its own.
  assert.equal(answer.unified?.replace("-", "_") ?? answer.finish, expect.finish);
  if (answer.told) assert.equal(answer.told.text, answer.text);
  for (const [count, value] of Object.entries(expect.usage ?? {})) assert.equal(answer.usage[count], value, count);
}

function checkError(client, { error, finish, text }, expect, way) {
  assert.ok(error, `a broken answer looks like a good one: ${finish}, ${text}`);
  assert.ok(error.message.includes(expect.message ?? ""), error.message);
  if (!client.seesOfErrors.includes("status")) return;
  if (expect.status) assert.equal(error.status, expect.status);
  else if (way === "whole") assert.ok(error.status >= 500, `${error.status}`);
}
