// Tools that OpenAI's and Anthropic's APIs define and that clients run, with models that know only functions.
//
// The user's message tells the scripted model which calls to make. It makes them natively, or in text as it was taught.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { BetaLocalFilesystemMemoryTool, betaMemoryTool } from "@anthropic-ai/sdk/tools/memory/node";
import { Agent, Runner, applyDiff, applyPatchTool, computerTool, shellTool, tool } from "@openai/agents-core";
import { OpenAIResponsesModel, toolSearchTool } from "@openai/agents-openai";
import { z } from "zod";

import { anthropicClient } from "./messages.mjs";
import { seen } from "./scripted.mjs";
import { client } from "./sdk.mjs";

const ANSWER = "It is done.";
const IMAGE = Buffer.from("\x89PNG\r\n\x1a\n", "latin1").toString("base64");

/** The user's message that asks for calls, each a pair of a name and arguments. */
const play = (calls) =>
  "PLAY " + JSON.stringify({ calls: calls.map(([name, args]) => ({ name, arguments: args })), answer: ANSWER });

/** Runs an agent of the Agents SDK. */
async function runs(model, stream, tools, calls) {
  const agent = new Agent({ name: "agent", model: new OpenAIResponsesModel(client(), model), tools });
  const running = await new Runner({ tracingDisabled: true }).run(agent, play(calls), { stream });
  if (stream) await running.completed;
  return running.finalOutput;
}

/** Checks that the model was told of its calls as it made them, and of the results. */
async function checkTold(calls, results) {
  const { messages } = (await seen("plays")).requests.at(-1);
  const made = messages.slice(messages.findIndex(({ content }) => JSON.stringify(content)?.includes("PLAY ")));
  const repeated = made.filter(({ role }) => role === "assistant").map(({ content, tool_calls }) => {
    const call = tool_calls?.[0].function ?? JSON.parse(content.match(/^<tool_call>\n(.*)\n<\/tool_call>$/s)[1]);
    return [call.name, tool_calls ? JSON.parse(call.arguments) : call.arguments];
  });
  assert.deepEqual(repeated, calls);
  for (const result of results) assert.ok(JSON.stringify(messages).includes(result), result);
}

/** A record of calls to its methods, with an `answer` to each. */
const recorder = (names, answer) => {
  const done = [];
  const method = (name) => [name, async (...values) => (done.push([name, ...values]), answer?.(...values))];
  return { done, ...Object.fromEntries(names.map(method)) };
};

const TOOLS = {
  async shell(run) {
    const outcome = { type: "exit", exitCode: 0 };
    const shell = recorder(["run"], ({ commands }) => ({
      output: commands.map(() => ({ stdout: "RESULT", stderr: "", outcome })),
    }));
    const calls = [["shell", { commands: ["ls", 'echo "é"'], timeout_ms: 1000 }], ["shell", { commands: ["pwd"] }]];
    await run([shellTool({ shell })], calls, ["RESULT"]);
    const ran = shell.done.map(([, { commands, timeoutMs }]) => [commands, timeoutMs]);
    assert.deepEqual(ran, [[["ls", 'echo "é"'], 1000], [["pwd"], undefined]]);
  },

  async "apply patch"(run) {
    const files = {};
    const written = (path, text) => ((files[path] = text), { status: "completed", output: `RESULT ${path}` });
    const editor = {
      createFile: async ({ path, diff }) => written(path, applyDiff("", diff, "create")),
      updateFile: async ({ path, diff }) => written(path, applyDiff(files[path], diff)),
      deleteFile: async ({ path }) => (delete files[path], { status: "completed", output: `RESULT ${path}` }),
    };
    const calls = [
      ["apply_patch", { type: "create_file", path: "a.txt", diff: "+one\n+two" }],
      ["apply_patch", { type: "update_file", path: "a.txt", diff: "@@\n one\n-two\n+2" }],
      ["apply_patch", { type: "create_file", path: "b.txt", diff: "+b" }],
      ["apply_patch", { type: "delete_file", path: "b.txt" }],
    ];
    await run([applyPatchTool({ editor })], calls, ["RESULT a.txt", "RESULT b.txt"]);
    assert.deepEqual(files, { "a.txt": "one\n2" });
  },

  async computer(run) {
    const names = ["screenshot", "click", "doubleClick", "scroll", "type", "wait", "move", "keypress", "drag"];
    const computer = recorder(names, () => IMAGE);
    const actions = [{ type: "click", x: 1, y: 2, button: "left" }, { type: "type", text: "hi" }];
    const calls = [["computer", { actions: [{ type: "screenshot" }] }], ["computer", { actions }]];
    await run([computerTool({ computer })], calls, ["data:image/png;base64,"]);
    const done = computer.done.filter(([name]) => name !== "screenshot").map(([name, ...values]) => [name, values[0]]);
    assert.deepEqual(done, [["click", 1], ["type", "hi"]]);
  },

  async "tool search"(run) {
    const weather = recorder(["run"], () => "RESULT");
    const deferred = tool({
      name: "get_weather",
      description: "Weather of a city.",
      parameters: z.object({ city: z.string() }),
      deferLoading: true,
      execute: weather.run,
    });
    const calls = [["tool_search", { paths: ["get_weather"] }], ["get_weather", { city: "Paris" }]];
    await run([deferred, toolSearchTool({ execution: "client" })], calls, ["RESULT"]);
    assert.deepEqual(weather.done.map(([, { city }]) => city), ["Paris"]);
  },
};

for (const model of ["plays-native", "plays-hermes"]) {
  for (const stream of [false, true]) {
    const way = `${model}, ${stream ? "streamed" : "whole"}`;
    for (const [name, play] of Object.entries(TOOLS)) {
      test(`the Agents SDK's ${name}: ${way}`, async () => {
        await play(async (tools, calls, results) => {
          assert.equal(await runs(model, stream, tools, calls), ANSWER);
          await checkTold(calls, results);
        });
      });
    }

    test(`anthropic's memory: ${way}`, async (t) => {
      const folder = await mkdtemp(join(tmpdir(), "memory-"));
      t.after(() => rm(folder, { recursive: true }));
      const calls = [
        ["memory", { command: "create", path: "/memories/a.txt", file_text: "one\n" }],
        ["memory", { command: "rename", old_path: "/memories/a.txt", new_path: "/memories/b.txt" }],
        ["memory", { command: "view", path: "/memories" }],
      ];
      const runner = anthropicClient().beta.messages.toolRunner({
        model,
        max_tokens: 500,
        messages: [{ role: "user", content: play(calls) }],
        tools: [betaMemoryTool(await BetaLocalFilesystemMemoryTool.init(folder))],
        stream,
      });
      const message = await runner.runUntilDone();
      assert.equal(message.content[0].text, ANSWER);
      assert.equal(await readFile(join(folder, "memories/b.txt"), "utf8"), "one\n");
      await checkTold(calls, ["b.txt"]);
    });
  }
}
