// The admin API's responses in the tests of pages. They are fixed, so that pages look the same in every run, and contain hostile texts.

export const HOSTILE = [
  "<img src=x onerror=alert(1)>",
  "<script>alert(1)</script>",
  '"><svg onload=alert(1)>',
  "javascript:alert(1)",
  "\u001b[31mred\u001b[0m\u0007",
  "\u202Etxt.exe\u200b\ufeff",
  "{{constructor.constructor('alert(1)')()}}",
  "a".repeat(300),
].join(" ");

const NOW = Date.now();
const row = (id, more) => ({ id, request: `req_${id}`, t: NOW - 4000, key: "team-a", model: "qwen3-32b", client: "messages", upstream: "local", upstream_dialect: "chat", state: "done", hops: 2, calls: 3, client_calls: 1, hosted_calls: 2, tools: ["web_search", "scrape"], formats: ["hermes"], ttft_ms: 212, tokens_per_s: 48.1, ms: 2940, captured: "redacted", finish: "stop", ...more });

export const ROWS = [
  row("ex_7f3a", { state: "running", ms: 2940, finish: undefined }),
  row("ex_11aa", { model: "lumo-max", client: "chat", upstream: "lumo", upstream_dialect: "lumo", hops: 1, calls: 1, client_calls: 1, hosted_calls: 0, tools: ["get_weather"], formats: ["pythonic"], ttft_ms: 388, tokens_per_s: 39, ms: 6100, t: NOW - 12_000, key: null }),
  row("ex_22bb", { model: "local-8b", client: "responses", upstream: "ollama", state: "error", code: "upstream_timeout", hops: 1, calls: 0, client_calls: 0, hosted_calls: 0, tools: [], formats: [], ttft_ms: null, tokens_per_s: null, ms: 90_000, t: NOW - 60_000, finish: undefined }),
  row("ex_33cc", { model: HOSTILE, key: HOSTILE, upstream: HOSTILE, tools: [HOSTILE], formats: [HOSTILE], t: NOW - 70_000 }),
  ...Array.from({ length: 30 }, (_, index) => row(`ex_o${index}`, { t: NOW - 80_000 - index * 1000, ms: 900 + index * 37, tokens_per_s: 40 + (index % 9) })),
];

const said = ["I will", " look", " it", " up", ". First", " the", " release", " notes", ".", " <tool", "_call>\n{\"name\": ", "\"web_search\", ", "\"arguments\": {\"query\": ", "\"newest rust\"}}\n", "</tool_call>"];
export const EVENTS = said.map((text, n) => {
  const held = n >= 9 && n < 12 ? [5, 22, 36][n - 9] : 0;
  const frame = (data) => `event: content_block_delta\ndata: ${JSON.stringify(data)}\n\n`;
  const out = n < 9 ? [{ kind: "text", bytes: text.length, frame: frame({ delta: { text } }) }] : n === 12 ? [{ kind: "call_start", call: 1, name: "web_search", frame: frame({ name: "web_search" }) }] : n === 13 ? [{ kind: "arguments", call: 1, bytes: 24, frame: frame({ delta: { partial_json: '{"query": "newest rust"}' } }) }] : n === 14 ? [{ kind: "call_end", call: 1, frame: frame({}) }] : [];
  const from = Buffer.byteLength(said.slice(0, n).join(""));
  return { n: n + 1, hop: 1, t_ms: 212 + n * 27, text_at: [from, from + Buffer.byteLength(text)], raw: `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ delta: { content: text } }] })}\n\n`, read: [{ kind: "text", text }], out, held, held_since: held ? 10 : null };
});

const wrote = Buffer.from(said.join(""));
const rangeOf = (text) => [wrote.indexOf(text), wrote.indexOf(text) + Buffer.byteLength(text)];
// The second hop: a native answer after the hosted calls.
EVENTS.push(...["The newest", " release is", " 1.95."].map((text, index) => ({ n: said.length + index + 1, hop: 2, t_ms: 1900 + index * 30, text_at: [10 * index, 10 * index + Buffer.byteLength(text)], raw: `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`, read: [{ kind: "text", text }], out: [{ kind: "text", bytes: text.length, frame: `event: content_block_delta\ndata: ${JSON.stringify({ delta: { text } })}\n\n` }], held: 0, held_since: null })));
const CALLS = [{ call: 1, hop: 1, name: "web_search", format: "hermes", hosted: true, declared: true, valid: true, ranges: { opener: rangeOf("<tool_call>"), name: rangeOf("web_search"), arguments: rangeOf('{"query": "newest rust"}'), closer: rangeOf("</tool_call>") } }];

