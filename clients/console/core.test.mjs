// The parts of the page that do not use the DOM.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { made } from "./bundle.mjs";

const core = (file) => import(`../../crates/admin/src/console/page/core/${file}`);
const { Parser } = await core("sse.js");
const { effect, flush, signal } = await core("store.js");
const { inline, parse, Stream } = await core("markdown.js");
const { ago, absolute, backoff, bytes, count, duration, percent, readable } = await core("time.js");
const { cell, chatRows, csv, curl, markdown, python, quoted, typescript } = await core("exports.js");
const { Exchanges, filter, folded, KEPT, kindOf, partsOf, Replay, textOf, written } = await core("exchange.js");
const { hasSecret, imagePath, matches, safeUrl, visible, webUrl } = await core("text.js");
const { compact, pointer, read } = await core("tokens.js");
const { field, numberText } = await core("schema.js");
const { joined, lastAt, until } = await core("analysis.js");
const { href, parse: parseRoute } = await core("route.js");
const { packed, unpacked } = await core("link.js");
const { tallied } = await core("tally.js");
const { advice } = await core("advice.js");

test("the bundle is the one of the sources", async () => {
  for (const [name, text] of Object.entries(await made())) {
    assert.ok(text === (await readFile(new URL(`../../crates/admin/src/console/bundle/${name}`, import.meta.url), "utf8")), `${name} is old: node clients/console/bundle.mjs`);
  }
});

test("events are the same for every split", () => {
  const text = ": hello\r\nid: 7\r\nevent: a\ndata: ü1\r\ndata:2\n\n\rdata\r\revent: b\ndata: {\"x\":1}\n\nid\0: no\ndata: last\r\n\r\ndata: never ended\n";
  const whole = new TextEncoder().encode(text);
  const all = (pieces) => {
    const parser = new Parser();
    return pieces.flatMap((piece) => parser.push(piece));
  };
  const expected = [{ name: "a", data: "ü1\n2", id: "7" }, { name: "message", data: "", id: "7" }, { name: "b", data: '{"x":1}', id: "7" }, { name: "message", data: "last", id: "7" }];
  assert.deepEqual(all([whole]), expected);
  for (let at = 1; at < whole.length; at++) assert.deepEqual(all([whole.subarray(0, at), whole.subarray(at)]), expected, `split at ${at}`);
  assert.deepEqual(all([...whole].map((byte) => Uint8Array.of(byte))), expected);
});

test("effects run once for several changes, and stop", () => {
  const [one, two] = [signal(1), signal(2)];
  const seen = [];
  const stop = effect(() => seen.push(one.value + two.value));
  one.value = 10;
  two.value = 20;
  flush();
  assert.deepEqual(seen, [3, 30]);
  one.value = 10;
  flush();
  assert.equal(seen.length, 2, "an equal value is no change");
  stop();
  one.value = 5;
  flush();
  assert.equal(seen.length, 2);
});

const DOCUMENT = "# Title *x*\n\nA paragraph\nof two lines with `code`, **bold** and [a link](https://a.example/b_(c)).\n\n- one\n- two\n  - deep\n\n  more of two\n- [x] done\n\n3. three\n4. four\n\n> quote\n> - in it\n\n| a | b |\n|---|:-:|\n| 1 \\| 2 | `x` |\n\n```rust\nfn main() {\n\n}\n```\n---\n~~~\nopen fence\n\nof many\n";

test("a document is the same for every split", () => {
  const expected = parse(DOCUMENT);
  assert.deepEqual(expected.map(({ kind }) => kind), ["heading", "paragraph", "list", "list", "quote", "table", "code", "rule", "code"]);
  const plain = (blocks) => JSON.stringify(blocks, (key, value) => (key === "isClosed" ? undefined : value));
  const streamed = (pieces) => {
    const stream = new Stream();
    for (const piece of pieces) {
      stream.push(piece);
      stream.open();
    }
    return stream.finish();
  };
  const text = DOCUMENT.trimEnd();
  const whole = plain(streamed([text]));
  assert.equal(whole, plain(parse(text)));
  for (let at = 1; at < text.length; at++) assert.equal(plain(streamed([text.slice(0, at), text.slice(at)])), whole, `split at ${at}`);
  assert.equal(plain(streamed([...text])), whole);
});

