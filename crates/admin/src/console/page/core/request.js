// The requests of an exchange as people read them: messages, tools, and the rest. All of it is plain data.

const SYSTEM = ["system", "instructions", "systemInstruction", "system_instruction", "prompt"];
const MESSAGES = ["messages", "input", "contents", "turns"];
const TOOLS = ["tools", "functions", "toolConfig", "tool_config"];

// The texts in a message's content, whatever the dialect calls its parts.
function textsOf(value) {
  if (typeof value === "string") return [value];
  if (Array.isArray(value)) return value.flatMap(textsOf);
  if (!value || typeof value !== "object") return [];
  const said = value.text ?? value.content ?? value.parts ?? value.reasoning_content ?? value.thinking ?? value.output;
  const own = said === undefined ? [] : textsOf(said);
  // Calls, and parts that are no text.
  const calls = value.tool_calls ?? (own.length || value.role ? null : value);
  return calls ? [...own, JSON.stringify(calls)] : own;
}

const nameOf = (tool) => tool?.function?.name ?? tool?.name ?? tool?.toolSpec?.name ?? tool?.type;
const toolsIn = (value) => {
  const list = Array.isArray(value) ? value : value?.tools ?? [];
  return list.flatMap((tool) => tool?.functionDeclarations ?? tool?.function_declarations ?? [tool]).map((tool) => ({ name: String(nameOf(tool) ?? "tool"), json: tool }));
};

// Reads a request's body into {messages: [{role, text}], tools: [{name, json}], rest}. `null` if it is not an object in JSON.
export function readRequest(body) {
  let request;
  try {
    request = JSON.parse(body);
  } catch {
    return null;
  }
  if (!request || typeof request !== "object" || Array.isArray(request)) return null;
  const read = { messages: [], tools: [], rest: {} };
  const put = (role, value) => {
    const text = textsOf(value).join("\n");
    if (text) read.messages.push({ role, text });
  };
  for (const key of SYSTEM) if (request[key] != null) put(key === "prompt" ? "prompt" : "system", request[key]);
  for (const [key, value] of Object.entries(request)) {
    if (SYSTEM.includes(key)) continue;
    if (TOOLS.includes(key)) read.tools.push(...toolsIn(value));
    else if (!MESSAGES.includes(key)) read.rest[key] = value;
    else if (Array.isArray(value)) for (const one of value) put(one?.role ?? one?.type ?? "user", one);
    else put("user", value);
  }
  return read;
}

// Whether a text is so short that it occurs by chance.
const MIN = 12;

// The parts of a text that do not come from one of the texts `known`, as ranges of characters: what toolwire has added.
export function addedTo(text, known) {
  if (known.includes(text)) return [];
  const from = known.filter((own) => own.length >= MIN).sort((one, other) => other.length - one.length);
  let rest = [[0, text.length]];
  for (const own of from) {
    rest = rest.flatMap(([start, end]) => {
      const at = text.slice(start, end).indexOf(own);
      return at < 0 ? [[start, end]] : [[start, start + at], [start + at + own.length, end]];
    });
  }
  return rest.filter(([start, end]) => text.slice(start, end).trim());
}

// The request with `stream` set, since only streams are shown, and with another model if it is given.
export function changed(body, model) {
  const request = JSON.parse(body);
  const own = [request, ...Object.values(request)].find((part) => typeof part?.stream === "boolean") ?? request;
  own.stream = true;
  if (model) ([request, ...Object.values(request)].find((part) => typeof part?.model === "string") ?? request).model = model;
  return JSON.stringify(request, null, 2);
}

// Where requests of each dialect have the temperature and the choice of tools. `write` makes the value of a word, `read` the opposite.
const same = { write: (word) => word, read: (value) => value };
const USUAL = { temperature: ["temperature"], choice: { path: ["tool_choice"], ...same } };
const PLACES = {
  messages: { temperature: ["temperature"], choice: { path: ["tool_choice"], write: (word) => ({ type: word === "required" ? "any" : word }), read: (value) => (value?.type === "any" ? "required" : value?.type) } },
  gemini: { temperature: ["generationConfig", "temperature"], choice: { path: ["toolConfig", "functionCallingConfig"], write: (word) => ({ mode: word === "required" ? "ANY" : word.toUpperCase() }), read: (value) => (value?.allowedFunctionNames ? null : value?.mode === "ANY" ? "required" : value?.mode?.toLowerCase()) } },
  interactions: { temperature: ["generation_config", "temperature"], choice: { path: ["generation_config", "tool_choice"], write: (word) => (word === "required" ? "any" : word), read: (value) => (value === "any" ? "required" : value) } },
  ollama: { temperature: ["options", "temperature"] },
  completions: { temperature: ["temperature"] },
};
export const CHOICES = ["auto", "none", "required"];
export const placesOf = (dialect) => PLACES[dialect] ?? USUAL;

// The value at a path in the text of a request. `undefined` if there is none.
export const valueAt = (body, path) => path.reduce((own, key) => own?.[key], JSON.parse(body));

// The text of a request with another value at the path, or without one.
export function withValue(body, path, value) {
  const request = JSON.parse(body);
  const last = path.at(-1);
  const own = path.slice(0, -1).reduce((part, key) => (part[key] ??= {}), request);
  if (value === undefined) delete own[last];
  else own[last] = value;
  return JSON.stringify(request, null, 2);
}

export const modelOf = (body) => {
  const request = JSON.parse(body);
  return [request, ...Object.values(request)].find((part) => typeof part?.model === "string")?.model ?? "";
};
