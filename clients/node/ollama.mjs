// Clients of Ollama: its SDK, and the AI SDK with a provider. `seesOfErrors` lacks the status, which the SDK does not have for errors
// within a stream.

import { Ollama } from "ollama";
import { createOllama } from "ollama-ai-provider-v2";

import { STAND, aiSdk, empty } from "./sdk.mjs";

const BASE_URL = STAND.url.replace(/\/v1$/, "");
const headers = { authorization: `Bearer ${STAND.key}` };

export const ollamaClient = () => new Ollama({ host: BASE_URL, headers });

const asChat = ({ model, messages, tools }) => ({ model, messages, tools });

const ofOllama = (error) => ({ status: error.status_code, message: error.message });

function take(part, answer) {
  const { content, thinking, tool_calls } = part.message;
  answer.text += content ?? "";
  answer.reasoning += thinking ?? "";
  for (const { id, function: call } of tool_calls ?? []) {
    answer.calls.push({ id, name: call.name, arguments: JSON.stringify(call.arguments) });
  }
  if (part.done) {
    answer.finish = part.done_reason === "stop" && answer.calls.length ? "tool_calls" : part.done_reason;
    answer.usage = { prompt_tokens: part.prompt_eval_count, completion_tokens: part.eval_count };
  }
}

export const ollama = {
  name: "ollama",
  sees: ["text", "reasoning", "calls", "usage"],
  seesOfErrors: [],

  async stream(request) {
    const answer = { ...empty(), calls: [] };
    try {
      for await (const part of await ollamaClient().chat({ ...asChat(request), stream: true })) take(part, answer);
      return answer;
    } catch (error) {
      return { ...answer, error: ofOllama(error) };
    }
  },

  async whole(request) {
    const answer = { ...empty(), calls: [] };
    try {
      take(await ollamaClient().chat({ ...asChat(request), stream: false }), answer);
      return answer;
    } catch (error) {
      return { ...answer, error: ofOllama(error) };
    }
  },

  async leave(request) {
    const parts = await ollamaClient().chat({ ...asChat(request), stream: true });
    for await (const part of parts) if (part.message.content) break;
    parts.abort();
  },
};

// The provider skips lines with an error, and does not read the body of one.
export const aiOllama = {
  ...aiSdk("ai-ollama", ["text", "reasoning", "calls", "usage"], (request) => {
    return createOllama({ baseURL: `${BASE_URL}/api`, headers })(request.model);
  }),
  skipsErrors: true,
};