test("closed blocks do not change while more text comes", () => {
  const stream = new Stream();
  const seen = [];
  for (const char of DOCUMENT) {
    stream.push(char);
    seen.forEach((block, at) => assert.equal(stream.closed[at], block));
    seen.push(...stream.closed.slice(seen.length));
  }
  assert.ok(seen.length >= 7);
});

test("markup of documents is text unless it is a known element", () => {
  assert.deepEqual(inline("<b onclick=x>hi</b> $x_1$ 2*3 snake_case_name"), ["<b onclick=x>hi</b> $x_1$ 2*3 snake_case_name"]);
  assert.deepEqual(inline("**a *b* c**"), [{ kind: "strong", children: ["a ", { kind: "emphasis", children: ["b"] }, " c"] }]);
  assert.deepEqual(inline("[x](javascript:alert)")[0].url, "javascript:alert", "the view refuses it");
  assert.deepEqual(inline("**open"), ["**open"]);
  assert.deepEqual(inline("`` a`b ``"), [{ kind: "code", text: "a`b" }]);
  assert.deepEqual(inline("see https://a.example/x."), ["see ", { kind: "link", url: "https://a.example/x", children: ["https://a.example/x"] }, "."]);
});

test("hostile documents take linear time", () => {
  // Each input would take minutes if parsing were quadratic.
  const size = 400_000;
  for (const piece of ["*a ", "[", "`a``b", "![", "_*~~", "](", "<h"]) inline(piece.repeat(size / piece.length));
  for (const piece of [">", "- ", "|a\n", "\n- x\n\n", "#\n", "```\n"]) parse(piece.repeat(size / piece.length));
  const stream = new Stream();
  for (let at = 0; at < 20_000; at++) {
    stream.push("- a line of a very long list\n");
  }
  assert.equal(stream.finish().length, 1);
});

test("times, sizes and counts are short", () => {
  assert.deepEqual([ago(0, 4000), ago(0, 61_000), ago(5000, 0), ago(0, 7_200_000), ago(0, 200_000_000)], ["4s", "1m", "0s", "2h", "2d"]);
  assert.equal(absolute(0, true), "1970-01-01 00:00:00 UTC");
  assert.match(absolute(0), / UTC[+-]\d\d:\d\d$/);
  assert.deepEqual([duration(212), duration(2940), duration(60_000), duration(61_000), duration(null), duration(3_600_000), duration(3_700_000)], ["212 ms", "2.94 s", "1 min", "1:01 min", "–", "1 h", "1:01 h"]);
  assert.deepEqual([bytes(5), bytes(2048), bytes(3 << 20), count(1204), count(1_900_000), count(0), percent(0.004), percent(0.5)], ["5 B", "2.0 KB", "3.0 MB", "1,204", "1.9 M", "0", "0.4 %", "50 %"]);
});

test("durations and sizes of the configuration are as people write them", () => {
  const pairs = { "604800s": "7d", "43200s": "12h", "60s": "1m", "90s": "90s", "0s": "0s", "250ms": "250ms", "60/60s": "60/1m", "100000B": "100 kB", "1500B": "1500 B", "10MiB": "10 MiB", off: "off", "5 bananas": "5 bananas", "": "", "12": "12" };
  for (const [text, expected] of Object.entries(pairs)) assert.equal(readable(text), expected);
});

