// A call's arguments are with the client while the model still writes them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { jsonSchema, streamText, tool } from "ai";

import { go } from "./scripted.mjs";
import { aiOpenai, client, compatible } from "./sdk.mjs";

const messages = [{ role: "user", content: "What is the weather in Paris?" }];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];

async function* openaiChunks(model) {
  for await (const chunk of await client().chat.completions.create({ model, messages, tools, stream: true })) {
    for (const call of chunk.choices[0].delta.tool_calls ?? []) yield call.function.arguments ?? "";
  }
}

async function* openaiHelper(model) {
  let told = 0;
  const events = client().chat.completions.stream({ model, messages, tools });
  for await (const _ of events) {
    const [call] = events.currentChatCompletionSnapshot?.choices[0].message.tool_calls ?? [];
    const all = call?.function.arguments ?? "";
    yield all.slice(told);
    told = all.length;
  }
}

const aiSdk = (sdk) =>
  async function* (model) {
    const get_weather = tool({ inputSchema: jsonSchema(parameters) });
    for await (const part of streamText({ model: sdk.model({ model }), messages, tools: { get_weather } }).fullStream) {
      if (part.type === "tool-input-delta") yield part.delta;
    }
  };

const CLIENTS = {
  openai: openaiChunks,
  "openai-helper": openaiHelper,
  "ai-compatible": aiSdk(compatible),
  "ai-openai": aiSdk(aiOpenai),
};

for (const [name, pieces] of Object.entries(CLIENTS)) {
  for (const scenario of ["halves", "written-halves"]) {
    test(`arguments arrive while they are written: ${name}, ${scenario}`, async () => {
      let args = "";
      let gone = false;
      for await (const piece of pieces(scenario)) {
        args += piece;
        // The upstream goes on only now; a proxy that waits for the call's end never gets here.
        if (!gone && args.endsWith("Pa")) {
          await go(scenario);
          gone = true;
        }
      }
      assert.ok(gone);
      assert.deepEqual(JSON.parse(args), { city: "Paris" });
    });
  }
}
