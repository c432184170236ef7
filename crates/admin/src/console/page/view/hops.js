// An exchange in four columns: the client's request, what the model was sent, what it wrote, and what the client got. Hosted calls stand
// between the hops.

import { facts, fill, h, name, region } from "../core/dom.js";
import { hopsOf, partsOf, written } from "../core/exchange.js";
import { addedTo, readRequest } from "../core/request.js";
import { href } from "../core/route.js";
import { visible } from "../core/text.js";
import { bytes, count, duration } from "../core/time.js";
import { card } from "./card.js";
import { copied, json } from "./json.js";
import { marks } from "./marks.js";

const MAX_TEXT = 4000;
const ENDED = { permission_denied: "denied", permission_timeout: "expired", cancelled: "cancelled", loop: "repeated" };

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text ?? undefined;
  }
};

// Cards of hosted calls. Each is made once, so that an open one stays open.
export class Cards {
  #made = new Map();

  // `after`: the hop that made the calls.
  of(hosted = [], after) {
    const own = hosted.filter(({ hop }) => hop === after).map(({ id, name: tool, input_bytes: size, ok, code, ms, cached, arguments: input, result }) => {
      const call = { name: tool, input_bytes: size, code, ms, input: input === undefined ? undefined : parsed(input), result, state: ok === undefined ? "running" : ok ? (cached ? "cached" : "ok") : ENDED[code] ?? "failed" };
      const known = this.#made.get(id);
      if (!known) this.#made.set(id, card(call, { tool }));
      else if (known.call.state !== call.state || known.call.result !== result) known.update(call);
      return this.#made.get(id).element;
    });
    return own.length ? h("div.stack.hosted", { role: "group", "aria-label": `Calls that toolwire ran after hop ${after}` }, h("h3.small.dim", `${own.length === 1 ? "A call" : `${own.length} calls`} that toolwire ran`), own) : null;
  }
}

// A text of which only the beginning is shown at first. `spans`: ranges of characters that are marked.
function long(text, spans = []) {
  const element = h("div.said");
  const paint = (end) => {
    const parts = [];
    let at = 0;
    for (const [from, to] of spans) {
      if (from >= end) break;
      parts.push(visible(text.slice(at, from)), h("mark", visible(text.slice(from, Math.min(to, end)))));
      at = to;
    }
    if (at < end) parts.push(visible(text.slice(at, end)));
    fill(element, parts, end < text.length && h("button.plain", { onclick: () => paint(text.length) }, `show all ${bytes(text.length)}`));
  };
  paint(Math.min(text.length, MAX_TEXT));
  return element;
}

// A part that is rendered when it is opened.
export function fold(title, render) {
  const body = h("div");
  return h("details.fold", { ontoggle: (event) => event.target.open && !body.firstChild && fill(body, render()) }, h("summary", title), body);
}

const message = ({ role, text }, known) => h("div.message", h("h4.small.dim", name(role)), long(text, known ? addedTo(text, known) : []));

// A request's body. `known`: texts that were there before, so that what is new can be marked; `before`: number of messages of the last hop.
function request({ body, bytes: size, dialect }, known, before = []) {
  const lead = h("p.small.faint", name(dialect), `, ${bytes(size)}`);
  if (body == null) return [lead, h("p.dim", "Too long to be kept.")];
  const read = readRequest(body);
  if (!read) return [lead, long(body)];
  const same = before.length && before.every(({ role, text }, at) => read.messages[at]?.role === role && read.messages[at].text === text) ? before.length : 0;
  const { messages, tools, rest } = read;
  return [lead,
    same ? fold(`${count(same)} messages as before`, () => messages.slice(0, same).map((own) => message(own, known))) : null,
    messages.slice(same).map((own) => message(own, known)),
    tools.length ? fold([h("span.tag.result", "tools"), " ", name(tools.map((own) => own.name).join(", "))], () => tools.map((own) => json(own.json, own.name, 1))) : null,
    Object.keys(rest).length ? fold("Other fields", () => json(rest, "Other fields", 1)) : null,
    fold("The whole body", () => [json(body, "Body", 1), h("div", h("button", { onclick: () => copied(body) }, "Copy"))])];
}

function call(own) {
  return h("div.message", h("h4.small", h("span.tag", "call"), " ", name(own.name)), own.text && long(own.text));
}

function entries(parts) {
  return parts.map((own) => {
    if (own.kind === "call") return call(own);
    if (own.kind === "reasoning") return own.text ? fold("Reasoning", () => long(own.text)) : null;
    if (["text", "refusal"].includes(own.kind)) return own.text ? long(own.text) : null;
    return own.kind === "finish" && own.text ? h("p.small.faint", `finish: ${visible(own.text)}`) : null;
  });
}