test("every error says what to do", () => {
  assert.deepEqual(advice({ code: "loop" }), { what: "The same call was made again and again.", todo: "The model was told to answer without it. Ask in other words.", link: null });
  assert.deepEqual(advice({ code: "upstream_protocol" }, { exchange: "ex_1" }).link, ["#/live/ex_1", "See what was sent"]);
  assert.deepEqual(advice({ code: "invalid_json", message: "no JSON at 3" }).what, "no JSON at 3");
  // Upstreams have codes of their own.
  for (const code of ["constructor", "__proto__", "who_knows", undefined]) {
    assert.match(advice({ code, message: "m" }).todo, /^See what was sent/);
    assert.equal(advice({ code, status: 503 }).todo, "Try again in a moment.");
  }
});

test("only addresses of the web become links of results", () => {
  assert.equal(webUrl("https://a.example/x").href, "https://a.example/x");
  assert.equal(webUrl("http://a.example").host, "a.example");
  for (const wrong of ["javascript:alert(1)", "data:text/html,x", "mailto:a@b.example", "blob:https://a.example/1", "//a.example", "/x", "", null, 7, {}, " java\nscript:x"]) assert.equal(webUrl(wrong), null);
});

test("waits double up to half a minute, and differ", () => {
  assert.equal(backoff(0, 0.5), 500);
  assert.equal(backoff(3, 0.5), 4000);
  assert.equal(backoff(50, 0.5), 30_000);
  assert.deepEqual([backoff(50, 0), backoff(50, 1)], [15_000, 45_000]);
});

