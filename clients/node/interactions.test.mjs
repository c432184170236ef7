// Google's SDK and its Interactions API: loops over stored interactions, and errors.

import assert from "node:assert/strict";
import { test } from "node:test";

import { geminiClient } from "./gemini.mjs";
import { newAnswer, streamed, whole } from "./interactions.mjs";
import { STAND } from "./sdk.mjs";

const WEATHER = {
  type: "function",
  name: "get_weather",
  description: "Current weather of a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

for (const model of STAND.loops) {
  for (const stream of [true, false]) {
    test(`loop: ${stream ? "stream" : "whole"}, ${model}`, async () => {
      const ask = async (request) => {
        const answer = newAnswer();
        const made = await geminiClient().interactions.create({ model, tools: [WEATHER], stream, ...request });
        const interaction = stream ? await streamed(made, answer) : (whole(made, answer), made);
        assert.equal(answer.error, null);
        return { ...answer, interaction };
      };
      const first = await ask({ input: "What is the weather in Paris?" });
      const [{ id, name, arguments: args }] = first.calls;
      assert.deepEqual([name, JSON.parse(args)], ["get_weather", { city: "Paris" }]);
      const result = { type: "function_result", call_id: id, name, result: "18 °C" };
      const previous_interaction_id = first.interaction.id;
      const second = await ask({ input: [result], previous_interaction_id });
      assert.deepEqual([second.text, second.finish], ["It is 18 °C.", "stop"]);
    });
  }
}

test("stored interactions are shown and deleted", async () => {
  const { interactions } = geminiClient();
  const { id } = await interactions.create({ model: "loop-native", input: "What is the weather in Paris?" });
  assert.equal((await interactions.get(id)).status, "requires_action");
  await assert.rejects(interactions.cancel(id), ({ status }) => status === 400);
  await interactions.delete(id);
  await assert.rejects(interactions.get(id), ({ status }) => status === 404);
});

test("errors have Google's form", async () => {
  const asked = { model: "nobody", input: "?" };
  await assert.rejects(geminiClient().interactions.create(asked), (error) => {
    assert.equal(error.status, 404);
    assert.ok(error.message.includes("nobody"), error.message);
    return true;
  });
  const wrong = geminiClient({ apiKey: "wrong" });
  await assert.rejects(wrong.interactions.create(asked), ({ status }) => status === 401);
});
