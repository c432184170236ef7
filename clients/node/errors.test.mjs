// The SDKs throw toolwire's own errors, and upstream errors that it forwards, as the right classes.

import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";

import { seen } from "./scripted.mjs";
import { aiOpenai, client, compatible } from "./sdk.mjs";

const messages = [{ role: "user", content: "Hello" }];
const TOOL = { type: "function", function: { name: "list_files", parameters: { type: "object", properties: {} } } };

const ask = (request, options) => client(options).chat.completions.create({ model: "verbatim", messages, ...request });

async function thrown(request, options) {
  try {
    await ask(request, options);
  } catch (error) {
    return error;
  }
  assert.fail("nothing was thrown");
}

const REFUSALS = [
  ["lumo-unauthorized", OpenAI.AuthenticationError, 401],
  // Not the client's fault: toolwire requested the wrong path.
  ["lumo-not-found", OpenAI.InternalServerError, 502],
  ["lumo-limit", OpenAI.RateLimitError, 429],
  ["chat-bad-request", OpenAI.BadRequestError, 400],
  ["chat-overloaded", OpenAI.InternalServerError, 503],
  ["server-error", OpenAI.InternalServerError, 500],
  ["html", OpenAI.InternalServerError, 502],
  ["v1-context", OpenAI.BadRequestError, 400],
];

for (const [model, kind, status] of REFUSALS) {
  for (const stream of [false, true]) {
    test(`upstream error keeps its status and code: ${model}, ${stream ? "streamed" : "whole"}`, async () => {
      const error = await thrown({ model, stream });
      assert.ok(error instanceof kind, `${error.constructor.name} was thrown`);
      assert.equal(error.status, status);
      assert.ok(error.requestID);
    });
  }

  for (const sdk of [compatible, aiOpenai]) {
    test(`upstream error keeps its status and code: ${model}, ${sdk.name}`, async () => {
      for (const way of ["stream", "whole"]) {
        const { error } = await sdk[way]({ model, messages });
        assert.equal(error.status, status, error.message);
      }
    });
  }
}

test("Retry-After is forwarded", async () => {
  assert.equal((await thrown({ model: "lumo-limit" })).headers.get("retry-after"), "9");
  assert.equal((await thrown({ model: "chat-overloaded" })).headers.get("retry-after"), "3");
  const { error } = await compatible.whole({ model: "lumo-limit", messages });
  assert.equal(error.headers["retry-after"], "9");
});

for (const apiKey of ["sk-wrong", "sk-client", "sk-clientsx"]) {
  test(`wrong key is rejected: ${apiKey}`, async () => {
    const error = await thrown({}, { apiKey });
    assert.ok(error instanceof OpenAI.AuthenticationError);
    assert.equal(error.code, "invalid_api_key");
    assert.ok(!error.message.includes(apiKey));
  });
}

test("unknown model error names the model", async () => {
  const error = await thrown({ model: "nonesuch" });
  assert.ok(error instanceof OpenAI.NotFoundError);
  assert.deepEqual([error.code, error.param], ["model_not_found", "model"]);
  assert.match(error.message, /nonesuch/);
});

const BAD_REQUESTS = [
  [{ messages: [] }, "messages"],
  [{ messages: "Hello" }, "messages"],
  [{ messages: [{ content: "Hello" }] }, "messages[0].role"],
  [{ messages: [...messages, { role: "tool", content: "18" }] }, "messages[1].tool_call_id"],
  [{ tools: [TOOL, { type: "function", function: {} }] }, "tools[1].function.name"],
  [{ tools: [TOOL], tool_choice: "sometimes" }, "tool_choice"],
  [{ model: "loop-hermes", tools: [TOOL], n: 2 }, "n"],
];

for (const [request, param] of BAD_REQUESTS) {
  test(`bad request error names the parameter: ${JSON.stringify(request)}`, async () => {
    const error = await thrown(request);
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.deepEqual([error.param, error.type], [param, "invalid_request_error"]);
  });
}

test("models are listed", async () => {
  const names = [];
  for await (const model of client().models.list()) names.push(model.id);
  for (const name of ["canonical", "v1-text", "loop-native"]) assert.ok(names.includes(name), name);
  assert.equal((await client().models.retrieve("canonical")).id, "canonical");
  await assert.rejects(client().models.retrieve("nonesuch"), OpenAI.NotFoundError);
});

test("the SDK retries by itself on a status that it knows", async () => {
  const before = (await seen("flaky")).count;
  assert.equal((await thrown({ model: "flaky" })).status, 503);
  const answer = await ask({ model: "flaky" }, { maxRetries: 2 });
  assert.equal(answer.choices[0].message.content, "Here again.");
  assert.equal((await seen("flaky")).count - before, 3);
});