// What the model wrote in a hop. `source`: its text with the calls in it, as `written` returns it.
export function wrote({ read }, source) {
  const marked = source?.calls.length ? h("div.marked", marks(source.bytes, partsOf(source.calls).filter(({ range }) => range[1] <= source.bytes.length))) : null;
  const shown = entries(marked ? read.filter((own) => own.kind !== "text") : read);
  return [marked, shown.some(Boolean) || marked ? shown : h("p.dim", "Nothing, or it was not captured.")];
}

// What the client got because of a hop.
export function got({ out, frames }) {
  const failed = out.some((own) => own.kind === "error");
  const shown = entries(out.map((own) => ({ ...own, kind: own.kind === "finish" ? "" : own.kind }))).filter(Boolean);
  return [shown.length ? shown : frames ? null : h("p.dim", "Nothing."),
    failed || !shown.length && frames ? long(frames) : frames && fold("As it was sent", () => h("pre", visible(frames.slice(0, 65_536))))];
}

const cell = (title, ...children) => region("section.cell", title, h("h3", title), children);

// All hops. What has not changed stays as it is, with what is open in it.
export class Columns {
  element = h("div.stack.hops");
  #asked;
  #hops = new Map();
  #cards = new Cards();

  // `asked`: GET /admin/exchanges/{id}/requests.
  update(rows, calls, asked) {
    const hops = hopsOf(rows);
    const { requests = [] } = asked ?? {};
    const numbers = [...new Set([...hops.map(({ hop }) => hop), ...requests.map(({ hop }) => hop)])];
    if (this.#asked !== asked || numbers.length !== this.#hops.size) this.#begin(numbers, asked);
    const sources = written(rows, calls);
    for (const [number, own] of this.#hops) {
      const hop = hops.find((one) => one.hop === number) ?? { read: [], out: [], frames: "" };
      const sign = `${hop.rows} ${calls.length}`;
      if (own.sign === sign) continue;
      own.sign = sign;
      fill(own.wrote, h("h3", own.wrote.getAttribute("aria-label")), wrote(hop, sources.find((one) => one.hop === number)));
      fill(own.got, h("h3", own.got.getAttribute("aria-label")), got(hop));
    }
    return this.element;
  }

  #begin(numbers, asked) {
    this.#asked = asked;
    this.#hops.clear();
    const { client, requests = [], hosted = [] } = asked ?? {};
    const known = client?.body ? readRequest(client.body)?.messages.map(({ text }) => text) : null;
    let before = [];
    const parts = numbers.map((number, index) => {
      const sent = requests.filter((own) => own.hop === number);
      const of = numbers.length > 1 ? `, hop ${number}` : "";
      const first = index ? h("div.cell", h("h3", `Hop ${number}`), sent[0]?.t_ms != null && h("p.small.dim", `after ${duration(sent[0].t_ms)}`))
        : cell("The client’s request", client ? request(client) : h("p.dim", "Not kept."));
      const texts = sent.flatMap((own, at) => {
        const shown = [at ? h("p.small.wrong", "Refused, and asked again:") : null, request(own, known, before)];
        before = own.body ? readRequest(own.body)?.messages ?? [] : before;
        return shown;
      });
      const own = { wrote: cell(`What it wrote${of}`), got: cell(`What the client got${of}`), sign: null };
      this.#hops.set(number, own);
      return [h("div.hop", first, cell(`What the model was sent${of}`, texts.length ? texts : h("p.dim", "Not kept.")), own.wrote, own.got), this.#cards.of(hosted, number)];
    });
    fill(this.element, h("p.small.dim", h("mark", "Marked"), " in what the model was sent: what the client’s request does not contain, such as taught tools."), parts);
  }
}

// One of two exchanges side by side. `isFirst`: of the first hop only.
export function compared({ title, label, row, events, asked }, cards, isFirst) {
  const rows = events.rows.filter((own) => !isFirst || (own.hop ?? 1) === 1);
  const sources = written(rows, events.calls ?? []);
  const { state, code, model, upstream, ms, ttft_ms: ttft } = row;
  return h("section.stack", h("h3", title),
    isFirst ? null : facts([["State", code ?? state], ["Model", model], ["Upstream", upstream], ["TTFT", duration(ttft)], ["Time", duration(ms)]]),
    events.captured === "off" ? uncaptured() : hopsOf(rows).map((hop) => [
      region("section.cell", `What it wrote in hop ${hop.hop}, ${label}`, h("h3", `What it wrote, hop ${hop.hop}`), wrote(hop, sources.find((own) => own.hop === hop.hop))),
      region("section.cell", `What the client got in hop ${hop.hop}, ${label}`, h("h3", `What the client got, hop ${hop.hop}`), got(hop)),
      isFirst ? null : cards.of(asked?.hosted, hop.hop)]));
}

// Shown instead of contents that were not captured.
export const uncaptured = () => h("section.note.info", h("h3", "Nothing of the contents was captured"), h("p", "Set ", h("code", 'capture = "redacted"'), " in the table ", h("code", "[admin]"), ", reload, and send the request again. Secrets are masked."), h("div", h("a", { href: href("settings", "admin.capture") }, "See the setting")));
