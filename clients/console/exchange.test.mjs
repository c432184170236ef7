// An exchange as plain data: its requests, what is marked in them, and the parts of its hops.

import assert from "node:assert/strict";
import { test } from "node:test";

const core = (file) => import(`../../crates/admin/src/console/page/core/${file}`);
const { Exchanges, filter, heldAt, hopsOf, saidIn, textOf } = await core("exchange.js");
const { addedTo, changed, CHOICES, modelOf, placesOf, readRequest, valueAt, withValue } = await core("request.js");
const { curl } = await core("exports.js");

test("requests of every dialect are messages, tools and the rest", () => {
  const said = (body) => {
    const { messages, tools, rest } = readRequest(JSON.stringify(body));
    return [messages.map(({ role, text }) => `${role}: ${text}`), tools.map(({ name }) => name), Object.keys(rest)];
  };
  const call = { id: "c", function: { name: "f", arguments: "{}" } };
  assert.deepEqual(said({ model: "m", messages: [{ role: "system", content: "s" }, { role: "user", content: [{ type: "text", text: "a" }, { type: "text", text: "b" }] }, { role: "assistant", content: "c", tool_calls: [call] }, { role: "tool", content: "r" }], tools: [{ type: "function", function: { name: "f" } }] }),
    [["system: s", "user: a\nb", `assistant: c\n${JSON.stringify([call])}`, "tool: r"], ["f"], ["model"]]);
  assert.deepEqual(said({ system: [{ type: "text", text: "s" }], messages: [{ role: "assistant", content: [{ type: "thinking", thinking: "t" }, { type: "tool_use", name: "f", input: {} }] }], tools: [{ name: "f" }] }),
    [["system: s", 'assistant: t\n{"type":"tool_use","name":"f","input":{}}'], ["f"], []]);
  assert.deepEqual(said({ instructions: "s", input: "q", tools: [{ type: "web_search" }] }), [["system: s", "user: q"], ["web_search"], []]);
  assert.deepEqual(said({ input: [{ role: "user", content: "q" }, { type: "function_call_output", output: "r" }] }), [["user: q", "function_call_output: r"], [], []]);
  assert.deepEqual(said({ systemInstruction: { parts: [{ text: "s" }] }, contents: [{ role: "user", parts: [{ text: "q" }] }], tools: [{ functionDeclarations: [{ name: "f" }, { name: "g" }] }] }), [["system: s", "user: q"], ["f", "g"], []]);
  assert.deepEqual(said({ system: [{ text: "s" }], messages: [{ role: "user", content: [{ text: "q" }] }], toolConfig: { tools: [{ toolSpec: { name: "f" } }] } }), [["system: s", "user: q"], ["f"], []]);
  assert.deepEqual(said({ prompt: "<|user|>q", max_tokens: 1 }), [["prompt: <|user|>q"], [], ["max_tokens"]]);
  for (const body of ["", "no JSON", "[1]", "null", "1", '"a"']) assert.equal(readRequest(body), null, body);
  assert.deepEqual(said({ messages: [null, 1, "x", { content: null }, []], tools: [null, 1], system: null }), [["user: x", 'user: {"content":null}'], ["tool", "tool"], []]);
});

test("what toolwire has added to a text is found", () => {
  const question = "What is the weather in Oslo?";
  const marked = (text, known) => addedTo(text, known).map(([from, to]) => text.slice(from, to));
  assert.deepEqual(marked(question, [question]), []);
  assert.deepEqual(marked(`Taught.\n\n${question}`, [question]), ["Taught.\n\n"]);
  assert.deepEqual(marked(`<|user|>${question}<|end|>`, ["short", question]), ["<|user|>", "<|end|>"]);
  assert.deepEqual(marked(`${question} ${question} and`, [question, question]), [" and"]);
  assert.deepEqual(marked("hi there", ["hi"]), ["hi there"], "a short text is found by chance");
  assert.deepEqual(marked("hi", ["hi"]), []);
  assert.deepEqual(marked(question, []), [question]);
  assert.deepEqual(marked("", []), []);
});

