// openai's `completions`: prompts as text, towards upstreams of every dialect.

import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";

import { STAND } from "./sdk.mjs";

const client = new OpenAI({ baseURL: STAND.url, apiKey: STAND.key, maxRetries: 0 });
const TEXT = "Grüße vom Upstream: ✓ 日本語 🌍, and a \\ \" ' <b>.";

for (const name of STAND.upstreams) {
  const request = { model: `via-${name}-plain`, prompt: "Hello" };

  test(`a streamed completion, ${name}`, async () => {
    const stream = await client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
    const [ids, finishes] = [new Set(), []];
    let [text, usage] = ["", null];
    for await (const part of stream) {
      ids.add(part.id);
      usage = part.usage ?? usage;
      for (const choice of part.choices) {
        text += choice.text;
        if (choice.finish_reason) finishes.push(choice.finish_reason);
      }
    }
    assert.deepEqual([text, finishes, ids.size], [TEXT, ["stop"], 1]);
    if (name !== "lumo-v1") assert.ok(usage.completion_tokens > 0);
  });

  test(`a whole completion, ${name}`, async () => {
    const { object, choices } = await client.completions.create(request);
    assert.deepEqual([object, choices.map(({ text }) => text)], ["text_completion", [TEXT]]);
  });
}

test("a completion that breaks off is an error", async () => {
  const stream = await client.completions.create({ model: "via-chat-cut-text", prompt: "Hello", stream: true });
  await assert.rejects(async () => {
    for await (const _ of stream);
  }, OpenAI.APIError);
});

test("tools are refused", async () => {
  const tools = [{ type: "function", function: { name: "f" } }];
  const asked = client.completions.create({ model: "via-chat-plain", prompt: "Hello", tools });
  await assert.rejects(asked, ({ status, param }) => status === 400 && param === "tools");
});
