// Exchanges as the feed reports them, the filter of their list, and the replay of an exchange. All of it is plain data.

import { joined } from "./analysis.js";
import { matches, utf8 } from "./text.js";

export const KEPT = 2000;
export const STATES = { running: "running", done: "complete", error: "failed", cancelled: "cancelled" };
const MAX_OWN_EVENTS = 400;

// The newest exchanges, newest first.
export class Exchanges {
  rows = [];
  byId = new Map();
  // The dialects of upstreams, which the feed does not report.
  dialects = new Map();
  events = new Map();
  arrived = 0;
  // How many rows are kept at most.
  max = KEPT;

  // Forgets everything, before the list is fetched anew.
  clear() {
    this.rows = [];
    this.byId.clear();
    this.events.clear();
  }

  // Applies an event of the feed. Returns whether a row has changed.
  apply(kind, data) {
    if (!data.exchange || /^(permission|input)_/.test(kind)) return false;
    const row = this.byId.get(data.exchange) ?? this.#add({ id: data.exchange, request: data.request, t: data.t, state: "running", hops: 0, calls: 0, ms: null });
    switch (kind) {
      case "message_start":
        Object.assign(row, { model: data.model, key: data.key, client: data.client, upstream: data.upstream, upstream_dialect: this.dialects.get(data.upstream), t: Math.min(row.t, data.t) });
        break;
      case "message_update":
        Object.assign(row, { bytes: data.bytes, tokens: data.tokens, held: data.held });
        row.ttft_ms ??= data.t - row.t;
        row.tokens_per_s = speed({ ...row, ms: data.t - row.t });
        break;
      case "hop_start":
        if (!data.purpose) row.hops = Math.max(row.hops, data.hop);
        break;
      case "tool_use": {
        const { name } = data.toolCall;
        row.calls += 1;
        row.hosted_calls = (row.hosted_calls ?? 0) + 1;
        if (!row.tools?.includes(name)) row.tools = [...(row.tools ?? []), name];
        break;
      }
      case "message_complete":
        Object.assign(row, { state: "done", finish: data.finish, usage: data.usage, ms: data.ms, held: 0 });
        row.ttft_ms = data.ttft_ms ?? row.ttft_ms;
        row.tokens_per_s = speed(row);
        break;
      case "call_missed":
        row.missed_format = data.format;
        break;
      case "error":
        Object.assign(row, { state: ["cancelled", "stalled"].includes(data.error.code) ? "cancelled" : "error", error: data.error, code: data.error.code, ms: data.t - row.t });
        break;
    }
    const own = this.events.get(row.id) ?? [];
    this.events.set(row.id, own);
    if (kind === "message_update" && own.at(-1)?.kind === "message_update" && own.at(-1).hop === data.hop) {
      const { content } = own.at(-1);
      own[own.length - 1] = { kind, ...data, content: content || data.content ? (content ?? "") + (data.content ?? "") : undefined };
    } else if (kind === "tool_progress" && own.at(-1)?.kind === kind && own.at(-1).toolCall.id === data.toolCall.id) {
      own[own.length - 1] = { kind, ...data };
    } else if (own.length < MAX_OWN_EVENTS) own.push({ kind, ...data });
    return true;
  }

  // Merges rows of the server's list, which have more fields than the feed.
  merge(rows) {
    for (const row of rows) {
      if (row.upstream && row.upstream_dialect) this.dialects.set(row.upstream, row.upstream_dialect);
      const known = this.byId.get(row.id);
      // The end may have been reported after the list was made.
      if (known?.state !== "running" && known && row.state === "running") continue;
      if (known) Object.assign(known, row);
      else this.#add({ ...row }, true);
    }
    this.rows.sort((one, other) => other.t - one.t);
    this.#forget();
  }

  #add(row, isOld = false) {
    this.byId.set(row.id, row);
    if (isOld) this.rows.push(row);
    else {
      this.rows.unshift(row);
      this.arrived++;
      this.#forget();
    }
    return row;
  }

  #forget() {
    while (this.rows.length > this.max) {
      const { id } = this.rows.pop();
      this.byId.delete(id);
      this.events.delete(id);
    }
  }
}

// Tokens per second after the first token.
function speed({ usage, tokens, ms, ttft_ms }) {
  const count = usage?.completion_tokens ?? usage?.output_tokens ?? tokens;
  const seconds = (ms - (ttft_ms ?? 0)) / 1000;
  return count && seconds > 0.05 ? count / seconds : null;
}

