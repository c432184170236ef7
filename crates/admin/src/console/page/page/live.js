// Live: the newest exchanges, and one of them event by event.

import { adminUrl, ApiError, call, get, part, request, serverNow, serverUrl, session } from "../core/api.js";
import { save } from "../core/copy.js";
import { facts, figures, fill, glyph, h, name, pref, region, setPref } from "../core/dom.js";
import { Exchanges, filter, KEPT } from "../core/exchange.js";
import { csv, curl } from "../core/exports.js";
import { connection, listen, readEvents } from "../core/feed.js";
import { saveFixture } from "../core/fixture.js";
import { go, href } from "../core/route.js";
import { effect } from "../core/store.js";
import { absolute, ago, count, duration, percent, tenth, zone } from "../core/time.js";
import "../view/list.js";
import { copied } from "../view/json.js";
import { empty, failed, note, remark } from "../view/note.js";
import { story, stream } from "../view/stream.js";

// Events of the feed are kept while other pages are shown.
const exchanges = new Exchanges();
let isDirty = true;
let since = null, keep = KEPT;
listen((kind, data) => {
  if (kind === "reset") return void fetchList();
  if (!exchanges.apply(kind, data)) return;
  isDirty = true;
  // The list has what the feed lacks: the dialect of each upstream.
  if (kind === "message_start" && data.upstream && !exchanges.dialects.has(data.upstream)) askList();
});

let asking = null;
const askList = () => (asking ??= setTimeout(() => {
  asking = null;
  fetchList();
}, 500));

let error = null;
async function fetchList() {
  if (!session.peek()?.signed_in) return;
  try {
    const list = await get(`exchanges?limit=500`);
    ({ since, keep } = list);
    exchanges.merge(list.exchanges);
    error = null;
  } catch (failure) {
    // Without the list, the feed alone shows exchanges that start from now on.
    error = failure.status === 404 ? null : failure;
  }
  isDirty = true;
}

// For running exchanges the server's list has the duration so far, which keeps growing here.
const timeOf = (row) => (row.state === "running" ? Math.max(0, serverNow() - row.t) : row.ms);
const STATES = { running: "running", done: "complete", error: "failed", cancelled: "cancelled" };

