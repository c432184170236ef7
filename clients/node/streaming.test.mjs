// Arguments reach the client while the model is still writing them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { jsonSchema, streamText, tool } from "ai";

import { go } from "./scripted.mjs";
import { aiOpenai, client, compatible } from "./sdk.mjs";

const messages = [{ role: "user", content: "What is the weather in Paris?" }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];

// Each client passes pieces of the arguments to `take` as they arrive, and returns at the end of the response.
const CLIENTS = {
  async openai(model, take) {
    for await (const chunk of await client().chat.completions.create({ model, messages, tools, stream: true })) {
      for (const call of chunk.choices[0].delta.tool_calls ?? []) take(call.function.arguments ?? "");
    }
  },

  async "openai-helper"(model, take) {
    const events = client().chat.completions.stream({ model, messages, tools });
    events.on("tool_calls.function.arguments.delta", (event) => take(event.arguments_delta));
    await events.done();
  },

  "ai-compatible": aiSdk(compatible),
  "ai-openai": aiSdk(aiOpenai),
};

function aiSdk(sdk) {
  return async (model, take) => {
    const get_weather = tool({ inputSchema: jsonSchema(parameters) });
    for await (const part of streamText({ model: sdk.model({ model }), messages, tools: { get_weather } }).fullStream) {
      if (part.type === "tool-input-delta") take(part.delta);
    }
  };
}

for (const [name, ask] of Object.entries(CLIENTS)) {
  for (const scenario of ["halves", "written-halves"]) {
    test(`arguments arrive while the model writes them: ${name}, ${scenario}`, async () => {
      let args = "";
      let going = null;
      await ask(scenario, (piece) => {
        args += piece;
        // The upstream continues only now, so a proxy that waits for the end of the call fails the test.
        if (!going && args.endsWith("Pa")) going = go(scenario);
      });
      assert.ok(going);
      await going;
      assert.deepEqual(JSON.parse(args), { city: "Paris" });
    });
  }
}