// The fields of filters and rows, and whether they are numeric. The server parses the same language.
const FIELDS = {
  id: ["id"], request: ["request"], key: ["key"], model: ["model"], client: ["client"], upstream: ["upstream"], dialect: ["upstream_dialect"],
  state: ["state"], code: ["code"], finish: ["finish"], captured: ["captured"], tool: ["tools"], format: ["formats"],
  hops: ["hops", 1], calls: ["calls", 1], ttft: ["ttft_ms", 1], ms: ["ms", 1], tokens_per_s: ["tokens_per_s", 1],
};

// Parses a filter such as `model:qwen* hops:>1 -state:done "two words"` into a predicate. Throws an error with `at`.
export function filter(query) {
  const tests = [];
  for (const { 1: not, 2: key, 3: quoted, 4: plain, index } of query.matchAll(/(-?)(?:([a-z_]+):)?(?:"([^"]*)"?|(\S+))/g)) {
    const value = quoted ?? plain;
    let test;
    if (key === undefined) {
      const text = value.toLowerCase();
      test = (row) => Object.values(row).flat().some((own) => typeof own === "string" && own.toLowerCase().includes(text));
    } else if (!Object.hasOwn(FIELDS, key)) {
      throw Object.assign(new Error(`there is no ${key}; there are ${Object.keys(FIELDS).join(", ")}`), { at: index });
    } else {
      const [field, isNumber] = FIELDS[key];
      test = isNumber ? numeric(key, field, value, index) : (row) => [row[field]].flat().some((own) => matches(value, own));
    }
    tests.push(not ? (row) => !test(row) : test);
  }
  return (row) => tests.every((test) => test(row));
}

function numeric(key, field, value, index) {
  const found = /^(>=|<=|>|<|=?)(\d+(?:\.\d+)?)$/.exec(value);
  if (!found) throw Object.assign(new Error(`${key} needs a number, such as ${key}:>1`), { at: index });
  const number = Number(found[2]);
  const own = (row) => row[field] ?? NaN;
  const compare = { ">": (a) => a > number, "<": (a) => a < number, ">=": (a) => a >= number, "<=": (a) => a <= number };
  const by = compare[found[1]] ?? ((a) => a === number);
  return (row) => by(own(row));
}

// The kind of a row of an opened exchange, which selects its glyph and color.
export function kindOf({ out = [], held = 0 }) {
  const kinds = out.map((own) => own.kind);
  if (kinds.some((kind) => kind === "error")) return "failed";
  if (kinds.some((kind) => /^call|arguments/.test(kind))) return "call";
  if (kinds.some((kind) => kind.startsWith("reasoning"))) return "reasoning";
  if (kinds.includes("text")) return "text";
  return held ? "held" : "other";
}

