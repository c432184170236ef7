// Clients of Anthropic Messages: Anthropic's SDK, event by event and with the `.stream()` helper, and the AI SDK's provider.

import { createAnthropic } from "@ai-sdk/anthropic";
import Anthropic from "@anthropic-ai/sdk";

import { STAND, TIMEOUT, aiSdk, empty, settings } from "./sdk.mjs";

// This SDK appends `/v1` to the base URL itself.
const BASE_URL = STAND.url.replace(/\/v1$/, "");

const FINISHES = { end_turn: "stop", tool_use: "tool_calls", max_tokens: "length", refusal: "content_filter" };

export const anthropicClient = (options = {}) =>
  new Anthropic({ baseURL: BASE_URL, apiKey: STAND.key, maxRetries: 0, timeout: TIMEOUT, ...options });

/** Converts a Chat Completions request with plain-text turns to a Messages request. */
const asMessages = ({ model, messages, tools = [] }) => ({
  model,
  max_tokens: 1000,
  messages,
  tools: tools.map(({ function: { name, description, parameters } }) => ({
    name,
    description,
    input_schema: parameters,
  })),
});

const ofAnthropic = (error) => {
  if (!(error instanceof Anthropic.AnthropicError)) throw error;
  return { status: error.status, message: error.message };
};

function ofMessage({ content, stop_reason, usage }) {
  const of = (type) => content.filter((block) => block.type === type);
  const join = (texts) => texts.join("");
  return {
    ...empty(),
    text: join(of("text").map(({ text }) => text)),
    reasoning: join(of("thinking").map(({ thinking }) => thinking)),
    calls: of("tool_use").map(({ id, name, input }) => ({ id, name, arguments: JSON.stringify(input) })),
    finish: FINISHES[stop_reason],
    usage: { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens },
  };
}

export const anthropic = {
  name: "anthropic",
  sees: ["text", "reasoning", "calls", "usage"],
  seesOfErrors: ["status"],

  async stream(request) {
    let text = "";
    const events = anthropicClient().messages.stream(asMessages(request));
    events.on("text", (piece) => (text += piece));
    try {
      const answer = ofMessage(await events.finalMessage());
      return { ...answer, told: { text } };
    } catch (error) {
      return { ...empty(), text, error: ofAnthropic(error) };
    }
  },

  async whole(request) {
    try {
      return ofMessage(await anthropicClient().messages.create(asMessages(request)));
    } catch (error) {
      return { ...empty(), error: ofAnthropic(error) };
    }
  },

  async leave(request) {
    const events = anthropicClient().messages.stream(asMessages(request));
    events.once("text", () => events.abort());
    await events.done().catch((error) => {
      if (!(error instanceof Anthropic.APIUserAbortError)) throw error;
    });
  },
};

export const aiAnthropic = aiSdk("ai-anthropic", ["text", "reasoning", "calls", "usage"], (request) => {
  return createAnthropic(settings)(request.model);
});