test("a request is sent again as a stream", () => {
  const again = (body, model) => JSON.parse(changed(JSON.stringify(body), model));
  assert.deepEqual(again({ model: "m" }), { model: "m", stream: true });
  assert.deepEqual(again({ model: "m", stream: false }, "n"), { model: "n", stream: true });
  assert.deepEqual(again({ own: { model: "m", stream: false }, contents: [] }, "n"), { own: { model: "n", stream: true }, contents: [] });
  assert.throws(() => changed("no JSON"));
});

test("model, temperature and choice of tools are where each dialect has them", () => {
  const set = (dialect, body) => {
    const { temperature, choice } = placesOf(dialect);
    const text = withValue(JSON.stringify(body), temperature, 0.5);
    assert.equal(valueAt(text, temperature), 0.5);
    if (!choice) return JSON.parse(text);
    for (const word of CHOICES) assert.equal(choice.read(valueAt(withValue(text, choice.path, choice.write(word)), choice.path)), word, `${dialect} ${word}`);
    return JSON.parse(withValue(text, choice.path, choice.write("required")));
  };
  assert.deepEqual(set("chat", { temperature: 1 }), { temperature: 0.5, tool_choice: "required" });
  assert.deepEqual(set("responses", {}), { temperature: 0.5, tool_choice: "required" });
  assert.deepEqual(set("messages", { tool_choice: { type: "tool", name: "f" } }), { temperature: 0.5, tool_choice: { type: "any" } });
  assert.deepEqual(set("gemini", { generationConfig: { topP: 1 } }), { generationConfig: { topP: 1, temperature: 0.5 }, toolConfig: { functionCallingConfig: { mode: "ANY" } } });
  assert.deepEqual(set("interactions", {}), { generation_config: { temperature: 0.5, tool_choice: "any" } });
  assert.deepEqual(set("ollama", {}), { options: { temperature: 0.5 } });
  assert.deepEqual(set("completions", {}), { temperature: 0.5 });
  // A choice that has no word stays as it is.
  const named = { chat: { tool_choice: { type: "function" } }, messages: { tool_choice: { type: "tool" } }, gemini: { toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["f"] } } } };
  for (const [dialect, body] of Object.entries(named)) assert.ok(!CHOICES.includes(placesOf(dialect).choice.read(valueAt(JSON.stringify(body), placesOf(dialect).choice.path))), dialect);
  assert.deepEqual(JSON.parse(withValue('{"temperature":1}', ["temperature"], undefined)), {});
  assert.deepEqual([modelOf('{"model":"m"}'), modelOf('{"own":{"model":"n"}}'), modelOf("{}")], ["m", "n", ""]);
  assert.equal(valueAt('{"options":null}', ["options", "temperature"]), undefined);
});

test("hops have what was read and what came of it", () => {
  const rows = [
    { hop: 1, t_ms: 1, read: [{ kind: "reasoning", text: "hm" }, { kind: "text", text: "a" }], out: [{ kind: "text", frame: 'data: {"delta":"a"}\n\n' }] },
    { hop: 1, t_ms: 2, read: [{ kind: "call_start", call: 1, name: "f" }, { kind: "arguments", call: 1, text: "{" }, { kind: "call_start", call: 2, name: "g" }], out: [] },
    { hop: 1, t_ms: 3, read: [{ kind: "arguments", call: 1, text: "}" }, { kind: "finish", text: "tool_calls" }], out: [] },
    { hop: 2, t_ms: 9, raw: 'data: {"choices":[{"delta":{"content":"b"}}]}\n\n', out: [{ kind: "call_start", call: 1, name: "h", frame: "" }, { kind: "arguments", call: 1, frame: 'data: {"delta":{"partial_json":"{}"}}\n\n' }] },
  ];
  const [one, two] = hopsOf(rows);
  assert.deepEqual(one.read.map(({ kind, name, text }) => [kind, name ?? "", text]), [["reasoning", "", "hm"], ["text", "", "a"], ["call", "f", "{}"], ["call", "g", ""], ["finish", "", "tool_calls"]]);
  assert.deepEqual([one.out.map(({ text }) => text), two.read.map(({ text }) => text), two.out.map(({ name, text }) => [name, text]), two.t], [["a"], ["b"], [["h", "{}"]], 9]);
  assert.deepEqual(hopsOf([]), []);
  assert.deepEqual(hopsOf([{ t_ms: 0 }]).map(({ hop, out }) => [hop, out]), [[1, []]]);
});

