import { ChatOpenAI } from "@langchain/openai";

import { STAND, TIMEOUT, empty } from "./sdk.mjs";

const model = ({ model, tools }) => {
  const chat = new ChatOpenAI({
    model,
    apiKey: STAND.key,
    configuration: { baseURL: STAND.url },
    streamUsage: true,
    maxRetries: 0,
    timeout: TIMEOUT,
    useResponsesApi: false,
  });
  return tools ? chat.bindTools(tools) : chat;
};

const ofError = (error) => ({ status: error.status, message: error.message });

function ofMessage(message, calls) {
  const usage = message.usage_metadata;
  return {
    ...empty(),
    text: message.text,
    calls,
    finish: message.response_metadata.finish_reason,
    usage: usage ? { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens } : null,
  };
}

export const langchain = {
  name: "langchain",
  sees: ["text", "calls", "usage"],
  seesOfErrors: ["status"],

  async stream(request) {
    let text = "";
    let message = null;
    try {
      for await (const chunk of await model(request).stream(request.messages)) {
        text += chunk.text;
        message = message ? message.concat(chunk) : chunk;
      }
    } catch (error) {
      return { ...empty(), text, error: ofError(error) };
    }
    const calls = (message.tool_call_chunks ?? []).map(({ id, name, args }) => ({ id, name, arguments: args }));
    return ofMessage(message, calls);
  },

  async whole(request) {
    try {
      const message = await model(request).invoke(request.messages);
      const calls = message.tool_calls.map(({ id, name, args }) => ({ id, name, arguments: JSON.stringify(args) }));
      return ofMessage(message, calls);
    } catch (error) {
      return { ...empty(), error: ofError(error) };
    }
  },

  async leave(request) {
    for await (const chunk of await model(request).stream(request.messages)) {
      if (chunk.text) break;
    }
  },
};
