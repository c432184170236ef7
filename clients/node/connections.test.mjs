// Clients that disconnect, and upstreams that fail or are silent: what happens to the connections, and in each SDK.

import assert from "node:assert/strict";
import { test } from "node:test";

import { streamText } from "ai";
import OpenAI from "openai";

import { seen, until } from "./scripted.mjs";
import { CLIENTS, STAND, TIMEOUT, aiOpenai, client, compatible } from "./sdk.mjs";

const messages = [{ role: "user", content: "Hello" }];
const ENDLESS = { model: "endless", messages };
const WEATHER = {
  type: "function",
  function: { name: "get_weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};

const leaveAiSdk = (sdk) => async () => {
  const leaving = new AbortController();
  const { fullStream } = streamText({ model: sdk.model(ENDLESS), messages, abortSignal: leaving.signal, onError() {} });
  for await (const part of fullStream) {
    if (part.type === "text-delta") leaving.abort();
  }
};

const LEAVING = {
  "openai, breaking off the loop": async () => {
    for await (const _ of await client().chat.completions.create({ ...ENDLESS, stream: true })) break;
  },
  "openai-helper": async () => {
    const events = client().chat.completions.stream(ENDLESS);
    events.once("content", () => events.abort());
    await assert.rejects(events.done(), OpenAI.APIUserAbortError);
  },
  "ai-compatible": leaveAiSdk(compatible),
  "ai-openai": leaveAiSdk(aiOpenai),
};

for (const [name, leave] of Object.entries(LEAVING)) {
  test(`client disconnect cancels the upstream request: ${name}`, async () => {
    const before = await seen("endless");
    await leave();
    await until("endless", { left: before.left + 1, open: 0 });
  });
}

for (const model of ["endless", "silent"]) {
  for (const stream of [false, true]) {
    test(`aborted request cancels the upstream request: ${model}, ${stream ? "streamed" : "whole"}`, async () => {
      // At any stage, even before the response: `silent` never responds.
      const before = await seen(model);
      const leaving = new AbortController();
      const asking = ask({ model, messages, stream }, leaving.signal);
      await until(model, { open: 1 });
      leaving.abort();
      await asking;
      await until(model, { left: before.left + 1, open: 0 });
    });
  }
}

/** Sends a request and reads until it is aborted. */
async function ask(request, signal) {
  try {
    const answer = await client().chat.completions.create(request, { signal });
    if (request.stream) for await (const _ of answer);
    assert.ok(signal.aborted, "the answer came to an end");
  } catch (error) {
    assert.ok(error instanceof OpenAI.APIUserAbortError, error);
  }
}

const DEATHS = [
  ["dies-in-text", "It is eight"],
  ["dies-in-call", ""],
  ["dies-in-written-call", ""],
  ["reset", null],
];

for (const sdk of CLIENTS) {
  for (const [model, text] of DEATHS) {
    test(`upstream disconnect is an error: ${sdk.name}, ${model}`, async () => {
      const request = { model, messages, tools: [WEATHER] };
      const answer = await sdk.stream(request);
      assert.ok(answer.error, "half an answer looks like a whole one");
      if (text !== null) assert.equal(answer.text, text);
      if (sdk.whole) assert.equal((await sdk.whole(request)).error.status, 502);
    });
  }

  test(`keep-alive comments are invisible to clients: ${sdk.name}`, async () => {
    const { text, finish, error } = await sdk.stream({ model: "slow", messages });
    assert.deepEqual([text, finish, error], ["slow but sure", "stop", null]);
  });
}

test("keep-alive comments are sent before and during the response", async () => {
  const answer = await fetch(`${STAND.url}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${STAND.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "slow", messages, stream: true }),
    signal: AbortSignal.timeout(TIMEOUT),
  });
  const lines = (await answer.text()).split("\n");
  const comment = (line) => line.startsWith(":");
  const first = lines.findIndex((line) => line.startsWith("data:"));
  assert.ok(lines.findIndex(comment) < first);
  assert.ok(first < lines.findLastIndex(comment));
});
