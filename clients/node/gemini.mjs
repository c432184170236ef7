// Clients of Gemini's API: Google's SDK and the AI SDK.

import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { ApiError, FunctionCallingConfigMode, GoogleGenAI } from "@google/genai";

import { STAND, TIMEOUT, aiSdk, empty } from "./sdk.mjs";

// This SDK appends the version of the API to the base URL itself.
const BASE_URL = STAND.url.replace(/\/v1$/, "");

const FINISHES = { MAX_TOKENS: "length", SAFETY: "content_filter", MALFORMED_FUNCTION_CALL: "tool_calls" };

export const geminiClient = ({ apiKey = STAND.key, ...options } = {}) =>
  new GoogleGenAI({ apiKey, httpOptions: { baseUrl: BASE_URL, timeout: TIMEOUT, ...options } });

/** Converts a Chat Completions request with plain-text turns to the arguments of the SDK's methods. */
const asGemini = ({ model, messages, tools = [] }) => ({
  model,
  contents: messages.map(({ role, content }) => ({
    role: role === "assistant" ? "model" : "user",
    parts: [{ text: content }],
  })),
  config: {
    thinkingConfig: { includeThoughts: true },
    ...(tools.length > 0 && {
      tools: [
        {
          functionDeclarations: tools.map(({ function: { name, description, parameters } }) => ({
            name,
            description,
            parametersJsonSchema: parameters,
          })),
        },
      ],
      toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.AUTO } },
    }),
  },
});

function take({ candidates: [{ content, finishReason }], usageMetadata }, answer) {
  for (const { text, thought, functionCall } of content.parts) {
    if (functionCall) {
      const { id, name, args } = functionCall;
      answer.calls.push({ id, name, arguments: JSON.stringify(args) });
    } else if (thought) answer.reasoning += text;
    else answer.text += text ?? "";
  }
  if (finishReason) answer.finish = FINISHES[finishReason] ?? (answer.calls.length > 0 ? "tool_calls" : "stop");
  if (usageMetadata) {
    const { promptTokenCount, candidatesTokenCount = 0, thoughtsTokenCount = 0 } = usageMetadata;
    answer.usage = { prompt_tokens: promptTokenCount, completion_tokens: candidatesTokenCount + thoughtsTokenCount };
  }
}

const ofGoogle = (error) => {
  if (!(error instanceof ApiError)) throw error;
  return { status: error.status, message: error.message };
};

export const gemini = {
  name: "google-genai",
  sees: ["text", "reasoning", "calls", "usage"],
  seesOfErrors: ["status"],

  async stream(request) {
    const answer = { ...empty(), text: "", reasoning: "", calls: [] };
    try {
      for await (const chunk of await geminiClient().models.generateContentStream(asGemini(request))) take(chunk, answer);
    } catch (error) {
      answer.error = ofGoogle(error);
    }
    return answer;
  },

  async whole(request) {
    const answer = { ...empty(), text: "", reasoning: "", calls: [] };
    try {
      take(await geminiClient().models.generateContent(asGemini(request)), answer);
    } catch (error) {
      answer.error = ofGoogle(error);
    }
    return answer;
  },

  async leave(request) {
    const leaving = new AbortController();
    const { config, ...rest } = asGemini(request);
    const asked = { ...rest, config: { ...config, abortSignal: leaving.signal } };
    const chunks = await geminiClient().models.generateContentStream(asked);
    for await (const chunk of chunks) if (chunk.text) break;
    leaving.abort();
  },
};

export const aiGoogle = aiSdk("ai-google", ["text", "calls", "usage"], (request) => {
  return createGoogleGenerativeAI({ apiKey: STAND.key, baseURL: `${BASE_URL}/v1beta` })(request.model);
});
