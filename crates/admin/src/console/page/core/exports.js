// Exports as files or code. They never contain keys: code names a variable instead.

// One CSV cell. A value that a spreadsheet would execute gets a leading quote.
export function cell(value) {
  let text = value == null ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

// Quotes one shell argument.
export const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;

// The path of a request for a model.
const PATHS = {
  chat: () => "/v1/chat/completions",
  responses: () => "/v1/responses",
  messages: () => "/v1/messages",
  gemini: (model) => `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
  ollama: () => "/api/chat",
};

const contents = (messages) => messages.map(({ role, content }) => ({ role: role === "assistant" ? "model" : "user", parts: [{ text: content }] }));

function body(dialect, model, messages) {
  if (dialect === "gemini") return { contents: contents(messages) };
  if (dialect === "responses") return { model, input: messages, stream: true };
  if (dialect === "messages") return { model, max_tokens: 4096, messages, stream: true };
  return { model, messages, stream: true };
}

export function curl(base, dialect, model, messages, needsKey = true) {
  return [
    `curl -N ${quoted(base.replace(/\/$/, "") + (PATHS[dialect] ?? PATHS.chat)(model))}`,
    ...(needsKey ? ['  -H "Authorization: Bearer $TOOLWIRE_API_KEY"'] : []),
    "  -H 'Content-Type: application/json'",
    `  -d ${quoted(JSON.stringify(body(dialect, model, messages)))}`,
  ].join(" \\\n");
}

const call = (base, path) => `base_url=${JSON.stringify(base.replace(/\/$/, "") + path)}, api_key=os.environ["TOOLWIRE_API_KEY"]`;

export function python(base, dialect, model, messages) {
  const said = JSON.stringify(messages);
  const [host, asked] = [JSON.stringify(base.replace(/\/$/, "")), JSON.stringify(model)];
  if (dialect === "ollama") {
    return `import os\nfrom ollama import Client\n\nclient = Client(host=${host}, headers={"Authorization": "Bearer " + os.environ["TOOLWIRE_API_KEY"]})\nfor part in client.chat(model=${asked}, messages=${said}, stream=True):\n    print(part.message.content, end="", flush=True)\n`;
  }
  if (dialect === "gemini") {
    return `import os\nfrom google import genai\n\nclient = genai.Client(api_key=os.environ["TOOLWIRE_API_KEY"], http_options={"base_url": ${host}})\nfor chunk in client.models.generate_content_stream(model=${asked}, contents=${JSON.stringify(contents(messages))}):\n    print(chunk.text or "", end="", flush=True)\n`;
  }
  if (dialect === "messages") {
    return `import os\nfrom anthropic import Anthropic\n\nclient = Anthropic(${call(base, "")})\nwith client.messages.stream(model=${JSON.stringify(model)}, max_tokens=4096, messages=${said}) as stream:\n    for text in stream.text_stream:\n        print(text, end="", flush=True)\n`;
  }
  const request = dialect === "responses"
    ? `client.responses.create(model=${JSON.stringify(model)}, input=${said}, stream=True)`
    : `client.chat.completions.create(model=${JSON.stringify(model)}, messages=${said}, stream=True)`;
  return `import os\nfrom openai import OpenAI\n\nclient = OpenAI(${call(base, "/v1")})\nfor event in ${request}:\n    print(event)\n`;
}

export function typescript(base, dialect, model, messages) {
  const [said, asked] = [JSON.stringify(messages), JSON.stringify(model)];
  const client = (name, path) => `import ${name} from "${name.toLowerCase() === "openai" ? "openai" : "@anthropic-ai/sdk"}";\n\nconst client = new ${name}({ baseURL: ${JSON.stringify(base.replace(/\/$/, "") + path)}, apiKey: process.env.TOOLWIRE_API_KEY });\n`;
  const host = JSON.stringify(base.replace(/\/$/, ""));
  if (dialect === "ollama") {
    return `import { Ollama } from "ollama";\n\nconst client = new Ollama({ host: ${host}, headers: { Authorization: \`Bearer \${process.env.TOOLWIRE_API_KEY}\` } });\nfor await (const part of await client.chat({ model: ${asked}, messages: ${said}, stream: true })) process.stdout.write(part.message.content);\n`;
  }
  if (dialect === "gemini") {
    return `import { GoogleGenAI } from "@google/genai";\n\nconst client = new GoogleGenAI({ apiKey: process.env.TOOLWIRE_API_KEY, httpOptions: { baseUrl: ${host} } });\nconst stream = await client.models.generateContentStream({ model: ${asked}, contents: ${JSON.stringify(contents(messages))} });\nfor await (const chunk of stream) process.stdout.write(chunk.text ?? "");\n`;
  }
  if (dialect === "messages") {
    return `${client("Anthropic", "")}const stream = client.messages.stream({ model: ${asked}, max_tokens: 4096, messages: ${said} });\nstream.on("text", (text) => process.stdout.write(text));\nawait stream.finalMessage();\n`;
  }
  const request = dialect === "responses" ? `client.responses.create({ model: ${asked}, input: ${said}, stream: true })` : `client.chat.completions.create({ model: ${asked}, messages: ${said}, stream: true })`;
  return `${client("OpenAI", "/v1")}const stream = await ${request};\nfor await (const event of stream) console.log(event);\n`;
}

// A chat as rows: messages, calls, results and errors.
export function chatRows(chat) {
  const rows = [["turn", "role", "model", "kind", "name", "text", "result", "code", "ms", "exchange"]];
  chat.turns.forEach(({ role, text, model, parts, exchange }, index) => {
    const put = (kind, name, said, result, code, ms) => rows.push([index + 1, role, model, kind, name, said, result, code, ms, exchange]);
    const plain = (value) => (value === undefined || typeof value === "string" ? value : JSON.stringify(value));
    if (role === "user") put("text", null, text);
    else for (const own of parts) own.kind === "call" ? put("call", own.name, plain(own.input), plain(own.result), own.code, own.ms) : put(own.kind, null, own.text ?? own.message, null, own.code);
  });
  return rows;
}

const fence = (text) => "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((run) => run[0].length + 1)));

// A chat as Markdown.
export function markdown(chat) {
  const parts = [`# ${chat.title ?? "Chat"}`];
  for (const turn of chat.turns) {
    if (turn.role === "user") parts.push("## You", turn.text);
    else {
      parts.push(`## ${turn.model ?? "Model"}`);
      for (const part of turn.parts) {
        if (part.kind === "text") parts.push(part.text);
        if (part.kind === "call") {
          const shown = JSON.stringify({ arguments: part.input ?? null, result: part.result ?? null }, null, 2);
          parts.push(`Tool \`${part.name}\`:`, `${fence(shown)}json\n${shown}\n${fence(shown)}`);
        }
        if (part.kind === "error") parts.push(`> ${part.message}`);
        if (part.kind === "stopped") parts.push("> Stopped");
      }
    }
  }
  return parts.join("\n\n") + "\n";
}