test("cells of spreadsheets run nothing", () => {
  for (const text of ["=1+1", "+1", "-1", "@x", "\tx", "\rx"]) assert.ok(cell(text).replace(/^"/, "").startsWith("'"), text);
  assert.deepEqual([cell(-5), cell('a"b'), cell("a,b"), cell(null)], ["-5", '"a""b"', '"a,b"', ""]);
  assert.equal(csv([["a", 1], ["b", null]]), "a,1\r\nb,\r\n");
});

test("code names a variable in place of a key", () => {
  assert.equal(quoted("it's"), "'it'\\''s'");
  for (const dialect of ["chat", "responses", "messages", "gemini", "ollama"]) {
    const messages = [{ role: "user", content: "it's $HOME" }];
    assert.match(curl("http://a.example/", dialect, "m", messages), /\$TOOLWIRE_API_KEY/);
    assert.ok(curl("http://a.example/", dialect, "m", messages).includes("it'\\''s $HOME"));
    assert.match(python("http://a.example", dialect, "m", messages), /os\.environ\["TOOLWIRE_API_KEY"\]/);
    assert.match(typescript("http://a.example", dialect, "m", messages), /(baseURL|baseUrl|host): "http:\/\/a\.example(\/v1)?"/);
    assert.match(typescript("http://a.example", dialect, "m", messages), /process\.env\.TOOLWIRE_API_KEY/);
  }
  assert.match(curl("http://a.example", "gemini", "m", []), /\/v1beta\/models\/m:streamGenerateContent\?alt=sse'[^]*\{"contents":\[\]\}/);
  assert.match(curl("http://a.example/x/", "messages", "m", []), /'http:\/\/a\.example\/x\/v1\/messages'/);
});

test("a chat becomes Markdown whose fences hold its calls", () => {
  const text = markdown({ title: "T", turns: [{ role: "user", text: "hi" }, { role: "model", model: "m", parts: [{ kind: "text", text: "yes" }, { kind: "call", name: "f", input: { a: "```" }, result: "r" }, { kind: "error", message: "no" }] }] });
  assert.ok(text.includes("## You\n\nhi") && text.includes("````json") && text.includes("> no"));
});

test("a chat becomes rows of what was said, called and returned", () => {
  const chat = { turns: [{ role: "user", text: "=1+1" }, { role: "model", model: "m", exchange: "ex_1", parts: [{ kind: "reasoning", text: "hm" }, { kind: "text", text: "yes" }, { kind: "call", name: "f", input: { a: 1 }, result: "r", ms: 5 }, { kind: "error", code: "timeout", message: "no" }] }] };
  const [head, ...rows] = chatRows(chat);
  assert.deepEqual(head, ["turn", "role", "model", "kind", "name", "text", "result", "code", "ms", "exchange"]);
  assert.deepEqual(rows.map((row) => row.slice(0, 9).map((own) => own ?? "")), [
    [1, "user", "", "text", "", "=1+1", "", "", ""],
    [2, "model", "m", "reasoning", "", "hm", "", "", ""],
    [2, "model", "m", "text", "", "yes", "", "", ""],
    [2, "model", "m", "call", "f", '{"a":1}', "r", "", 5],
    [2, "model", "m", "error", "", "no", "", "timeout", ""],
  ]);
  assert.match(csv([rows[0]]), /'=1\+1/, "a spreadsheet runs nothing of it");
});

test("calls and failures of tools are read out of the metrics", () => {
  const text = '# HELP x\ntoolwire_hosted_calls_total{tool="a",provider="p",code="ok"} 4\ntoolwire_hosted_calls_total{tool="a",provider="p",code="timeout"} 2\ntoolwire_hosted_calls_total{code="ok",tool="b\\"c"} 1\ntoolwire_other{tool="a"} 9\n';
  assert.deepEqual([...tallied(text)], [["a", { calls: 6, failed: 2 }], ['b"c', { calls: 1, failed: 0 }]]);
});

test("exchanges follow the feed, newest first", () => {
  const own = new Exchanges();
  const t = 1000;
  own.apply("message_start", { t, exchange: "ex_1", model: "a", client: "chat", upstream: "u" });
  own.apply("message_start", { t: t + 1, exchange: "ex_2", model: "b" });
  own.apply("hop_start", { t, exchange: "ex_1", hop: 1 });
  own.apply("hop_start", { t, exchange: "ex_1", hop: 5, purpose: "vision" });
  own.apply("message_update", { t: t + 100, exchange: "ex_1", hop: 1, bytes: 5, tokens: 2, held: 1, content: "ab" });
  own.apply("message_update", { t: t + 200, exchange: "ex_1", hop: 1, bytes: 9, tokens: 4, held: 0, content: "cd" });
  own.apply("tool_use", { t, exchange: "ex_1", hop: 1, toolCall: { name: "f" } });
  own.apply("message_complete", { t: t + 1100, exchange: "ex_1", finish: "stop", usage: { completion_tokens: 40 }, ms: 1100, ttft_ms: 100 });
  own.apply("error", { t: t + 50, exchange: "ex_2", error: { code: "cancelled" } });
  assert.equal(own.apply("permission_request", { exchange: "ex_3" }), false);
  const [two, one] = own.rows;
  own.merge([{ id: "ex_u", t: 0, upstream: "known", upstream_dialect: "lumo" }]);
  own.apply("message_start", { t: t + 2, exchange: "ex_k", model: "a", client: "chat", upstream: "known" });
  own.apply("message_update", { t: t + 1002, exchange: "ex_k", bytes: 5, tokens: 2 });
  own.apply("message_update", { t: t + 3002, exchange: "ex_k", bytes: 9, tokens: 40 });
  assert.deepEqual([own.byId.get("ex_k").upstream_dialect, own.byId.get("ex_k").tokens_per_s], ["lumo", 20], "what the list has said of an upstream, and the speed so far");
  for (const id of ["ex_k", "ex_u"]) {
    own.rows.splice(own.rows.findIndex((row) => row.id === id), 1);
    own.byId.delete(id);
  }
  assert.deepEqual([one.id, one.state, one.hops, one.calls, one.ttft_ms, one.tokens_per_s, one.held], ["ex_1", "done", 1, 1, 100, 40, 0]);
  assert.deepEqual([two.id, two.state, two.code], ["ex_2", "cancelled", "cancelled"]);
  assert.equal(own.events.get("ex_1").find(({ kind }) => kind === "message_update").content, "abcd");
  own.merge([{ id: "ex_1", t, state: "done", finish: "stop", calls: 3 }, { id: "ex_0", t: 1, state: "done" }]);
  assert.deepEqual(own.rows.map(({ id }) => id), ["ex_2", "ex_1", "ex_0"]);
  assert.equal(own.byId.get("ex_1").calls, 3);
  for (let at = 0; at < KEPT + 50; at++) own.apply("message_start", { t: t + 10 + at, exchange: `x${at}` });
  assert.deepEqual([own.rows.length, own.byId.size], [KEPT, KEPT]);
});

test("filters match names, numbers and text", () => {
  const row = { id: "ex_1", model: "qwen3-32b", key: "team a", client: "messages", state: "error", hops: 2, calls: 0, ttft_ms: null, code: "timeout" };
  for (const query of ["", "model:qwen*", "hops:>1", "-state:done state:error", "timeout", "calls:0", 'key:"team a"', "QWEN3", "hops:>=2 hops:<=2", "-ttft:>1"]) assert.ok(filter(query)(row), query);
  for (const query of ["model:qwen", "hops:>2", "-state:error", "nothing", "ttft:>1", "ttft:<1", "key:team"]) assert.ok(!filter(query)(row), query);
  for (const [query, at] of [["x nope:1", 2], ["hops:many", 0]]) assert.throws(() => filter(query), { at });
  assert.ok(!matches("a.c", "abc") && matches("A*C", "abc"));
});

test("a replay is the same by steps and by jumps", () => {
  const rows = Array.from({ length: 1000 }, (_, n) => ({ n: n + 1, t_ms: n * 10 + (n > 500 ? 9000 : 0), held: n % 7 ? 0 : 3, out: n % 7 ? [{ kind: "text", text: String(n % 10) }] : [{ kind: "call_start", call: n }] }));
  const one = new Replay(rows);
  let steps = null;
  for (let n = 0; n <= 1000; n++) steps = one.at(n);
  assert.deepEqual(new Replay(rows).at(1000), steps);
  assert.deepEqual(one.at(300), new Replay(rows).at(300));
  assert.deepEqual([steps.calls, steps.client.length], [143, 857]);
  assert.deepEqual([one.gap(1, 1), one.gap(501, 1), one.gap(1, 4), one.gap(1, Infinity), one.gap(1000, 1)], [10, 2000, 2.5, 0, 0]);
});

test("texts are read out of the frames of every dialect", () => {
  const frame = (...data) => data.map((own) => `event: x\ndata: ${typeof own === "string" ? own : JSON.stringify(own)}\n\n`).join("");
  assert.equal(textOf({ frame: frame({ choices: [{ delta: { content: "a" } }] }, "[DONE]") }), "a");
  assert.equal(textOf({ frame: frame({ type: "content_block_delta", delta: { type: "text_delta", text: "b" } }, { delta: { thinking: "c" } }) }), "bc");
  assert.equal(textOf({ frame: frame({ type: "response.output_text.delta", delta: "d" }) }), "d");
  assert.deepEqual([textOf({}), textOf({ frame: frame({ choices: [] }, { delta: { stop_reason: "end" } }) }), textOf({ text: "e" })], ["", "", "e"]);
});

test("runs of text fold, and open again", () => {
  const text = { out: [{ kind: "text", text: "a" }] };
  const rows = [...Array(8).fill(text), { out: [{ kind: "call_start" }] }, ...Array(3).fill(text)].map((own, n) => ({ ...own, n: n + 1 }));
  assert.deepEqual(folded(rows), [{ from: 0, to: 8, run: 1 }, { at: 8 }, { at: 9 }, { at: 10 }, { at: 11 }]);
  assert.equal(folded(rows, new Set([1])).length, 12);
  const long = Array.from({ length: 40 }, (_, index) => ({ ...rows[0], n: index + 1 }));
  const near = folded(long, new Set(), 20);
  assert.deepEqual([near[0], near.at(-1), near.length], [{ from: 0, to: 15, run: 1 }, { from: 24, to: 40, run: 1 }, 11], "what is played is shown");
  assert.deepEqual(folded(long, new Set(), 40).at(-1), { at: 39 }, "and so is what arrives");
  assert.deepEqual([kindOf(rows[8]), kindOf({ out: [], held: 3 }), kindOf({ out: [{ kind: "error" }] })], ["call", "held", "failed"]);
});

test("what a model wrote is put together by hops, and what was covered keeps its length", () => {
  const row = (n, hop, text, from, length = Buffer.byteLength(text)) => ({ n, hop, text_at: [from, from + length], raw: `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n` });
  const rows = [row(1, 1, "é<call>", 0), row(2, 1, "[covered]", 8, 4), row(3, 1, "</call>", 12), { n: 4, hop: 1, raw: "data: [DONE]\n\n" }, row(5, 2, "ok", 0), { n: 6, hop: 2, bytes: 3, text_at: [2, 5] }];
  const calls = [{ call: 1, hop: 1, name: "x", format: "f", ranges: { closer: [12, 19], opener: [2, 8], name: null } }, { call: 2, hop: 2, name: "y" }];
  const [one, two] = written(rows, calls);
  assert.equal(new TextDecoder().decode(one.bytes), "é<call>####</call>");
  assert.deepEqual([1, 8, 12, 18].map(one.rowAt), [1, 2, 3, 3]);
  assert.deepEqual(partsOf(one.calls).map(({ kind, range, why }) => [kind, range, why]), [["opener", [2, 8], "opener of call 1, x"], ["closer", [12, 19], "closer of call 1, x"]]);
  assert.deepEqual([new TextDecoder().decode(two.bytes), two.calls], ["ok", []]);
  assert.deepEqual(written([{ n: 1, bytes: 3 }], calls), []);
});

test("an analysis is cut where the text was", () => {
  const events = [{ kind: "text", text: "I käme", at: 1, step: 1 }, { kind: "text", text: " now", at: 14, step: 0 }, { kind: "call_start", name: "f", call: 1, at: 20 }, { kind: "arguments", text: "{}", call: 1, at: 22, step: 1 }, { kind: "call_end", call: 1, end: "complete", at: 25 }];
  const texts = (cut) => until(events, cut).map(({ text }) => text).join("");
  assert.deepEqual([texts(0), texts(1), texts(3), texts(4), texts(5), texts(7), texts(14)], ["", "I", "I k", "I k", "I kä", "I käme", "I käme now"]);
  assert.deepEqual([lastAt(until(events, 3)), lastAt(until(events, 10)), lastAt(events), lastAt([])], [3, 7, 25, 0]);
  assert.deepEqual(joined(events), [{ kind: "text", text: "I käme now" }, { kind: "call", number: 1, name: "f", text: "{}", end: "complete" }]);
});

test("invisible characters are shown", () => {
  assert.equal(visible("a\u001b[0m\u202e\u200bb\n\tc"), "a␛[0m\\u202e\\u200bb\n\tc");
  assert.equal(safeUrl("javascript:alert(1)"), null);
  assert.equal(safeUrl("data:text/html,x"), null);
  assert.equal(safeUrl("https://a.example/").host, "a.example");
});

test("only pictures of this server are pictures", () => {
  const origin = "http://127.0.0.1:1";
  assert.equal(imagePath("/api/images/a_1.png", origin), "api/images/a_1.png");
  assert.equal(imagePath(`${origin}/api/images/a.png`, origin), "api/images/a.png");
  const name = "20261123_081500_0123456789abcdef0123456789abcdef.png";
  for (const base of ["http://127.0.0.1:8787", "https://tools.example/below/this"]) assert.equal(imagePath(`${base}/api/images/${name}`, origin), `api/images/${name}`, "this server is asked, behind whatever proxy");
  for (const path of [`https://evil.example/?x=/api/images/${name}`, `ftp://evil.example/api/images/${name}`, "https://evil.example/api/images/a.png", "/api/images/../x", "/api/images/a/b.png", "/api/images/", "//evil/api/images/a.png"]) assert.equal(imagePath(path, origin), null, path);
});

test("keys in shared texts are noticed", () => {
  for (const text of ["sk-abcdefghijklmnop", "Authorization: Bearer abcdefghijklmnopqrst", "AKIAABCDEFGHIJKLMNOP"]) assert.ok(hasSecret(text), text);
  assert.ok(!hasSecret("I will look it up with web_search."));
});

test("JSON keeps its digits, its order and its repeated keys", () => {
  const text = '{"a": 2.50, "b": 12345678901234567890, "a": [true, null, "\\u00e4"], "o": {}}';
  const node = read(text);
  assert.deepEqual(node.entries.map(({ key }) => key), ["a", "b", "a", "o"]);
  assert.equal(node.entries[0].node.raw, "2.50");
  assert.equal(compact(node), text.replaceAll(" ", ""));
  assert.equal(pointer("a/b~c"), "a~1b~0c");
  for (const [wrong, at] of [["{", 1], ["[1,]", 3], ['{"a" 1}', 5], ["01", 1], ["", 0], ["tru", 0], ['"\u0001"', 0], ["[1 2]", 3], ["1 1", 2]]) {
    assert.throws(() => read(wrong), (error) => Number.isInteger(error.at) && Math.abs(error.at - at) <= 1, wrong);
  }
  assert.throws(() => read("[".repeat(10_000)), /depth/);
});

test("schemas become fields, and what is not understood becomes JSON", () => {
  const kind = (schema) => field(schema).kind;
  assert.deepEqual([kind({ type: "string" }), kind({ type: "integer" }), kind({ type: "boolean" }), kind({ enum: [1] }), kind({ const: 1 }), kind({ type: "array", items: { type: "string" } })], ["text", "number", "switch", "choice", "const", "list"]);
  assert.deepEqual([kind({}), kind(true), kind({ type: ["string", "number"] }), kind({ allOf: [] }), kind({ type: "array" })], Array(5).fill("json"));
  const union = field({ anyOf: [{ type: "integer", minimum: 1 }, { type: "null" }] });
  assert.deepEqual([union.kind, union.min, union.isNullable], ["number", 1, true]);
  assert.equal(field({ oneOf: [{ type: "string" }, { type: "integer" }] }).variants.length, 2);
  const loop = { $defs: { node: { type: "object", properties: { next: { $ref: "#/$defs/node" } } } }, $ref: "#/$defs/node" };
  assert.equal(field(loop).fields[0].kind, "json");
  const root = { type: "object", required: ["q"], properties: { q: { type: "string" }, bad: { if: {} } } };
  assert.deepEqual(field(root).fields.map((own) => [own.key, own.kind, own.isRequired]), [["q", "text", true], ["bad", "json", false]]);
  assert.deepEqual([numberText("2.50"), numberText(" 7 "), numberText("1e3"), numberText("0x1"), numberText("1,5"), numberText("")], ["2.50", "7", "1e3", null, null, null]);
});

test("addresses of pages are read as they were written", () => {
  assert.equal(href("live", "ex/1", { q: "a b", at: 0, none: "" }), "#/live/ex%2F1?q=a+b&at=0");
  const route = parseRoute("#/live/ex%2F1?q=a+b&at=0");
  assert.deepEqual([route.page, route.id, route.query.get("q")], ["live", "ex/1", "a b"]);
  assert.deepEqual([parseRoute("").page, parseRoute("#/nothing").page, parseRoute("#/live/%").id], ["live", "live", "%"]);
});

test("links hold a text, within limits", async () => {
  const value = { format: "auto", text: "ü <tool_call>", tools: "a" };
  const link = await packed(value);
  assert.match(link, /^[-\w]+$/);
  assert.deepEqual(await unpacked(link), { v: 1, ...value });
  let noise = "";
  for (let at = 0, seed = 1; at < 40_000; at++) noise += String.fromCharCode(33 + ((seed = (seed * 48271) % 2147483647) % 90));
  assert.equal(await packed({ text: noise }), null);
  await assert.rejects(unpacked(await packed({ text: "a".repeat(2 << 20) })), /too much/);
  await assert.rejects(unpacked("AAAA"));
});
