// A client of Google's Interactions API: Google's SDK.

import { geminiClient } from "./gemini.mjs";
import { empty } from "./sdk.mjs";

const FINISHES = { completed: "stop", requires_action: "tool_calls", incomplete: "length" };

/** Converts a Chat Completions request with plain-text turns to the arguments of `interactions.create`. */
const asInteraction = ({ model, messages, tools = [] }) => ({
  model,
  store: false,
  input: messages.map(({ role, content }) => ({
    type: role === "assistant" ? "model_output" : "user_input",
    content: [{ type: "text", text: content }],
  })),
  ...(tools.length > 0 && { tools: tools.map(({ function: tool }) => ({ type: "function", ...tool })) }),
});

function end({ status, usage }, answer) {
  answer.finish = FINISHES[status];
  if (usage) {
    const { total_input_tokens, total_output_tokens = 0, total_thought_tokens = 0 } = usage;
    answer.usage = { prompt_tokens: total_input_tokens, completion_tokens: total_output_tokens + total_thought_tokens };
  }
}

export function whole(interaction, answer) {
  for (const { type, content, summary, id, name, arguments: args } of interaction.steps) {
    if (type === "function_call") answer.calls.push({ id, name, arguments: JSON.stringify(args) });
    else if (type === "thought") answer.reasoning += (summary ?? []).map(({ text }) => text).join("");
    else answer.text += content.map(({ text }) => text ?? "").join("");
  }
  end(interaction, answer);
}

/** Adds a stream to the answer, as the steps that have ended. Returns the interaction of the last event. */
export async function streamed(events, answer) {
  const calls = new Map();
  for await (const event of events) {
    const { event_type: kind, index, step, delta } = event;
    if (kind === "step.start" && step.type === "function_call") {
      calls.set(index, { id: step.id, name: step.name, arguments: "" });
    } else if (kind === "step.delta") {
      if (delta.type === "arguments_delta") calls.get(index).arguments += delta.arguments;
      else if (delta.type === "thought_summary") answer.reasoning += delta.content.text;
      else if (delta.type === "text") answer.text += delta.text;
    } else if (kind === "step.stop" && calls.has(index)) {
      const call = calls.get(index);
      answer.calls.push({ ...call, arguments: call.arguments || "{}" });
    } else if (kind === "interaction.completed") {
      end(event.interaction, answer);
      return event.interaction;
    } else if (kind === "error") {
      answer.error = { status: 502, message: event.error.message };
      return null;
    }
  }
  answer.error = { status: 502, message: "the stream has no end" };
  return null;
}

export const newAnswer = () => ({ ...empty(), text: "", reasoning: "", calls: [] });

const ofGoogle = (error) => {
  if (!error.status) throw error;
  return { status: error.status, message: error.message };
};

const once = { maxRetries: 0 };

export const interactions = {
  name: "interactions",
  sees: ["text", "reasoning", "calls", "usage"],
  seesOfErrors: ["status"],

  async stream(request) {
    const answer = newAnswer();
    try {
      const events = await geminiClient().interactions.create({ ...asInteraction(request), stream: true }, once);
      await streamed(events, answer);
    } catch (error) {
      answer.error = ofGoogle(error);
    }
    return answer;
  },

  async whole(request) {
    const answer = newAnswer();
    try {
      whole(await geminiClient().interactions.create(asInteraction(request), once), answer);
    } catch (error) {
      answer.error = ofGoogle(error);
    }
    return answer;
  },

  async leave(request) {
    const leaving = new AbortController();
    const asked = { ...asInteraction(request), stream: true };
    const events = await geminiClient().interactions.create(asked, { signal: leaving.signal });
    for await (const { event_type: kind } of events) if (kind === "step.delta") break;
    leaving.abort();
  },
};