// The text of a client frame, or of an upstream event if it is JSON as well.
export function textOf({ text, frame = "" }) {
  if (text !== undefined) return text;
  let found = "";
  for (const [, data] of frame.matchAll(/^(?:data: ?)?(\{.*)$/gm)) {
    try {
      const said = JSON.parse(data);
      const delta = said.delta ?? said.choices?.[0]?.delta ?? said.choices?.[0]?.message ?? said.message;
      const { function: called } = delta?.tool_calls?.[0] ?? {};
      const own = said.candidates?.[0]?.content?.parts?.map((part) => part.text ?? part.functionCall?.args).filter((part) => part !== undefined) ?? [];
      const pieces = own.length ? own : [typeof delta === "string" ? delta : delta?.text ?? delta?.thinking ?? delta?.partial_json ?? (delta?.content || (delta?.reasoning_content ?? called?.arguments))];
      for (const piece of pieces) if (piece != null) found += typeof piece === "string" ? piece : JSON.stringify(piece);
    } catch {
      // It only looks like JSON.
    }
  }
  return found;
}

// What an event from the upstream says: [{kind, text?, name?, call?}].
export const saidIn = ({ read, raw = "" }) => read ?? [textOf({ frame: raw })].filter(Boolean).map((text) => ({ kind: "text", text }));

// Whether nothing is held back but white space at the end of the event's text, which happens at most tokens.
const holdsSpace = (row) => row.held > 0 && /\s+$/.exec(textIn(row))?.[0].length >= row.held;
const textIn = (row) => saidIn(row).map((own) => (own.kind === "text" ? own.text : "")).join("");

// The bytes that are held back after a row, unless they are white space of one event.
export const heldAt = (row) => (holdsSpace(row) ? 0 : row.held ?? 0);

// An exchange by hops: [{hop, t, read, out}], with the parts as `joined` merges them.
export function hopsOf(rows) {
  const hops = [];
  for (const row of rows) {
    const hop = row.hop ?? 1;
    if (hops.at(-1)?.hop !== hop) hops.push({ hop, t: row.t_ms, rows: 0, read: [], out: [], frames: "" });
    const own = hops.at(-1);
    own.rows++;
    own.read.push(...saidIn(row));
    for (const one of row.out ?? []) {
      // Read once: the rows of a running exchange are joined again and again.
      one.text ??= textOf(one);
      own.out.push(one);
      own.frames += one.frame ?? "";
    }
  }
  return hops.map(({ read, out, ...own }) => ({ ...own, read: joined(read), out: joined(out) }));
}

// The model's text in each hop, as bytes to which the ranges of calls refer: [{hop, bytes, calls, rowAt(byte)}]. Redacted
// pieces differ in length from the original, and are shown as `#`.
export function written(rows, calls) {
  const hops = new Map();
  for (const { hop = 1, raw, text_at: range, n, ...row } of rows) {
    if (!range || raw === undefined) continue;
    if (!hops.has(hop)) hops.set(hop, []);
    hops.get(hop).push({ range, n, piece: utf8(textIn({ raw, ...row })) });
  }
  return [...hops].map(([hop, pieces]) => {
    const bytes = new Uint8Array(pieces.reduce((last, { range }) => Math.max(last, range[1]), 0)).fill(35);
    for (const { range, piece } of pieces) if (piece.length === range[1] - range[0]) bytes.set(piece, range[0]);
    return { hop, bytes, calls: calls.filter((own) => (own.hop ?? 1) === hop && own.ranges), rowAt: (byte) => pieces.find(({ range }) => byte < range[1])?.n };
  });
}

// The parts of a call, in the order of the text.
export const partsOf = (calls) => calls.flatMap(({ call, name, format, ranges }) => Object.entries(ranges).filter(([, range]) => range).map(([kind, range]) => ({ kind, range, format, why: `${kind} of call ${call}, ${name}` }))).sort((one, other) => one.range[0] - other.range[0]);

const FOLDED = 6;
const NEAR = 4;

// Merges runs of plain text into one entry {from, to, run}; `opened` has the numbers `run` of those that are expanded. Rows next to
// the row `now` are always shown.
export function folded(rows, opened = new Set(), now = -Infinity) {
  const entries = [];
  for (let at = 0; at < rows.length; ) {
    let end = at;
    while (end < rows.length && kindOf(rows[end]) === "text" && rows[end].out.length === 1 && !heldAt(rows[end])) end++;
    if (end - at >= FOLDED && !opened.has(rows[at].n)) {
      const within = (index) => Math.max(at, Math.min(end, index));
      let [from, to] = [within(now - 1 - NEAR), within(now + NEAR)];
      if (from - at < FOLDED) from = at;
      if (end - to < FOLDED) to = end;
      if (from > at) entries.push({ from: at, to: from, run: rows[at].n });
      for (let near = from; near < to; near++) entries.push({ at: near });
      if (to < end) entries.push({ from: to, to: end, run: rows[at].n });
      at = end;
    } else {
      for (end = Math.max(end, at + 1); at < end; at++) entries.push({ at });
    }
  }
  return entries;
}

const EVERY = 256;

// Replays an exchange: the state of both sides after row `n`. A jump costs at most 256 steps.
export class Replay {
  #marks = [{ client: "", reasoning: "", calls: 0, held: 0, t: 0 }];

  constructor(rows) {
    this.rows = rows;
  }

  at(n) {
    const last = Math.min(n, this.rows.length);
    let mark = Math.min(Math.floor(last / EVERY), this.#marks.length - 1);
    let state = this.#marks[mark];
    for (let index = mark * EVERY; index < last; index++) {
      state = step(state, this.rows[index]);
      if ((index + 1) % EVERY === 0 && this.#marks.length === (index + 1) / EVERY) this.#marks.push(state);
    }
    return state;
  }

  // Milliseconds to wait after row `n`: the recorded gap, at most two seconds.
  gap(n, rate) {
    const now = this.rows[n - 1]?.t_ms ?? 0, next = this.rows[n]?.t_ms ?? now;
    return rate === Infinity ? 0 : Math.min(2000, Math.max(0, next - now)) / rate;
  }
}

function step(state, row) {
  const next = { ...state, held: row.held ?? 0, t: row.t_ms };
  for (const own of row.out ?? []) {
    if (own.kind === "text") next.client += textOf(own);
    else if (own.kind === "reasoning") next.reasoning += textOf(own);
    else if (own.kind === "call_start") next.calls += 1;
  }
  return next;
}