export default function live({ place, heading, route }) {
  let query = route.query.get("q") ?? "", paused = null, arrived = 0, detail = null, test = () => true;
  const glance = h("div.row");
  const search = h("input.grow", { type: "search", "data-search": "", value: query, placeholder: "model:qwen* hops:>1 state:error", "aria-label": "Filter", spellcheck: "false", oninput: () => look(search.value) });
  const wrong = h("p.small", { role: "status" });
  const pause = h("button", { "aria-pressed": "false", onclick: () => {
    paused = paused ? null : exchanges.rows.map((row) => ({ ...row }));
    arrived = exchanges.arrived;
    pause.setAttribute("aria-pressed", Boolean(paused));
    isDirty = true;
    paint();
  } }, "Pause");
  const kept = h("span.small.faint");
  const above = h("button", { hidden: true, onclick: () => list.top() });
  const list = h("tw-list");
  const side = h("div.stack.list", h("div.row", search, above, kept, h("button.plain", { onclick: exportCsv }, "CSV")), wrong, list);
  const opened = h("section.stack", { "aria-label": "Exchange", hidden: true });
  const root = h("div.live.stack", h("div.bar", heading, glance, h("span.push", pause)), h("div.split", side, splitter(), opened));
  fill(place, root);
  list.setup({
    label: "Exchanges",
    columns: [["", ""], ["Model"], ["Client < upstream", "wide"], ["Hops", "wide num"], ["Calls", "wide num"], ["TTFT", "wide num"], ["Tok/s", "wide num"], ["Time", "wide num"], ["When", "num"]],
    render: cells,
    sign: (row) => JSON.stringify([row, ago(row.t, Date.now()), duration(timeOf(row)), zone.utc]),
    open: (row) => go(href("live", row.id, { q: query })),
    away: (added) => {
      const waiting = added && (Number(above.dataset.count) || 0) + added;
      above.dataset.count = waiting || 0;
      above.hidden = !waiting;
      above.textContent = `${waiting} new: show`;
    },
    none: () => (exchanges.rows.length ? h("p", "No exchange fits the filter. ", h("button", { onclick: () => look(search.value = "") }, "Clear it")) : start()),
  });

  function look(text) {
    query = text;
    try {
      test = filter(text);
      wrong.textContent = "";
    } catch (failure) {
      wrong.textContent = `${failure.message} (at character ${failure.at + 1})`;
    }
    isDirty = true;
    go(href("live", route.id, { q: text }), { replace: true });
  }

  function paint() {
    const now = Date.now();
    const recent = exchanges.rows.filter((row) => now - row.t < 60_000 * 5);
    const busy = exchanges.rows.filter((row) => row.state === "running").length;
    const first = recent.map((row) => row.ttft_ms).filter(Number.isFinite).sort((one, other) => one - other);
    const failed = recent.filter((row) => row.state === "error").length;
    fill(glance, figures([["running", busy], ["a minute", count(recent.filter((row) => now - row.t < 60_000).length)], ["TTFT p50", duration(first[Math.floor(first.length / 2)])], ["errors", recent.length ? percent(failed / recent.length) : "–"]]));
    glance.classList.toggle("stale", connection.peek().state !== "live");
    const rows = (paused ?? exchanges.rows).filter(test);
    const waiting = exchanges.arrived - arrived;
    pause.textContent = !paused ? "Pause" : waiting ? `Paused: show ${count(waiting)} new` : "Paused: continue";
    kept.textContent = `${count(exchanges.rows.length)} of ${count(keep)} kept`;
    list.rows = rows;
  }

  function cells(row) {
    const dialects = `${row.client ?? ""} < ${row.upstream_dialect ?? ""}`;
    const detail = row.code ?? (row.missed_format ? `call as text (${row.missed_format})` : `${row.calls} call${row.calls === 1 ? "" : "s"}`);
    return [
      h("div", glyph(row.state, STATES[row.state] ?? row.state)),
      h("div.cut", h("div.cut", name(row.model ?? "unknown")), h("div.two.small.dim.cut", name(`${dialects}  ${detail}  ${duration(row.ttft_ms)}`))),
      h("div.wide.cut.dim", { title: row.upstream }, name(dialects), h("span.faint", " ", name(row.upstream))),
      h("div.wide.num", count(row.hops)),
      row.missed_format ? h("div.wide.num.wrong", { title: `A call in the format ${row.missed_format}, which is not looked for` }, "text") : h("div.wide.num", count(row.calls)),
      h("div.wide.num", duration(row.ttft_ms)),
      h("div.wide.num", tenth(row.tokens_per_s)),
      h("div.wide.num", duration(timeOf(row))),
      h("div.num.dim", { title: absolute(row.t) }, ago(row.t, Date.now())),
    ];
  }

  function exportCsv() {
    const head = ["id", "time", "key", "model", "client", "upstream", "state", "hops", "calls", "ttft_ms", "tokens_per_s", "ms"];
    save("exchanges.csv", csv([head, ...exchanges.rows.filter(test).map((row) => head.map((key) => (key === "time" ? absolute(row.t, true) : row[key])))]), "text/csv");
  }

  function show(next) {
    route = next;
    detail?.leave();
    detail = null;
    root.classList.toggle("open", Boolean(next.id));
    opened.hidden = !next.id;
    list.selected = next.id || null;
    if (next.id) detail = exchange(opened, next, () => go(href("live", "", { q: query })));
    isDirty = true;
  }

  const timer = setInterval(() => {
    if (document.hidden) return;
    const hasRunning = exchanges.rows.some((row) => row.state === "running");
    if (isDirty || hasRunning) paint();
    isDirty = false;
  }, 250);
  const slow = setInterval(() => (isDirty = true), 5000);
  const stopEffect = effect(() => connection.value.state === "live" && fetchList());
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && route.id && !event.target.matches("input")) go(href("live", "", { q: query }));
  });
  if (query) look(query);
  show(route);
  paint();
  return {
    route: (next) => (next.id !== route.id ? show(next) : (route = next)),
    leave() {
      clearInterval(timer);
      clearInterval(slow);
      stopEffect();
      detail?.leave();
    },
  };
}

function splitter() {
  const element = h("div.splitter", { role: "separator", "aria-label": "Size of the list", "aria-orientation": "horizontal", "aria-valuemin": 15, "aria-valuemax": 75, tabindex: 0 });
  const set = (size) => {
    const value = Math.max(15, Math.min(75, Math.round(size)));
    document.documentElement.style.setProperty("--split", value);
    element.setAttribute("aria-valuenow", value);
    setPref("split", value);
  };
  set(Number(pref("split", 36)));
  element.addEventListener("keydown", (event) => {
    const step = { ArrowUp: -5, ArrowDown: 5 }[event.key];
    if (!step) return;
    set(Number(element.getAttribute("aria-valuenow")) + step);
    event.preventDefault();
  });
  element.addEventListener("pointerdown", (event) => element.setPointerCapture(event.pointerId));
  element.addEventListener("pointermove", (event) => element.hasPointerCapture(event.pointerId) && set(((event.clientY - 120) / innerHeight) * 100));
  return element;
}

// Shown before the first request.
function start() {
  const command = curl(serverUrl().href, "chat", "MODEL", [{ role: "user", content: "Hello" }]);
  return empty("No requests yet", error ? note(error) : null,
    h("p.dim", "Point a client at this server, or send a request:"),
    region("pre.code", "Command", command),
    h("div.row", h("button", { onclick: () => copied(command) }, "Copy"), h("button", { onclick: sample }, "Send a sample request"), h("a", { href: href("play") }, "Open the playground")));
}

