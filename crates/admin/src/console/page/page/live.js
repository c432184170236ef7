// Live: the newest exchanges, and one of them event by event.

import { call, get, namesOf, part, serverNow, serverUrl, session } from "../core/api.js";
import { save } from "../core/copy.js";
import { figures, fill, glyph, h, name, pref, region, setPref } from "../core/dom.js";
import { Exchanges, filter, KEPT, STATES } from "../core/exchange.js";
import { csv, curl } from "../core/exports.js";
import { connection, listen } from "../core/feed.js";
import { go, href } from "../core/route.js";
import { effect, signal } from "../core/store.js";
import { absolute, ago, count, duration, percent, tenth, zone } from "../core/time.js";
import "../view/list.js";
import { copied } from "../view/json.js";
import { empty, failed, note } from "../view/note.js";
import { exchange } from "./exchange.js";

const PAGE = 500;

// Events of the feed are kept while other pages are shown.
const exchanges = new Exchanges();
let isDirty = true;
// What the server's list says, and how many exchanges had arrived when it said so.
const server = { since: null, keep: KEPT, kept: 0, arrived: 0, more: false, isAsked: false };
// The server's figures of the last minute.
let now = {};
let ended = 0;
listen((kind, data) => {
  if (kind === "metrics") return void (now = data);
  // What has happened meanwhile is unknown, and after a restart nothing of the above is true.
  if (kind === "reset") forget();
  if (kind === "reset" || !exchanges.apply(kind, data)) return;
  isDirty = true;
  // The list has what the feed lacks: the dialect of each upstream, and the client's calls.
  if (kind === "message_complete" || kind === "error") ended++;
  if (kind === "message_complete" || kind === "error" || kind === "message_start" && data.upstream && !exchanges.dialects.has(data.upstream)) askList();
});

function forget() {
  exchanges.clear();
  server.since = null;
  fetchList();
}

let asking = null;
const askList = () => (asking ??= setTimeout(() => {
  asking = null;
  fetchList(Math.min(PAGE, 20 + ended));
  ended = 0;
}, 500));

let error = null;
async function fetchList(limit = PAGE) {
  if (!session.peek()?.signed_in) return;
  try {
    const { exchanges: rows, ...list } = await get(`exchanges?limit=${limit}`);
    if (server.since !== null && server.since !== list.since) return forget();
    // Older rows are read when they are scrolled to.
    const more = server.since === null ? list.more : server.more;
    Object.assign(server, list, { more, arrived: exchanges.arrived });
    exchanges.max = Math.max(KEPT, list.keep);
    exchanges.merge(rows);
    error = null;
  } catch (failure) {
    // Without the list, the feed alone shows exchanges that start from now on.
    error = failure.status === 404 ? null : failure;
  }
  isDirty = true;
}

// Reads the rows before the oldest one.
async function fetchOlder() {
  const last = exchanges.rows.at(-1);
  if (!server.more || server.isAsked || !last) return;
  server.isAsked = true;
  try {
    const list = await get(`exchanges?limit=${PAGE}&before=${part(last.id)}`);
    exchanges.merge(list.exchanges);
    server.more = list.more;
  } catch {
    server.more = false;
  }
  server.isAsked = false;
  isDirty = true;
}

// For running exchanges the server's list has the duration so far, which keeps growing here.
const timeOf = (row) => (row.state === "running" ? Math.max(0, serverNow() - row.t) : row.ms);
// What an exchange is compared with: another one, or the same read with other formats.
const COMPARED = ["with", "detect"];