// What the client asked, what the model was sent in two hops, and two hosted calls between them.
const ASKED = [{ role: "user", content: "Find the newest Rust release, and say what is new in it." }];
const TAUGHT = "You may call tools. Write a call as <tool_call>{\"name\": …, \"arguments\": …}</tool_call>.";
const BODIES = [
  { model: "qwen3:32b", stream: true, messages: [{ role: "system", content: TAUGHT }, ...ASKED] },
  { model: "qwen3:32b", stream: true, messages: [{ role: "system", content: TAUGHT }, ...ASKED, { role: "assistant", content: said.join("") }, { role: "tool", content: `{"results":[${JSON.stringify(HOSTILE)}]}` }] },
].map((body) => JSON.stringify(body));
const CLIENT = JSON.stringify({ model: "qwen3-32b", max_tokens: 4096, messages: ASKED, tools: [{ name: "get_weather", description: "The weather of a city", input_schema: { type: "object", properties: { city: { type: "string" } } } }] });
export const REQUESTS = {
  exchange: "ex_7f3a", captured: "redacted", client: { dialect: "messages", bytes: CLIENT.length, body: CLIENT },
  requests: BODIES.map((body, index) => ({ hop: index + 1, t_ms: index * 1300, dialect: "chat", bytes: body.length, body })),
  hosted: [
    { id: "call_1", name: "web_search", hosted: true, hop: 1, input_bytes: 24, ok: true, code: null, ms: 640, cached: false, arguments: '{"query":"newest rust"}', result: JSON.stringify({ results: [{ title: HOSTILE, url: "https://blog.example/" }] }) },
    { id: "call_2", name: "scrape", hosted: true, hop: 1, input_bytes: 40, ok: false, code: "timeout", ms: 30_000, cached: false, arguments: JSON.stringify({ url: HOSTILE }), result: HOSTILE },
  ],
  rewrite: { options: ["--from", "chat", "--to", "messages", "--detect", "hermes", "--tool-prefix", "it's: "], others: ["max_calls"] },
};

const json = (response, body, status = 200) => response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" }).end(JSON.stringify(body));

const totals = (requests, more) => ({ requests, errors: { upstream_timeout: Math.round(requests / 300) }, cancelled: 2, input_tokens: requests * 700, output_tokens: requests * 300, tokens_per_s: 46.2, ttft_ms: { p50: 212, p95: 640 }, duration_ms: { p50: 2900, p95: 7100 }, calls: Math.round(requests / 2), retries: 12, ...more });

function metrics() {
  const t = Date.now(), minute = Math.floor(t / 60_000) * 60_000;
  const series = Array.from({ length: 60 }, (_, at) => ({ t: minute - (59 - at) * 60_000, ...totals(30 + Math.round(12 * Math.sin(at / 5)), { ttft_ms: { p50: 200 + 20 * Math.cos(at / 4), p95: 600 + 80 * Math.sin(at / 7) } }) }));
  const rows = [["qwen3-32b", 1804], ["lumo-max", 590], [HOSTILE, 37]].map(([name, requests]) => ({ name, totals: totals(requests), before: totals(requests * 0.9), series: [] }));
  return { by: "model", window_s: 3600, step_s: 60, t, totals: totals(2431), before: totals(2250), series, rows, now: { running: 3 } };
}