// A sample exchange that toolwire runs itself, without a key or an upstream.
async function sample() {
  try {
    go(href("live", (await call("POST", "sample", {})).exchange));
  } catch (failure) {
    failed(failure);
  }
}

// One exchange.
function exchange(place, { id, query }, close) {
  const abort = new AbortController();
  const known = h("div");
  const body = h("div.stack");
  let viewer = null;
  const download = h("button.plain", { onclick: async () => {
    await saveFixture(id).catch(failed);
  } }, "Save as fixture");
  fill(place, h("div.row", h("button.plain", { onclick: close }, "‹ Close"), h("h2", { tabindex: -1 }, name(id)), h("span.push", download)), known, body);

  function paintFacts(row = {}) {
    fill(known, facts([["State", STATES[row.state] ?? row.state], ["Model", row.model], ["Client", row.client], ["Upstream", [row.upstream, row.upstream_dialect].filter(Boolean).join(", ")], ["Key", row.key], ["Request", row.request], ["Hops", row.hops], ["Calls", row.calls], ["Missed call", row.missed_format && `written as ${row.missed_format}, which is not looked for`], ["Quoted calls", row.quoted_calls && `${count(row.quoted_calls.text)} left as text, ${count(row.quoted_calls.call)} made`], ["TTFT", row.ttft_ms == null ? null : duration(row.ttft_ms)], ["Tokens/s", row.tokens_per_s == null ? null : tenth(row.tokens_per_s)], ["Time", row.ms == null ? null : duration(row.ms)], ["Finish", row.finish], ["Began", row.t && absolute(row.t)]]));
  }

  function tell(message) {
    const events = exchanges.events.get(id) ?? [];
    fill(body, message, events.length ? story(events) : null);
  }

  async function load() {
    const told = exchanges.byId.get(id);
    paintFacts(told);
    let whole = null;
    try {
      whole = await get(`exchanges/${part(id)}`, { signal: abort.signal });
      exchanges.merge([whole.exchange]);
      paintFacts({ ...whole.exchange, ...exchanges.byId.get(id) });
    } catch (failure) {
      if (failure.name === "AbortError") return;
      if (failure.status === 404 && !told) {
        download.hidden = true;
        return tell(remark("Not kept any more", h("p", `The last ${count(keep)} exchanges are kept, since ${absolute(failure.since ?? since)}.`)));
      }
      if (failure.status !== 404) return tell(note(failure, { retry: load }));
    }
    const error = whole?.exchange?.error ?? told?.error;
    try {
      await events(error);
    } catch (failure) {
      if (failure.name === "AbortError") return;
      download.hidden = true;
      const isMissing = failure instanceof ApiError && failure.status === 404;
      const isOff = session.peek()?.capture === "off";
      tell([error && note(error), isMissing ? remark("Its events were not kept", h("p", isOff ? "Nothing of contents is captured: " : "What the feed told of it is below. ", isOff && h("a", { href: href("settings", "admin.capture") }, "see the setting"))) : note(failure, { retry: load })]);
    }
  }

  async function finished(grown) {
    grown();
    const { exchange: row } = await get(`exchanges/${part(id)}`, { signal: abort.signal });
    exchanges.merge([row]);
    isDirty = true;
    paintFacts(row);
    if (row.error) body.prepend(note(row.error));
  }

  async function events(error) {
    const response = await request("GET", adminUrl(`exchanges/${part(id)}/events`), { signal: abort.signal, headers: { Accept: "text/event-stream, application/json" } });
    const begin = (rows, calls) => {
      const at = Number(query.get("at")) || undefined;
      const where = (change) => go(href("live", id, { q: query.get("q"), view: query.get("view"), at: query.get("at"), ...change }), { replace: true });
      viewer = stream(rows, calls, { at, view: query.get("view") ?? "aligned", seek: (n) => { query.set("at", n); where({}); }, show: (view) => view !== (query.get("view") ?? "aligned") && (query.set("view", view), where({})) });
      fill(body, error && note(error), viewer.element);
    };
    if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
      const rows = [], calls = [];
      begin(rows, calls);
      let waiting = null, isReset = false;
      const grown = () => {
        waiting = null;
        viewer.grown();
      };
      await readEvents(response, (kind, data) => {
        if (kind === "row") rows.push(data);
        else if (kind === "call") calls.push(data);
        else isReset ||= kind === "reset";
        waiting ??= setTimeout(grown, 100);
      });
      clearTimeout(waiting);
      // The exchange has ended, so the server knows more about it, or what is shown is outdated.
      return isReset ? load() : finished(grown);
    }
    const kept = await response.json();
    begin(kept.rows, kept.calls ?? []);
    if (kept.cut) body.prepend(remark("Not all of it was kept", h("p", "Its later events were more than the limit.")));
  }

  const timer = setInterval(() => {
    const row = exchanges.byId.get(id);
    if (row?.state === "running") paintFacts({ ...row, ms: timeOf(row) });
  }, 1000);
  load();
  return {
    leave() {
      clearInterval(timer);
      abort.abort();
      viewer?.stop();
    },
  };
}
