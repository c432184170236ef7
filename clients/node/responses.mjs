// Clients of OpenAI Responses: openai event by event and with the `.stream()` helper, and the AI SDK's provider.

import { createOpenAI } from "@ai-sdk/openai";
import OpenAI from "openai";

import { aiSdk, client, empty, ofAbort, settings } from "./sdk.mjs";

/** Converts a Chat Completions request with plain-text turns to a Responses request. */
const asResponses = ({ model, messages, tools = [] }) => ({
  model,
  input: messages,
  store: false,
  tools: tools.map((tool) => ({ type: "function", strict: false, ...tool.function })),
});

const ofError = (error) => {
  if (!(error instanceof OpenAI.OpenAIError)) throw error;
  return { status: error.status, message: error.message };
};

function ofResponse({ status, output, usage, error, incomplete_details: details }) {
  if (status === "failed") return { ...empty(), error };
  if (status !== "completed" && status !== "incomplete") return { ...empty(), error: { message: status } };
  const of = (type) => output.filter((item) => item.type === type);
  const text = (parts) => parts.map((part) => part.text).join("");
  const calls = of("function_call").map(({ call_id, name, arguments: args }) => ({ id: call_id, name, arguments: args }));
  const limit = { max_output_tokens: "length" }[details?.reason] ?? "content_filter";
  return {
    ...empty(),
    text: of("message").map(({ content }) => text(content)).join(""),
    reasoning: of("reasoning").map(({ summary, content }) => text(summary.length ? summary : (content ?? []))).join(""),
    calls,
    finish: status === "incomplete" ? limit : calls.length ? "tool_calls" : "stop",
    usage: usage && { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens },
  };
}

export const responses = {
  name: "responses",
  sees: ["text", "reasoning", "calls", "usage"],
  seesOfErrors: [],

  async stream(request) {
    let text = "";
    let last = null;
    try {
      for await (const event of await client().responses.create({ ...asResponses(request), stream: true })) {
        if (event.type === "response.output_text.delta") text += event.delta;
        if (event.type === "error") return { ...empty(), text, error: { message: event.message } };
        last = event.response ?? null;
      }
    } catch (error) {
      return { ...empty(), text, error: ofError(error) };
    }
    if (!last) return { ...empty(), text, finish: "cut without a word" };
    return { ...ofResponse(last), told: { text } };
  },

  async whole(request) {
    try {
      return ofResponse(await client().responses.create(asResponses(request)));
    } catch (error) {
      return { ...empty(), error: ofError(error) };
    }
  },

  async leave(request) {
    for await (const event of await client().responses.create({ ...asResponses(request), stream: true })) {
      if (event.type === "response.output_text.delta") break;
    }
  },
};

export const responsesHelper = {
  ...responses,
  name: "responses-helper",
  whole: null,

  async stream(request) {
    let text = "";
    const events = client().responses.stream(asResponses(request));
    events.on("response.output_text.delta", ({ delta }) => (text += delta));
    try {
      return { ...ofResponse(await events.finalResponse()), told: { text } };
    } catch (error) {
      return { ...empty(), text, error: ofError(error) };
    }
  },

  async leave(request) {
    const events = client().responses.stream(asResponses(request));
    events.once("response.output_text.delta", () => events.abort());
    await events.done().catch(ofAbort);
  },
};

export const aiResponses = aiSdk("ai-responses", ["text", "reasoning", "calls", "usage"], (request) => {
  return createOpenAI(settings).responses(request.model);
});
