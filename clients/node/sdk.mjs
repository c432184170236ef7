// The clients. Each sends a request through its SDK, and returns what it has received.
//
// A result is `{text, reasoning, refusal, calls: [{id, name, arguments}], results, finish, usage, error}`. `error` is what the
// SDK threw or reported. Members that a client does not expose are empty.

import { readFileSync } from "node:fs";

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";

export const STAND = JSON.parse(readFileSync(process.env.STAND, "utf8"));

// The AI SDK would warn about each unknown model name.
globalThis.AI_SDK_LOG_WARNINGS = false;

// The clients' timeout, in milliseconds. Only a test that hangs takes this long.
export const TIMEOUT = 30_000;

export const empty = () => ({
  text: "",
  reasoning: "",
  refusal: "",
  calls: [],
  results: [],
  finish: null,
  usage: null,
  error: null,
});

/** A client of the openai SDK without automatic retries. */
export const client = (options = {}) =>
  new OpenAI({ baseURL: STAND.url, apiKey: STAND.key, maxRetries: 0, timeout: TIMEOUT, ...options });

/** Converts an error of the openai SDK. Rethrows any other. */
export const ofOpenAI = (error) => {
  if (!(error instanceof OpenAI.APIError)) throw error;
  const { status, type, code, message } = error;
  return { status, type, code, message };
};

/** Ignores the error caused by an abort. Rethrows any other. */
export const ofAbort = (error) => {
  if (!(error instanceof OpenAI.APIUserAbortError)) throw error;
};

/** openai, iterating over the chunks. */
const openai = {
  name: "openai",
  sees: ["text", "reasoning", "refusal", "calls", "results", "usage"],
  seesOfErrors: ["status", "type", "code"],
  speaksFunctions: true,

  async stream(request) {
    const answer = empty();
    try {
      for await (const chunk of await client().chat.completions.create({ ...request, stream: true })) {
        takeChunk(chunk, answer);
      }
    } catch (error) {
      answer.error = ofOpenAI(error);
    }
    return answer;
  },

  async leave(request) {
    for await (const chunk of await client().chat.completions.create({ ...request, stream: true })) {
      if (chunk.choices[0]?.delta.content) break;
    }
  },

  async whole({ stream, stream_options, ...request }) {
    try {
      return ofCompletion(await client().chat.completions.create(request));
    } catch (error) {
      return { ...empty(), error: ofOpenAI(error) };
    }
  },
};

function takeChunk(chunk, answer) {
  answer.usage = chunk.usage ?? answer.usage;
  for (const { delta, finish_reason } of chunk.choices) {
    answer.finish = finish_reason ?? answer.finish;
    answer.text += delta.content ?? "";
    answer.reasoning += delta.reasoning_content ?? "";
    answer.refusal += delta.refusal ?? "";
    answer.results.push(...(delta.tool_results ?? []));
    for (const call of delta.tool_calls ?? []) {
      answer.calls[call.index] ??= { id: call.id, name: call.function.name, arguments: "" };
      answer.calls[call.index].arguments += call.function.arguments ?? "";
    }
    if (delta.function_call?.name) {
      answer.calls.push({ id: null, name: delta.function_call.name, arguments: "" });
    }
    if (delta.function_call) {
      answer.calls.at(-1).arguments += delta.function_call.arguments ?? "";
    }
  }
}

function ofCompletion({ choices: [{ message, finish_reason }], usage }) {
  const functions = (message.tool_calls ?? []).map((call) => ({ id: call.id, ...call.function }));
  const legacy = message.function_call ? [{ id: null, ...message.function_call }] : [];
  return {
    ...empty(),
    text: message.content ?? "",
    reasoning: message.reasoning_content ?? "",
    refusal: message.refusal ?? "",
    calls: [...functions, ...legacy].map(({ id, name, arguments: args }) => ({ id, name, arguments: args })),
    results: message.tool_results ?? [],
    finish: finish_reason,
    usage: usage ?? null,
  };
}

