// An MCP server over stdio with one tool, `echo`, which returns its argument. Its log contains terminal escapes.

import { createInterface } from "node:readline";

const TOOL = { name: "echo", description: "Says what it is given", inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] } };
const ANSWERS = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "echo", version: "1" } }),
  "tools/list": () => ({ tools: [TOOL] }),
  "tools/call": ({ arguments: { text } }) => ({ content: [{ type: "text", text }] }),
  ping: () => ({}),
};

process.stderr.write("started \u001b[31mred\u001b[0m <b>bold</b>\n");
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = ANSWERS[method];
  const said = answer ? { result: answer(params ?? {}) } : { error: { code: -32601, message: "unknown method" } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...said })}\n`);
}