export default function live({ place, heading, route }) {
  let query = route.query.get("q") ?? "", paused = null, arrived = 0, open = null, test = () => true;
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
  const unfit = h("p", "No exchange fits the filter. ", h("button", { onclick: () => look(search.value = "") }, "Clear it"));
  fill(place, root);
  list.setup({
    label: "Exchanges",
    columns: [["", ""], ["Model"], ["Client < upstream", "wide"], ["Tools or error", "wide"], ["Hops", "wide num"], ["Calls", "wide num"], ["TTFT", "wide num"], ["Tok/s", "wide num"], ["Time", "wide num"], ["When", "num"]],
    render: cells,
    sign: (row) => JSON.stringify([row, ago(row.t, Date.now()), duration(timeOf(row)), zone.utc]),
    open: (row) => go(href("live", row.id, { q: query })),
    away: (added) => {
      const waiting = added && (Number(above.dataset.count) || 0) + added;
      above.dataset.count = waiting || 0;
      above.hidden = !waiting;
      above.textContent = `${waiting} new: show`;
    },
    end: fetchOlder,
    none: () => (exchanges.rows.length ? unfit : start()),
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

  let counted = null;
  function paintFigures() {
    counted = now;
    const failures = Object.values(now.errors ?? {}).reduce((sum, own) => sum + own, 0);
    fill(glance, figures([["running", count(now.running)], ["a minute", count(now.requests)], ["TTFT p50", duration(now.ttft_ms?.p50)], ["errors", now.requests ? percent(failures / now.requests) : "–"]]));
    glance.classList.toggle("stale", connection.peek().state !== "live");
  }

  function paint() {
    paintFigures();
    // Rows that are read further back are also shown while the list is paused.
    const all = paused ? [...paused, ...exchanges.rows.filter((row) => row.t < paused.at(-1)?.t)] : exchanges.rows;
    const rows = all.filter(test);
    const waiting = exchanges.arrived - arrived;
    pause.textContent = !paused ? "Pause" : waiting ? `Paused: show ${count(waiting)} new` : "Paused: continue";
    const inLog = server.kept + exchanges.arrived - server.arrived;
    kept.textContent = `${count(Math.min(server.keep, Math.max(inLog, exchanges.rows.length)))} of ${count(server.keep)} kept`;
    list.rows = rows;
    // What fits may be further back.
    if (!rows.length) fetchOlder();
  }

  function cells(row) {
    const dialects = `${row.client ?? ""} < ${row.upstream_dialect ?? ""}`;
    return [
      h("div", glyph(row.state, STATES[row.state] ?? row.state)),
      h("div.cut", h("div.cut", name(row.model ?? "unknown")), h("div.two.small.dim.cut", name(dialects), " · ", detail(row), " · ", duration(row.ttft_ms))),
      h("div.wide.cut.dim", { title: row.upstream }, name(dialects), h("span.faint", " ", name(row.upstream))),
      h("div.wide.cut", { title: [...(row.tools ?? []), ...(row.formats ?? [])].join(", ") }, detail(row)),
      h("div.wide.num", count(row.hops)),
      h("div.wide.num", { title: `${row.client_calls ?? 0} for the client, ${row.hosted_calls ?? 0} run by toolwire` }, count(row.calls)),
      h("div.wide.num", duration(row.ttft_ms)),
      h("div.wide.num", tenth(row.tokens_per_s)),
      h("div.wide.num", duration(timeOf(row))),
      h("div.num.dim", { title: absolute(row.t) }, ago(row.t, Date.now())),
    ];
  }

  // The code of the error, a call that was missed, or the tools that were called and the formats in which they were written.
  function detail({ code, missed_format: missed, tools = [], formats = [] }) {
    if (code) return h("span.wrong", name(code));
    if (missed) return h("span.wrong", { title: `A call in the format ${missed}, which is not looked for` }, name(`call as text (${missed})`));
    return [name(tools.join(", ")), formats.length ? h("span.faint", " ", name(formats.join(", "))) : null];
  }

  function exportCsv() {
    const head = ["id", "time", "key", "model", "client", "upstream", "state", "code", "tools", "formats", "hops", "client_calls", "hosted_calls", "ttft_ms", "tokens_per_s", "ms"];
    save("exchanges.csv", csv([head, ...exchanges.rows.filter(test).map((row) => head.map((key) => (key === "time" ? absolute(row.t, true) : row[key])))]), "text/csv");
  }

  function show(next) {
    route = next;
    open?.leave();
    open = null;
    root.classList.toggle("open", Boolean(next.id));
    opened.hidden = !next.id;
    list.selected = next.id || null;
    if (next.id) open = exchange(opened, next, () => go(href("live", "", { q: query })), { exchanges, server, timeOf, changed: () => (isDirty = true) });
    isDirty = true;
  }

  const timer = setInterval(() => {
    if (document.hidden) return;
    const hasRunning = exchanges.rows.some((row) => row.state === "running");
    if (isDirty || hasRunning) paint();
    else if (counted !== now) paintFigures();
    isDirty = false;
  }, 250);
  const slow = setInterval(() => (isDirty = true), 5000);
  // The first list is shown as soon as it is there.
  const stopEffect = effect(() => connection.value.state === "live" && fetchList().then(() => root.isConnected && paint()));
  const stopModel = effect(() => asked.value && (isDirty = true));
  findModel();
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && route.id && !event.target.matches("input")) go(href("live", "", { q: query }));
  });
  if (query) look(query);
  show(route);
  paint();
  return {
    route: (next) => (next.id !== route.id || COMPARED.some((key) => next.query.get(key) !== route.query.get(key)) ? show(next) : (route = next)),
    leave() {
      clearInterval(timer);
      clearInterval(slow);
      stopEffect();
      stopModel();
      open?.leave();
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
  set(Number(pref("split", 28)));
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

// A model that clients can ask, and whether they need a key.
const asked = signal({ model: "MODEL", needsKey: false });
async function findModel() {
  const response = await fetch(serverUrl("v1/models")).catch(() => null);
  const listed = response?.ok ? (await response.json().catch(() => null))?.data?.[0]?.id : null;
  const model = listed ?? (await namesOf("models")).find((own) => !own.includes("*")) ?? "MODEL";
  const needsKey = response?.status === 401;
  if (model !== asked.peek().model || needsKey !== asked.peek().needsKey) asked.value = { model, needsKey };
}

// Shown before the first request. Made anew only if it changes, so that it keeps the focus.
let started = {};
function start() {
  const { model, needsKey } = asked.peek();
  if (started.error === error && started.asked === asked.peek()) return started.element;
  const command = curl(serverUrl().href, "chat", model, [{ role: "user", content: "Hello" }], needsKey);
  const element = empty("No requests yet", error ? note(error) : null,
    h("p.dim", "Point a client at this server, or send a request:"),
    region("pre.code", "Command", command),
    h("div.row", h("button", { onclick: () => copied(command) }, "Copy"), h("button", { onclick: sample }, "Send a sample request"), h("a", { href: href("play") }, "Open the playground")));
  started = { error, asked: asked.peek(), element };
  return element;
}

// A sample exchange that toolwire runs itself, without a key or an upstream.
async function sample() {
  try {
    go(href("live", (await call("POST", "sample", {})).exchange));
  } catch (failure) {
    failed(failure);
  }
}
