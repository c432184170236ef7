// An MCP server over stdio with the tools `echo`, which returns its argument, and `ask`, which asks a person. Its log contains terminal
// escapes.

import { createInterface } from "node:readline";

const TOOL = { name: "echo", description: "Says what it is given", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } };
const ASK = { name: "ask", description: "Asks which one", inputSchema: { type: "object" } };
const QUESTION = { message: "Which <b>one</b>?", requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } };
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
// The calls that wait for a person, by the id of the question.
const asking = new Map();
const ANSWERS = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {}, prompts: {} }, serverInfo: { name: "echo", version: "1" } }),
  "tools/list": () => ({ tools: [TOOL, ASK] }),
  "tools/call": ({ arguments: { text } }) => ({ content: [{ type: "text", text }] }),
  "prompts/list": () => ({ prompts: [{ name: "greet", title: "Greet <b>somebody</b>", description: "Says hello", arguments: [{ name: "who", description: "Whom", required: true }] }, { name: "plain" }] }),
  "prompts/get": ({ name, arguments: { who } = {} }) => ({ messages: [{ role: "user", content: { type: "text", text: name === "greet" ? `Say hello to ${who}` : "plain text" } }] }),
  ping: () => ({}),
};

process.stderr.write("started \u001b[31mred\u001b[0m <b>bold</b>\n");
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, result } = JSON.parse(line);
  if (method === "tools/call" && params.name === "ask") {
    asking.set(`q${id}`, id);
    say({ id: `q${id}`, method: "elicitation/create", params: QUESTION });
    continue;
  }
  if (asking.has(id)) {
    say({ id: asking.get(id), result: { content: [{ type: "text", text: `${result.action} ${result.content?.name}` }] } });
    continue;
  }
  if (id === undefined) continue;
  const answer = ANSWERS[method];
  const said = answer ? { result: answer(params ?? {}) } : { error: { code: -32601, message: "unknown method" } };
  say({ id, ...said });
}
