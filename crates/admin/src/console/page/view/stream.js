// An exchange, event by event: on the left what the upstream sent, on the right what the client received because of it.

import { folded, heldAt, kindOf, partsOf, Replay, saidIn, textOf, written } from "../core/exchange.js";
import { announce, fill, glyph, h, region, select, tabs } from "../core/dom.js";
import { visible } from "../core/text.js";
import { bytes, duration } from "../core/time.js";
import { Cards, Columns, uncaptured } from "./hops.js";
import { prose } from "./markdown.js";
import { legend, marks } from "./marks.js";

const SIGN = { text: "o", call: "#", reasoning: "~", failed: "x", held: ":", other: "" };
const WORD = { text: "text", call: "call", reasoning: "reasoning", failed: "error", held: "held back", other: "no output" };
const MAX_LINE = 2000;
const PAGE = 400;
const MAX_MARKED = 64 << 10;

const clock = (ms) => `+${(ms / 1000).toFixed(3)}`;
const short = (text) => visible(text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)} … ${bytes(text.length)}` : text);

// `rows` and `calls` are those of GET /admin/exchanges/{id}/events, `asked` is GET …/requests. `seek(n)` is called when the replay moves.
export function stream(rows, calls, { at, view = "hops", seek, show, asked = null }) {
  const replay = new Replay(rows);
  const cards = new Cards(), columns = new Columns();
  const opened = new Set();
  let now = at ?? rows.length, isFollowing = at === undefined, timer = null, rate = 1, shown = PAGE;
  const place = h("div");
  const slider = h("input", { type: "range", min: 0, max: rows.length, "aria-label": "Replay", oninput: () => move(Number(slider.value)) });
  const where = h("span.small.dim.num");
  const play = h("button", { onclick: () => (timer ? pause() : run()) }, "Play");
  const speeds = select([["0.25", "0.25×"], ["1", "1×"], ["4", "4×"], ["16", "16×"], ["Infinity", "no pauses"]], "1", { "aria-label": "Speed", onchange: () => (rate = Number(speeds.value)) });
  const views = tabs("View", [["hops", "Overview"], ["aligned", "Aligned"], ["text", "Text"], ["raw", "Raw"]], place, (key) => {
    view = key;
    show?.(key);
    paint();
  });
  const player = h("div.stack", h("div.replay", play, speeds, slider, where), h("p.small.dim", "Pauses longer than 2 s are played as 2 s."));
  const element = h("div.stream", { onkeydown: keys }, views.element, place, player);

  function move(n, isByHand = true) {
    now = Math.max(0, Math.min(rows.length, n));
    isFollowing = isByHand && now === rows.length;
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
    if (view === "hops" || event.target.matches("input, select, summary, [role=tab]") || event.ctrlKey || event.metaKey || event.altKey) return;
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

  // `isGrowth`: new rows were added. The visible rows stay in place unless the end is being followed.
  function paint(isGrowth = false) {
    slider.max = rows.length;
    slider.value = now;
    const t = rows[now - 1]?.t_ms ?? 0;
    slider.setAttribute("aria-valuetext", `event ${now} of ${rows.length}, ${(t / 1000).toFixed(2)} seconds`);
    where.textContent = `event ${now}/${rows.length}, ${duration(t)}`;
    const before = place.querySelector(".wire");
    const top = before?.scrollTop ?? 0;
    const wasAtEnd = !before || before.scrollTop + before.clientHeight >= before.scrollHeight - 40;
    const hadFocus = place.contains(document.activeElement);
    player.hidden = view === "hops";
    const content = ({ aligned, text: texts, raw })[view]?.() ?? overview();
    if (place.firstChild !== content) place.replaceChildren(content);
    const wire = place.querySelector(".wire");
    if (hadFocus && !place.contains(document.activeElement)) (wire ?? place.querySelector("[tabindex]"))?.focus({ preventScroll: true });
    if (!wire) return;
    wire.scrollTop = top;
    if (!isGrowth || wasAtEnd) reveal(wire);
  }

  // Scrolls only the table, so that the page stays in place. On a small screen the page itself scrolls.
  function reveal(wire) {
    const current = wire.querySelector(".current");
    if (!current) return;
    if (wire.scrollHeight <= wire.clientHeight) return void (place.contains(document.activeElement) && current.scrollIntoView({ block: "nearest" }));
    const from = current.offsetTop - wire.firstChild.offsetHeight, to = current.offsetTop + current.offsetHeight - wire.clientHeight;
    wire.scrollTop = Math.min(from, Math.max(to, wire.scrollTop));
  }

  const isCaptured = () => asked?.captured !== "off";

  function overview() {
    const shown = columns.update(isCaptured() ? rows : [], calls, asked);
    return isCaptured() ? shown : h("div.stack", uncaptured(), shown);
  }

  function aligned() {
    const entries = folded(rows, opened, now);
    const table = h("div.wire", { role: "table", "aria-label": "Events", tabindex: 0 },
      h("div.headings", { role: "row" }, ["Time", "Upstream", "", "Client"].map((text, index) => h("div", { role: "columnheader", class: index === 2 ? "spine" : "" }, text || h("span.only-read", "Kind")))));
    // Renders rows around the current event only, to keep the number of elements small.
    const center = entries.findIndex((entry) => (entry.to ?? entry.at + 1) >= now);
    const first = Math.max(0, Math.min(entries.length - shown, (center < 0 ? entries.length : center) - shown / 2));
    const part = entries.slice(first, first + shown);
    if (first > 0) table.append(more(`${first} earlier`));
    let hop = part.length ? rows[part[0].from ?? part[0].at].hop : 1;
    const ran = (upto) => {
      for (; hop < upto; hop++) {
        const shown = cards.of(asked?.hosted, hop);
        if (shown) table.append(h("div.between", { role: "row" }, h("div.more", { role: "cell" }, shown)));
      }
    };
    for (const entry of part) {
      ran(rows[entry.from ?? entry.at].hop);
      table.append(entry.to ? fold(entry) : line(rows[entry.at], entry.at + 1));
    }
    if (first + shown >= entries.length) ran(hop + 1);
    if (first + shown < entries.length) table.append(more(`${entries.length - first - shown} later`));
    return table;
  }

  const more = (text) => h("div", { role: "row" }, h("div.more", { role: "cell" }, h("button", { onclick: () => {
    shown += PAGE;
    paint();
  } }, text)));

  const fold = ({ from, to, run }) => h("div", { role: "row", class: now <= from ? "ahead" : now <= to ? "current" : "" }, h("div.more", { role: "cell" }, h("button", { onclick: () => {
    opened.add(run);
    paint();
  } }, `${clock(rows[from].t_ms)}  ${to - from} text events`)));

  // The content of a frame; the whole frame on demand. A frame without content is shown as it is, but faint.
  function frame(said, whole, key) {
    if (!said.length) return h("span.faint", short(whole.trimEnd()));
    const body = h("pre.faint");
    return h("details.frame", { open: opened.has(key), ontoggle: ({ target }) => {
      opened[target.open ? "add" : "delete"](key);
      fill(body, target.open && short(whole.trimEnd()));
    } }, h("summary", said.map(({ kind, text, name }, index) => [index ? " " : "", kind === "text" ? "" : h("span.kind", visible(kind), " "), name ? visible(name) : text ? short(JSON.stringify(text)) : ""])), body);
  }

  function line(row, n) {
    const kind = kindOf({ ...row, held: heldAt(row) });
    const number = row.out?.find((own) => own.call != null)?.call ?? "";
    const cause = row.raw === undefined ? `${row.bytes ?? 0} bytes, not captured` : frame(saidIn(row), row.raw, `${n} in`);
    const out = (row.out ?? []).map((own, index) => h("div", frame([{ kind: own.kind, text: textOf(own), name: own.name }], own.frame ?? "", `${n} out ${index}`)));
    const holds = heldAt(row);
    const held = row.held ? h("div.small", { class: holds ? "" : "faint" }, `held ${bytes(row.held)}`) : null;
    const before = rows[n - 2];
    const begin = !row.held && before && heldAt(before) && before.held_since != null && rows.find((own) => own.n === before.held_since);
    const since = begin ? h("div.small.faint", `held since ${clock(begin.t_ms)}, ${duration(row.t_ms - begin.t_ms)}`) : null;
    return h("div", { role: "row", class: `${kind}${n === now ? " current" : n > now ? " ahead" : ""}${holds ? " held" : ""}` },
      h("div.time", { role: "cell" }, clock(row.t_ms)),
      h("div.cause", { role: "cell" }, cause),
      h("div.spine", { role: "cell" }, h("span", { "aria-hidden": "true" }, kind === "call" ? `#${number}` : SIGN[kind]), h("span.only-read", WORD[kind])),
      h("div", { role: "cell" }, out.length ? out : h("span.faint", "nothing"), held, since));
  }

  function texts() {
    const state = replay.at(now);
    return h("div.stack",
      state.reasoning && h("details.fold.reasoning", h("summary", "Reasoning"), h("div", visible(state.reasoning))),
      h("div.box", state.client ? prose(state.client) : h("p.faint", "No text yet, or it was not captured.")),
      h("p.small.dim", `${state.calls} client call${state.calls === 1 ? "" : "s"}, ${asked?.hosted?.length ?? 0} hosted, held ${bytes(state.held)}`),
      [...new Set(rows.slice(0, now).map((row) => row.hop ?? 1))].map((hop, index, all) => [sourceOf(hop, index === all.length - 1 ? state.held : 0), cards.of(asked?.hosted, hop)]));
  }

  function sourceOf(hop, held) {
    const own = written(rows.slice(0, now).filter((row) => (row.hop ?? 1) === hop), calls)[0];
    return own && (own.calls.length || held) ? source(own, held) : null;
  }

  // The text of a hop, with the calls found in it and with what is still held back at its end.
  function source({ hop, bytes: encoded, calls, rowAt }, held) {
    const spans = partsOf(calls).filter(({ range }) => range[1] <= encoded.length);
    const begin = Math.max(0, Math.min(encoded.length - MAX_MARKED, spans[0]?.range[0] ?? 0));
    const label = `What the model wrote in hop ${hop}`;
    const marked = region("div.marked", label, marks(encoded.subarray(0, begin + MAX_MARKED), spans, [begin, encoded.length - held], (from) => (from >= encoded.length - held ? "k-held" : "")).slice(begin ? 1 : 0));
    return h("section.stack", h("h3", label), marked, h("ul.why", legend(marked, spans, ({ range }) => {
      const n = rowAt(range[0]);
      return h("button.plain", { onclick: () => {
        move(n);
        views.pick("aligned");
      } }, `event ${n}`);
    })));
  }

  function raw() {
    const side = (title, text) => h("div.stack", h("h3", title), region("pre.code", title, visible(text.slice(-65536)) || "Not captured."));
    const until = rows.slice(0, now);
    return h("div.sides", side("Upstream", until.map((row) => row.raw ?? "").join("")), side("Client", until.flatMap((row) => (row.out ?? []).map((own) => own.frame ?? "")).join("")));
  }

  views.pick(view);
  return {
    element,
    // What the model was sent is known, or more of it.
    asked(next) {
      asked = next;
      paint(true);
    },
    // New rows have arrived.
    grown() {
      if (isFollowing) now = rows.length;
      paint(true);
    },
    stop: pause,
  };
}

// Shows an exchange from the feed alone, if its events were not kept.
export const story = (events) => h("ol.why", events.map((own) => h("li", h("span.faint", clock(own.t - events[0].t)), h("span", glyph(own.kind === "error" ? "error" : "done"), " ", own.kind.replaceAll("_", " "), " ", visible(detail(own))))));

function detail({ kind, ...own }) {
  if (own.toolCall) return `${own.toolCall.name}${own.ms != null ? `, ${duration(own.ms)}` : ""}${own.code ? `, ${own.code}` : ""}`;
  if (kind === "message_update") return `${own.tokens} tokens, ${bytes(own.bytes)}${own.held ? `, held ${bytes(own.held)}` : ""}${own.content ? `: ${own.content.slice(-200)}` : ""}`;
  if (kind === "hop_start") return `${own.model} at ${own.upstream}${own.purpose ? `, for ${own.purpose}` : ""}`;
  if (kind === "error") return `${own.error.code}: ${own.error.message}`;
  return [own.finish, own.ms != null && duration(own.ms)].filter(Boolean).join(", ");
}
