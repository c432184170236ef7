// A complete tool loop: the call, its result and the response. Also checks the upstream request.

import assert from "node:assert/strict";
import { test } from "node:test";

import { generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

import { aiGoogle } from "./gemini.mjs";
import { aiOllama } from "./ollama.mjs";
import { seen } from "./scripted.mjs";
import { CLIENTS, STAND, aiOpenai, client, compatible } from "./sdk.mjs";

const QUESTION = "What is the weather in Paris?";
const RESULT = "18 °C";
const DESCRIPTION = "Current weather of a city.";
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const TOOLS = [{ type: "function", function: { name: "get_weather", description: DESCRIPTION, parameters } }];

/** The loop, written out with openai. */
const byHand = (way) => async (model) => {
  const [openai] = CLIENTS;
  const messages = [{ role: "user", content: QUESTION }];
  const first = await openai[way]({ model, messages, tools: TOOLS });
  assert.equal(first.finish, "tool_calls");
  const [{ id, name, arguments: args }] = first.calls;
  assert.deepEqual([name, JSON.parse(args)], ["get_weather", { city: "Paris" }]);
  messages.push(
    { role: "assistant", content: null, tool_calls: [{ id, type: "function", function: { name, arguments: args } }] },
    { role: "tool", tool_call_id: id, content: RESULT },
  );
  const { text, finish } = await openai[way]({ model, messages, tools: TOOLS });
  return [text, finish];
};

/** The loop with openai's own runner, which calls the function itself. */
const runner = async (model) => {
  const run = ({ city }) => (assert.equal(city, "Paris"), RESULT);
  const tools = [{ type: "function", function: { ...TOOLS[0].function, function: run, parse: JSON.parse } }];
  const messages = [{ role: "user", content: QUESTION }];
  const running = client().chat.completions.runTools({ model, messages, tools, stream: true });
  const completion = await running.finalChatCompletion();
  return [completion.choices[0].message.content, completion.choices[0].finish_reason];
};

/** The loop with the AI SDK, which runs the tool itself. */
const aiLoop = (sdk, way) => async (model) => {
  const execute = ({ city }) => (assert.equal(city, "Paris"), RESULT);
  const get_weather = tool({ description: DESCRIPTION, inputSchema: z.object({ city: z.string() }), execute });
  const result = await way({
    model: sdk.model({ model }),
    prompt: QUESTION,
    tools: { get_weather },
    stopWhen: isStepCount(3),
    maxRetries: 0,
    onError() {},
  });
  assert.equal((await result.steps).length, 2);
  return [await result.text, await result.rawFinishReason];
};

const LOOPS = {
  "openai, streamed": byHand("stream"),
  "openai, whole": byHand("whole"),
  "openai's runner": runner,
  "ai-compatible, streamed": aiLoop(compatible, streamText),
  "ai-compatible, whole": aiLoop(compatible, generateText),
  "ai-openai, streamed": aiLoop(aiOpenai, streamText),
  "ai-openai, whole": aiLoop(aiOpenai, generateText),
  "ai-google, streamed": aiLoop(aiGoogle, streamText),
  "ai-google, whole": aiLoop(aiGoogle, generateText),
  "ai-ollama, streamed": aiLoop(aiOllama, streamText),
  "ai-ollama, whole": aiLoop(aiOllama, generateText),
};

for (const [name, loop] of Object.entries(LOOPS)) {
  for (const model of STAND.loops) {
    test(`a tool loop: ${name}, ${model}`, async () => {
      const [text, finish] = await loop(model);
      assert.deepEqual([text, finish.toLowerCase()], ["It is 18 °C.", "stop"]);
      // In any dialect and format, the last upstream request contains the tool, the question, the call and the result.
      const told = JSON.stringify((await seen("loop")).requests.at(-1));
      for (const part of [DESCRIPTION, QUESTION, "get_weather", "Paris", RESULT]) assert.ok(told.includes(part), part);
    });
  }
}
