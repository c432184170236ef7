// Plays every fixture to every client, streaming and not. Each client must receive what the fixture expects.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CLIENTS, STAND } from "./sdk.mjs";

// Ids that toolwire generates.
const OURS = /^call_[0-9A-Za-z]{24}$/;

// Known failures, with the reasons.
const KNOWN = {
  "streamed: openai-helper, v2-interleaved":
    "calls whose deltas mix reach the client so; the helper takes the first for done",
};

const unlessKnown = (title, run) => test(title, { todo: KNOWN[title] ?? false }, run);

for (const client of CLIENTS) {
  for (const { name, request, expect } of STAND.cases) {
    const functions = "functions" in request;
    if (functions && !client.speaksFunctions) continue;
    if (request.stream) {
      unlessKnown(`streamed: ${client.name}, ${name}`, async () => {
        const answer = await client.stream(request);
        if (!expect.error) return check(client, answer, expect, functions);
        checkError(client, answer, expect.error);
        assert.equal(answer.text, expect.text ?? "");
      });
    }
    if (client.whole) {
      unlessKnown(`whole: ${client.name}, ${name}`, async () => {
        const answer = await client.whole(request);
        if (expect.error) checkError(client, answer, expect.error);
        else check(client, answer, expect, functions);
      });
    }
  }
}

function check(client, answer, expect, functions) {
  assert.equal(answer.error, null);
  const sees = (member) => client.sees.includes(member);
  // The AI SDK treats a refusal as text.
  const text = sees("refusal") ? (expect.text ?? "") : (expect.text ?? "") + (expect.refusal ?? "");
  assert.equal(answer.text, text);
  if (sees("reasoning")) assert.equal(answer.reasoning, expect.reasoning ?? "");
  if (sees("refusal")) assert.equal(answer.refusal, expect.refusal ?? "");
  assert.equal(answer.finish, expect.finish);
  checkCalls(answer, expect.calls ?? [], functions);
  if (sees("results")) assert.deepEqual(answer.results.map(plain), expect.results ?? []);
  for (const count of ["prompt_tokens", "completion_tokens", "total_tokens"]) {
    if (expect.usage?.[count] !== undefined) assert.equal(answer.usage[count], expect.usage[count]);
  }
}

function checkCalls({ calls, told }, expected, functions) {
  const meaning = (call) => [call.name, parsed(call.arguments)];
  assert.deepEqual(calls.map(meaning), expected.map(meaning));
  expected.forEach(({ id }, index) => {
    if (id) assert.equal(calls[index].id, id);
    else if (functions) assert.equal(calls[index].id, null);
    else assert.match(calls[index].id, OURS);
  });
  if (told && !functions) {
    const done = calls.map((call) => [call.name, call.arguments]);
    assert.deepEqual(told.calls, done, "the helper said of each call, once and in order, that it is done");
  }
}

function checkError(client, { error, finish }, expect) {
  assert.ok(error, "a broken answer looks like a good one");
  assert.equal(finish, null);
  assert.ok(error.message.includes(expect.message ?? ""), error.message);
  for (const member of client.seesOfErrors) {
    if (member in expect) assert.equal(error[member], expect[member]);
  }
}

/** Parses arguments. Returns truncated arguments as text. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A result with its call: the call's index, or its name and arguments if the client gets call and result together. */
const plain = ({ index, name, arguments: args, content, is_error }) => ({
  ...(name === undefined ? { call: index } : { name, arguments: args }),
  content,
  ...(is_error ? { is_error } : {}),
});
