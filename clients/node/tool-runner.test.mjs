// The tool runner of `@anthropic-ai/sdk`, with its default settings. It first asks for a thread, a conversation stored on
// the server. toolwire has no threads, and refuses with an error that makes the runner send the complete conversation.

import assert from "node:assert/strict";
import { test } from "node:test";

import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

import { anthropicClient } from "./messages.mjs";
import { seen } from "./scripted.mjs";
import { STAND } from "./sdk.mjs";

const QUESTION = "What is the weather in Paris?";
const DESCRIPTION = "Current weather of a city.";
const RESULT = "18 °C";
// toolwire forwards `thread` to Messages upstreams, which may support threads. The scripted upstream does not.
const MODELS = STAND.loops.filter((model) => model !== "loop-messages");

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
  for (const model of MODELS) {
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

test("a thread is an error, unless it may go on without one", async () => {
  const [model] = MODELS;
  const turn = [{ role: "user", content: QUESTION }];
  const thread = (settings) => anthropicClient().beta.messages.thread({ model, max_tokens: 500, ...settings });
  await assert.rejects(async () => await thread({}).send(turn), /thread/);
  const message = await thread({ unsupportedRequestBehavior: "continue_unthreaded" }).send(turn);
  assert.equal(message.type, "message");
});