const analysis = ({ text }) => {
  const bytes = Buffer.from(text);
  const open = bytes.indexOf("<tool_call>"), close = bytes.indexOf("</tool_call>");
  if (open < 0 || close < 0) return { events: [{ kind: "text", text, at: 1, step: 1 }, { kind: "finish", at: bytes.length }], spans: [], calls: [], found: text.includes("Action:") ? [{ name: "react", summary: HOSTILE, confidence: "certain", automatic: false, marker: "Action:", calls: [{ name: "web_search", arguments: HOSTILE, declared: false, complete: true }] }] : [], rejected: [{ format: "fenced", range: [0, 4], why: "no fence" }], clients: { chat: `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n` } };
  const name = bytes.indexOf("web_search"), args = bytes.indexOf("{", name);
  return {
    events: [{ kind: "text", text: bytes.subarray(0, open).toString(), at: 1, step: 1 }, { kind: "call_start", name: "web_search", call: 1, at: args }, { kind: "arguments", call: 1, text: bytes.subarray(args, close).toString().trim().slice(0, -1), at: close, step: 0 }, { kind: "call_end", call: 1, end: "complete", at: close + 12 }, { kind: "finish", at: bytes.length }],
    spans: [
      { range: [open, open + 11], kind: "opener", format: "hermes", rule: "hermes.open", why: "opener of hermes" },
      { range: [name, name + 10], kind: "name", format: "hermes", why: "name, declared" },
      { range: [args, close], kind: "arguments", format: "hermes", why: "arguments, valid" },
      { range: [close, close + 12], kind: "closer", format: "hermes", why: "closer of hermes" },
    ],
    rejected: [{ format: "pre", range: [open, open + 5], why: HOSTILE }],
    clients: { chat: 'data: {"choices":[{"delta":{"content":"I will look it up."}}]}\n\ndata: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"web_search"}}]}}]}\n\n', responses: "event: response.output_text.delta\n", messages: "event: content_block_start\n" },
  };
};

const ANSWER = "# A heading\n\nThe newest stable release is **1.95**, which [says](https://blog.rust-lang.org/) `let` chains.\n\n- one\n- two\n  - nested\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n\n![far](https://evil.example/x.png)\n\n![a red crab](/api/images/20260101_aa.png)\n\n![a red crab](/api/images/20260101_bb.png)\n\n";

// The events of a chat.
export const CHAT = [
  ["message_start", { t: NOW, exchange: "ex_chat", hop: 1, model: "echo", key: "console", client: "chat", upstream: "scripted", tools: ["web_search"] }],
  ["message_update", { t: NOW, exchange: "ex_chat", hop: 1, reasoning: "The user wants news. " }],
  ["message_update", { t: NOW, exchange: "ex_chat", hop: 1, reasoning: HOSTILE }],
  ["tool_use", { t: NOW, exchange: "ex_chat", hop: 1, toolCall: { id: "call_1", name: "web_search", input: { query: HOSTILE }, input_bytes: 40 }, progress: "Searching for: rust" }],
  ["tool_result", { t: NOW, exchange: "ex_chat", hop: 1, toolCall: { id: "call_1", name: "web_search", input_bytes: 40 }, ok: true, ms: 640, cached: false, result: JSON.stringify({ results: [{ title: HOSTILE, price: 1 }] }) }],
  ["tool_use", { t: NOW, exchange: "ex_chat", hop: 1, toolCall: { id: "call_2", name: "scrape", input: { url: "https://x.example" }, input_bytes: 20 } }],
  ["tool_result", { t: NOW, exchange: "ex_chat", hop: 1, toolCall: { id: "call_2", name: "scrape", input_bytes: 20 }, ok: false, code: "timeout", ms: 30_000, cached: false, result: "It took too long." }],
  ...ANSWER.match(/[^]{1,9}/g).map((content) => ["message_update", { t: NOW, exchange: "ex_chat", hop: 2, content }]),
  ["message_update", { t: NOW, exchange: "ex_chat", hop: 2, content: `\n\n${HOSTILE}\n` }],
  ["message_complete", { t: NOW, exchange: "ex_chat", hop: 2, finish: "stop", usage: { input_tokens: 1204, output_tokens: 318 }, ms: 2940, ttft_ms: 212 }],
];

