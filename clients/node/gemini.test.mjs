// Google's SDK: a chat that calls a function, and what only this SDK asks for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, Type } from "@google/genai";

import { geminiClient } from "./gemini.mjs";
import { STAND } from "./sdk.mjs";

const WEATHER = {
  name: "get_weather",
  description: "Current weather of a city.",
  parameters: { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ["city"] },
};

for (const model of STAND.loops) {
  for (const way of ["stream", "whole"]) {
    test(`loop: ${way}, ${model}`, async () => {
      const chat = geminiClient().chats.create({ model, config: { tools: [{ functionDeclarations: [WEATHER] }] } });
      const ask = async (message) => {
        if (way === "whole") return [await chat.sendMessage({ message })];
        const chunks = [];
        for await (const chunk of await chat.sendMessageStream({ message })) chunks.push(chunk);
        return chunks;
      };
      const [call] = (await ask("What is the weather in Paris?")).flatMap(({ functionCalls }) => functionCalls ?? []);
      assert.deepEqual([call.name, call.args], ["get_weather", { city: "Paris" }]);
      const response = { id: call.id, name: call.name, response: { output: "18 °C" } };
      const chunks = await ask([{ functionResponse: response }]);
      assert.equal(chunks.map(({ text }) => text ?? "").join(""), "It is 18 °C.");
      assert.equal(chunks.at(-1).candidates[0].finishReason, "STOP");
    });
  }
}

test("models are listed and tokens are counted", async () => {
  const model = STAND.cases[0].request.model;
  const names = [];
  for await (const { name } of await geminiClient().models.list()) names.push(name);
  assert.ok(names.includes(`models/${model}`));
  const { totalTokens } = await geminiClient().models.countTokens({ model, contents: "hello" });
  assert.ok(totalTokens > 0);
});

test("errors have Google's form", async () => {
  const asked = { model: "nobody", contents: "?" };
  await assert.rejects(geminiClient().models.generateContent(asked), (error) => {
    assert.ok(error instanceof ApiError && error.status === 404 && error.message.includes("NOT_FOUND"));
    return true;
  });
  await assert.rejects(geminiClient({ apiKey: "wrong" }).models.generateContent(asked), ({ status }) => status === 401);
});