test("white space that is held back is no reason to mark a row", () => {
  const held = (text, held) => heldAt({ held, read: [{ kind: "text", text }] });
  assert.deepEqual([held("a ", 1), held("a\n\n", 2), held("a ", 2), held("<", 1), held("", 1), heldAt({})], [0, 0, 2, 1, 1, 0]);
  assert.deepEqual([saidIn({}), saidIn({ read: [] }), saidIn({ raw: 'data: {"delta":"x"}' })], [[], [], [{ kind: "text", text: "x" }]]);
});

test("texts are read out of Gemini's and Ollama's frames, and whole responses", () => {
  const frame = (value) => textOf({ frame: `data: ${JSON.stringify(value)}\n\n` });
  assert.equal(frame({ candidates: [{ content: { parts: [{ text: "a" }, { functionCall: { name: "f", args: { b: 1 } } }] } }] }), 'a{"b":1}');
  assert.equal(frame({ choices: [{ message: { content: "whole" } }] }), "whole");
  assert.equal(textOf({ frame: '{"message":{"content":"c"}}\n{"message":{"content":"","tool_calls":[{"function":{"arguments":{"d":1}}}]}}\n' }), 'c{"d":1}');
});

test("a list that is fetched anew has nothing that the server does not have", () => {
  const own = new Exchanges();
  own.apply("message_start", { t: 1, exchange: "ex_ghost", model: "m" });
  own.apply("tool_use", { t: 2, exchange: "ex_ghost", hop: 1, toolCall: { id: "c", name: "f" } });
  own.apply("tool_use", { t: 3, exchange: "ex_ghost", hop: 1, toolCall: { id: "d", name: "f" } });
  assert.deepEqual([own.rows[0].tools, own.rows[0].hosted_calls], [["f"], 2]);
  own.clear();
  own.merge([{ id: "ex_1", t: 5, state: "done", tools: ["f"], formats: ["hermes"] }]);
  assert.deepEqual([own.rows.map(({ id }) => id), own.events.size], [["ex_1"], 0]);
  // A list that was made before the end does not undo it.
  own.apply("message_start", { t: 6, exchange: "ex_2" });
  own.apply("message_complete", { t: 7, exchange: "ex_2", finish: "stop", ms: 1 });
  own.merge([{ id: "ex_2", t: 6, state: "running", ms: 1 }]);
  assert.equal(own.byId.get("ex_2").state, "done");
  const [row] = own.rows.slice(-1);
  for (const query of ["tool:f", "format:her*", "hermes", "-tool:g"]) assert.ok(filter(query)(row), query);
  for (const query of ["tool:g", "format:react", "-hermes"]) assert.ok(!filter(query)(row), query);
  own.max = 3;
  own.merge([4, 3, 2, 1].map((t) => ({ id: `old_${t}`, t })));
  assert.deepEqual(own.rows.map(({ id }) => id), ["ex_2", "ex_1", "old_4"]);
});

test("a curl line names a key only if one is needed", () => {
  assert.ok(curl("http://x/", "chat", "m", []).includes("TOOLWIRE_API_KEY"));
  assert.ok(!curl("http://x/", "chat", "m", [], false).includes("Authorization"));
});
