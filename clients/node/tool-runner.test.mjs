// The tool runner and the threads of `@anthropic-ai/sdk`, with default settings. toolwire holds the conversation, so that
// each request has only what is new, and the upstream gets all of it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

import { anthropicClient } from "./messages.mjs";
import { seen } from "./scripted.mjs";
import { STAND } from "./sdk.mjs";

const QUESTION = "What is the weather in Paris?";
const DESCRIPTION = "Current weather of a city.";
const RESULT = "18 °C";

/** A request with a tool that records its arguments in `ran`. */
const request = (model, ran) => ({
  model,
  max_tokens: 500,
  messages: [{ role: "user", content: QUESTION }],
  tools: [
    betaTool({
      name: "get_weather",
      description: DESCRIPTION,
      inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
      run: ({ city }) => (ran.push(city), RESULT),
    }),
  ],
});

const WAYS = {
  whole: async (body) => await anthropicClient().beta.messages.toolRunner(body),
  streamed: async (body) => {
    let last;
    for await (const events of anthropicClient().beta.messages.toolRunner({ ...body, stream: true }))
      last = await events.finalMessage();
    return last;
  },
};

for (const [way, run] of Object.entries(WAYS)) {
  for (const model of STAND.loops) {
    test(`the tool runner of Messages: ${way}, ${model}`, async () => {
      const ran = [];
      const message = await run(request(model, ran));
      const text = message.content.map((block) => block.text ?? "").join("");
      assert.deepEqual([text, message.stop_reason, ran], ["It is 18 °C.", "end_turn", ["Paris"]]);
      const told = JSON.stringify((await seen("loop")).requests.at(-1));
      for (const part of [DESCRIPTION, QUESTION, "get_weather", "Paris", RESULT]) assert.ok(told.includes(part), part);
    });
  }
}

for (const model of ["loop-native", "loop-hermes", "loop-messages"]) {
  test(`a thread is continued: ${model}`, async () => {
    const { tools } = request(model, []);
    const thread = anthropicClient().beta.messages.thread({ model, max_tokens: 500, tools });
    const first = await thread.send([{ role: "user", content: QUESTION }]);
    assert.equal(thread.previousMessageId, first.id);
    const call = first.content.find((block) => block.type === "tool_use");
    const result = { type: "tool_result", tool_use_id: call.id, content: RESULT };
    const last = await thread.send([{ role: "user", content: [result] }]);
    assert.deepEqual([last.content[0].text, thread.previousMessageId], ["It is 18 °C.", last.id]);
    const told = JSON.stringify((await seen("loop")).requests.at(-1));
    for (const part of [DESCRIPTION, QUESTION, "get_weather", "Paris", RESULT]) assert.ok(told.includes(part), part);
  });
}