export const sse = (events) => events.map(([name, data], index) => `id: b-${index}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join("");

const picture = async (request, response) => {
  // One pixel, for every image.
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkaPhfDwAEAAH/kFxk8QAAAABJRU5ErkJggg==", "base64");
  response.writeHead(200, { "content-type": "image/png" }).end(png);
};

const QUESTION = { request_id: "q_1", tool: "files__delete", label: HOSTILE, params: { path: HOSTILE }, context: { exchange: "ex_7f3a", key: "team-a", model: "qwen3-32b", domain: "files.example" }, asked_at: NOW, expires_at: NOW + 3_600_000 };

// A server's question in the middle of a call.
const FIELDS = { name: { type: "string", title: HOSTILE, description: HOSTILE }, size: { type: "number", minimum: 1 }, kind: { type: "string", oneOf: [{ const: "a", title: HOSTILE }, { const: "b", title: "B" }] }, [HOSTILE]: { type: "boolean" } };
export const INPUT = { ...QUESTION, params: null, input: { mode: "form", message: `${HOSTILE}\nsecond line`, schema: { type: "object", properties: FIELDS, required: ["name"] } } };
export const PAGE = { ...INPUT, input: { mode: "url", message: HOSTILE, url: "https://sign-in.example/?next=%3Cb%3E" } };

export const answers = () => ({
  "GET /admin/exchanges": (_, response) => json(response, { exchanges: ROWS, more: false, kept: ROWS.length, keep: 2000, since: NOW - 3_600_000 }),
  "GET /admin/exchanges/ex_7f3a": (_, response) => json(response, { exchange: ROWS[0], hops: [], calls: [] }),
  "GET /admin/exchanges/ex_22bb": (_, response) => json(response, { exchange: { ...ROWS[2], error: { code: "upstream_timeout", message: HOSTILE } }, hops: [], calls: [] }),
  "GET /admin/exchanges/ex_33cc": (_, response) => json(response, { exchange: ROWS[3], hops: [], calls: [] }),
  "GET /admin/exchanges/ex_7f3a/events": (_, response) => json(response, { exchange: "ex_7f3a", captured: "redacted", rows: EVENTS, calls: CALLS, cut: false }),
  "GET /admin/exchanges/ex_7f3a/requests": (_, response) => json(response, REQUESTS),
  "GET /admin/exchanges/ex_33cc/requests": (_, response) => json(response, { ...REQUESTS, client: { dialect: HOSTILE, bytes: 9, body: JSON.stringify({ model: HOSTILE, messages: [{ role: HOSTILE, content: HOSTILE }], tools: [{ name: HOSTILE, description: HOSTILE }], [HOSTILE]: HOSTILE }) }, requests: [{ hop: 1, t_ms: 0, dialect: "chat", bytes: 5, body: HOSTILE }, { hop: 1, t_ms: null, dialect: "chat", bytes: 5e6, body: null }] }),
  "GET /admin/exchanges/ex_22bb/requests": (_, response) => json(response, { exchange: "ex_22bb", captured: "off", client: null, requests: [], hosted: [], rewrite: null }),
  "POST /admin/exchanges/ex_7f3a/read": (_, response) => json(response, { rows: EVENTS.slice(0, said.length).map((own) => ({ ...own, held: 0, out: [{ kind: "text", bytes: own.raw.length, text: own.read[0].text, frame: "" }] })), calls: [] }),
  "GET /admin/exchanges/ex_33cc/events": (_, response) => json(response, { rows: EVENTS.map((own) => ({ ...own, raw: HOSTILE, out: own.out.map((one) => ({ ...one, text: HOSTILE, name: one.name && HOSTILE })) })) }),
  "GET /admin/formats": (_, response) => json(response, { formats: [{ name: "hermes", models: ["Qwen"], example: '<tool_call>{"name": "web_search", "arguments": {}}</tool_call>' }, { name: "pre", models: [], example: "", taught: false }] }),
  "POST /admin/formats/analyze": (_, response, body) => json(response, analysis(body)),
  "POST /admin/formats/teach": (_, response) => json(response, { prompt: `# Tools\n\nYou may call one or more functions.\n${HOSTILE}`, examples: [{ role: "user", text: "What is 2 + 2?" }], tokens: 312 }),
  "GET /admin/metrics": (_, response) => json(response, metrics()),
  "GET /admin/bench": (_, response) => json(response, { state: "idle" }),
  "POST /console/api/chat": (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(sse(CHAT));
  },
  "GET /api/images/20260101_aa.png": picture,
  "GET /api/images/20260101_bb.png": picture,
});

export const withQuestion = (own, question = QUESTION) => ({ ...own, "GET /admin/permissions": (_, response) => json(response, { auto_approve: false, questions: [question], rules: [{ id: "r_1", tool: HOSTILE, domain: null, scope: "global", granted: true, granted_at: NOW, last_used: NOW, use_count: 3 }] }) });
