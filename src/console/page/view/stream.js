// An exchange, event by event: what came from the upstream, and to its right what this caused for the client.

import { folded, kindOf, partsOf, Replay, textOf, written } from "../core/exchange.js";
import { announce, glyph, h, select } from "../core/dom.js";
import { visible } from "../core/text.js";
import { bytes, duration } from "../core/time.js";
import { prose } from "./markdown.js";
import { legend, marks } from "./marks.js";

const SIGN = { text: "o", call: "#", reasoning: "~", failed: "x", held: ":", other: "" };
const WORD = { text: "text", call: "call", reasoning: "reasoning", failed: "error", held: "held back", other: "no output" };
const MAX_LINE = 2000;
const PAGE = 400;
const MAX_MARKED = 64 << 10;

const clock = (ms) => `+${(ms / 1000).toFixed(3)}`;
const short = (text) => visible(text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)} … ${bytes(text.length)}` : text);

// `rows` and `calls` as GET /admin/exchanges/{id}/events returns them. `seek(n)` is told where the replay stands.
export function stream(rows, calls, { at, view = "aligned", seek, show }) {
  const replay = new Replay(rows);
  const opened = new Set();
  let now = at ?? rows.length, timer = null, rate = 1, shown = PAGE;
  const place = h("div");
  const slider = h("input", { type: "range", min: 0, max: rows.length, "aria-label": "Replay", oninput: () => move(Number(slider.value)) });
  const where = h("span", { class: "small dim num" });
  const play = h("button", { onclick: () => (timer ? pause() : run()) }, "Play");
  const speeds = select([["0.25", "0.25×"], ["1", "1×"], ["4", "4×"], ["16", "16×"], ["Infinity", "no pauses"]], "1", { "aria-label": "Speed", onchange: () => (rate = Number(speeds.value)) });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "View" }, [["aligned", "Aligned"], ["text", "Text"], ["raw", "Raw"]].map(([key, label]) =>
    h("button", { role: "tab", id: `view-${key}`, "aria-controls": "view", "data-view": key, onclick: () => choose(key), onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const all = [...tabs.children];
      const next = all[(all.indexOf(event.currentTarget) + step + all.length) % all.length];
      next.focus();
      next.click();
    } }, label)));
  place.id = "view";
  place.setAttribute("role", "tabpanel");
  const element = h("div", { class: "stream", onkeydown: keys }, tabs, place, h("div", { class: "replay" }, play, speeds, slider, where),
    h("p", { class: "small dim" }, "Pauses longer than 2 s are played as 2 s."));

  function choose(key) {
    view = key;
    for (const tab of tabs.children) {
      tab.setAttribute("aria-selected", tab.dataset.view === key);
      tab.tabIndex = tab.dataset.view === key ? 0 : -1;
    }
    place.setAttribute("aria-labelledby", `view-${key}`);
    show?.(key);
    paint();
  }

  function move(n, isByHand = true) {
    now = Math.max(0, Math.min(rows.length, n));
    if (isByHand) {
      pause();
      seek?.(now);
    }
    paint();
  }

  function run() {
    if (now >= rows.length) now = 0;
    const next = () => {
      move(now + 1, false);
      if (now >= rows.length) {
        pause();
        announce("Replay complete");
      } else timer = setTimeout(next, replay.gap(now, rate));
    };
    play.textContent = "Pause";
    timer = setTimeout(next, 0);
  }

  function pause() {
    clearTimeout(timer);
    timer = null;
    play.textContent = "Play";
  }

  function keys(event) {
    if (event.target.matches("input, select, [role=tab]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const toCall = (step) => {
      for (let n = now + step; n >= 1 && n <= rows.length; n += step) if (rows[n - 1].out?.some((own) => own.kind === "call_start")) return n;
      return now;
    };
    if (event.key === " " && event.target !== play) play.click();
    else if (event.key === "ArrowDown") move(now + 1);
    else if (event.key === "ArrowUp") move(now - 1);
    else if (event.key === "]") move(toCall(1));
    else if (event.key === "[") move(toCall(-1));
    else return;
    event.preventDefault();
  }

  function paint() {
    slider.max = rows.length;
    slider.value = now;
    const t = rows[now - 1]?.t_ms ?? 0;
    slider.setAttribute("aria-valuetext", `event ${now} of ${rows.length}, ${(t / 1000).toFixed(2)} seconds`);
    where.textContent = `event ${now}/${rows.length}, ${duration(t)}`;
    place.replaceChildren((view === "aligned" ? aligned : view === "text" ? texts : raw)());
    place.querySelector(".current")?.scrollIntoView({ block: "nearest" });
  }

  function aligned() {
    const entries = folded(rows, opened);
    const table = h("div", { class: "wire", role: "table", "aria-label": "Events", tabindex: 0 },
      h("div", { class: "headings", role: "row" }, ["Time", "Upstream", "", "Client"].map((text, index) => h("div", { role: "columnheader", class: index === 2 ? "spine" : "" }, text || h("span", { class: "only-read" }, "Kind")))));
    // Around the current event, so that the number of elements stays small.
    const center = entries.findIndex((entry) => (entry.to ?? entry.at + 1) >= now);
    const first = Math.max(0, Math.min(entries.length - shown, (center < 0 ? entries.length : center) - shown / 2));
    const part = entries.slice(first, first + shown);
    if (first > 0) table.append(more(`${first} earlier`));
    for (const entry of part) table.append(entry.to ? fold(entry) : line(rows[entry.at], entry.at + 1));
    if (first + shown < entries.length) table.append(more(`${entries.length - first - shown} later`));
    return table;
  }

  const more = (text) => h("div", { role: "row" }, h("div", { class: "more", role: "cell" }, h("button", { onclick: () => {
    shown += PAGE;
    paint();
  } }, text)));

  const fold = ({ from, to }) => h("div", { role: "row", class: now <= from ? "ahead" : now <= to ? "current" : "" }, h("div", { class: "more", role: "cell" }, h("button", { onclick: () => {
    opened.add(rows[from].n);
    paint();
  } }, `${clock(rows[from].t_ms)}  ${to - from} text events`)));

  function line(row, n) {
    const kind = kindOf(row);
    const number = row.out?.find((own) => own.call != null)?.call ?? "";
    const cause = row.raw === undefined ? `${row.bytes ?? 0} bytes, not captured` : short(row.raw.trimEnd());
    const out = (row.out ?? []).map((own) => h("div", null, h("span", { class: "kind" }, visible(own.kind)), " ", own.name ? visible(own.name) : "", " ", textOf(own) && short(JSON.stringify(textOf(own)))));
    const held = row.held ? h("div", { class: "small" }, `held ${bytes(row.held)}`) : null;
    const before = rows[n - 2];
    const begin = !row.held && before?.held && before.held_since != null && rows.find((own) => own.n === before.held_since);
    const since = begin ? h("div", { class: "small faint" }, `held since ${clock(begin.t_ms)}, ${duration(row.t_ms - begin.t_ms)}`) : null;
    return h("div", { role: "row", class: `${kind}${n === now ? " current" : n > now ? " ahead" : ""}${row.held ? " held" : ""}` },
      h("div", { role: "cell", class: "time" }, clock(row.t_ms)),
      h("div", { role: "cell", class: "cause" }, cause),
      h("div", { role: "cell", class: "spine" }, h("span", { "aria-hidden": "true" }, kind === "call" ? `#${number}` : SIGN[kind]), h("span", { class: "only-read" }, WORD[kind])),
      h("div", { role: "cell" }, out.length ? out : h("span", { class: "faint" }, "nothing"), held, since));
  }

  function texts() {
    const state = replay.at(now);
    return h("div", { class: "stack" },
      state.reasoning && h("details", { class: "fold reasoning" }, h("summary", null, "Reasoning"), h("div", null, visible(state.reasoning))),
      h("div", { class: "box" }, state.client ? prose(state.client) : h("p", { class: "faint" }, "No text yet, or it was not captured.")),
      h("p", { class: "small dim" }, `${state.calls} call${state.calls === 1 ? "" : "s"}, held ${bytes(state.held)}`),
      written(rows.slice(0, now), calls).filter((own) => own.calls.length).map(source));
  }

  // A hop's text with the calls that the model wrote as text.
  function source({ hop, bytes: encoded, calls, rowAt }) {
    const spans = partsOf(calls).filter(({ range }) => range[1] <= encoded.length);
    const begin = Math.max(0, Math.min(encoded.length - MAX_MARKED, spans[0]?.range[0] ?? 0));
    const label = `What the model wrote in hop ${hop}`;
    const marked = h("div", { class: "marked", tabindex: 0, role: "region", "aria-label": label }, marks(encoded.subarray(0, begin + MAX_MARKED), spans, [begin]).slice(begin ? 1 : 0));
    return h("section", { class: "stack" }, h("h3", null, label), marked, h("ul", { class: "why" }, legend(marked, spans, ({ range }) => {
      const n = rowAt(range[0]);
      return h("button", { class: "plain", onclick: () => {
        move(n);
        choose("aligned");
      } }, `event ${n}`);
    })));
  }

  function raw() {
    const side = (title, text) => h("div", { class: "stack" }, h("h3", null, title), h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": title }, visible(text.slice(-65536)) || "Not captured."));
    const until = rows.slice(0, now);
    return h("div", { class: "sides" }, side("Upstream", until.map((row) => row.raw ?? "").join("")), side("Client", until.flatMap((row) => (row.out ?? []).map((own) => own.frame ?? "")).join("")));
  }

  choose(view);
  return {
    element,
    // More rows have come.
    grown(follow) {
      if (follow && now >= rows.length - 1) now = rows.length;
      paint();
    },
    stop: pause,
  };
}

// What the feed has told of an exchange, for those whose events were not kept.
export const story = (events) => h("ol", { class: "why" }, events.map((own) => h("li", null, h("span", { class: "faint" }, clock(own.t - events[0].t)), h("span", null, glyph(own.kind === "error" ? "error" : "done"), " ", own.kind.replaceAll("_", " "), " ", visible(detail(own))))));

function detail({ kind, ...own }) {
  if (own.toolCall) return `${own.toolCall.name}${own.ms != null ? `, ${duration(own.ms)}` : ""}${own.code ? `, ${own.code}` : ""}`;
  if (kind === "message_update") return `${own.tokens} tokens, ${bytes(own.bytes)}${own.held ? `, held ${bytes(own.held)}` : ""}${own.content ? `: ${own.content.slice(-200)}` : ""}`;
  if (kind === "hop_start") return `${own.model} at ${own.upstream}${own.purpose ? `, for ${own.purpose}` : ""}`;
  if (kind === "error") return `${own.error.code}: ${own.error.message}`;
  return [own.finish, own.ms != null && duration(own.ms)].filter(Boolean).join(", ");
}