/** openai's `.stream()` helper, which emits typed events and assembles the completion. */
const openaiHelper = {
  ...openai,
  name: "openai-helper",
  sees: ["text", "refusal", "calls", "usage"],
  // The helper only streams.
  whole: null,

  async leave(request) {
    const events = client().chat.completions.stream(request);
    events.once("content", () => events.abort());
    await events.done().catch(ofAbort);
  },

  async stream(request) {
    let text = "";
    const done = [];
    const events = client().chat.completions.stream(request);
    events.on("content.delta", ({ delta }) => (text += delta));
    events.on("tool_calls.function.arguments.done", ({ name, arguments: args }) => done.push([name, args]));
    try {
      const answer = ofCompletion(await events.finalChatCompletion());
      return { ...answer, told: { text, calls: done } };
    } catch (error) {
      // The helper throws on two finish reasons, although it has assembled the complete response.
      const finishes = [OpenAI.LengthFinishReasonError, OpenAI.ContentFilterFinishReasonError];
      if (finishes.some((kind) => kind && error instanceof kind)) {
        return ofCompletion(events.currentChatCompletionSnapshot);
      }
      return { ...empty(), text, error: ofOpenAI(error) };
    }
  },
};

export const settings = { baseURL: STAND.url, apiKey: STAND.key };

/** The Vercel AI SDK with one of its providers; `model` creates its model from a request. */
export const aiSdk = (name, sees, model) => ({
  name,
  sees,
  seesOfErrors: [],
  speaksFunctions: false,
  model,

  async stream(request) {
    const answer = empty();
    for await (const part of streamText({ ...asked(request, model), onError() {} }).fullStream) {
      takePart(part, answer);
    }
    return answer;
  },

  async leave(request) {
    const leaving = new AbortController();
    const options = { ...asked(request, model), abortSignal: leaving.signal, onError() {} };
    for await (const part of streamText(options).fullStream) {
      if (part.type === "text-delta") leaving.abort();
    }
  },

  async whole(request) {
    try {
      const { text, reasoningText, toolCalls, rawFinishReason, finishReason, usage } = await generateText(asked(request, model));
      const calls = toolCalls.map(ofToolCall);
      const finish = { finish: rawFinishReason, unified: finishReason };
      return { ...empty(), text, reasoning: reasoningText ?? "", calls, ...finish, usage: ofUsage(usage) };
    } catch (error) {
      return { ...empty(), error: ofAiSdk(error) };
    }
  },
});

function asked(request, model) {
  const tools = (request.tools ?? []).map(({ function: { name, description, parameters } }) => {
    return [name, tool({ description, inputSchema: jsonSchema(parameters ?? { type: "object" }) })];
  });
  const choice = request.tool_choice;
  return {
    model: model(request),
    messages: request.messages,
    allowSystemInMessages: true,
    tools: tools.length ? Object.fromEntries(tools) : undefined,
    toolChoice: typeof choice === "object" ? { type: "tool", toolName: choice.function.name } : choice,
    providerOptions: { openai: { parallelToolCalls: request.parallel_tool_calls } },
    maxRetries: 0,
  };
}

function takePart(part, answer) {
  switch (part.type) {
    case "text-delta":
      answer.text += part.text;
      break;
    case "reasoning-delta":
      answer.reasoning += part.text;
      break;
    case "tool-call":
      answer.calls.push(ofToolCall(part));
      break;
    case "error":
      answer.error = ofAiSdk(part.error);
      break;
    case "finish-step":
      answer.finish = part.rawFinishReason ?? null;
      answer.unified = part.finishReason;
      answer.usage = ofUsage(part.usage);
      break;
  }
}

const ofToolCall = ({ toolCallId, toolName, input }) => ({
  id: toolCallId,
  name: toolName,
  arguments: typeof input === "string" ? input : JSON.stringify(input),
});

const ofUsage = ({ inputTokens, outputTokens, totalTokens }) => ({
  prompt_tokens: inputTokens,
  completion_tokens: outputTokens,
  total_tokens: totalTokens,
});

/** Converts an AI SDK error: an HTTP error, a stream error, or only a message. */
const ofAiSdk = (error) => ({
  status: error.statusCode,
  message: error.message ?? String(error),
  headers: error.responseHeaders,
});

export const compatible = aiSdk("ai-compatible", ["text", "reasoning", "calls", "usage"], (request) => {
  const provider = createOpenAICompatible({
    ...settings,
    name: "toolwire",
    includeUsage: request.stream_options?.include_usage,
    transformRequestBody: (body) => ({ ...body, parallel_tool_calls: request.parallel_tool_calls }),
  });
  return provider(request.model);
});

export const aiOpenai = aiSdk("ai-openai", ["text", "calls", "usage"], (request) => {
  return createOpenAI(settings).chat(request.model);
});

export const CLIENTS = [openai, openaiHelper, compatible, aiOpenai];
