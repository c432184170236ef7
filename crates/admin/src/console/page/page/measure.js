// Measure: figures for the last hour, and the bench.

import { call, get, namesOf, session } from "../core/api.js";
import { figures, fill, fresh, h, labelled, name, region, select } from "../core/dom.js";
import { csv } from "../core/exports.js";
import { connection, listen } from "../core/feed.js";
import { save } from "../core/copy.js";
import { go, href } from "../core/route.js";
import { ago, count, duration, percent, tenth } from "../core/time.js";
import { copied, json } from "../view/json.js";
import { empty, note } from "../view/note.js";
import { spark } from "../view/spark.js";

const sum = (errors) => Object.values(errors ?? {}).reduce((all, own) => all + own, 0);
const share = (own) => (own.requests ? sum(own.errors) / own.requests : NaN);

export default function measure({ place, heading, route }) {
  let data = null, problem = null, fetched = 0, run = null, refusal = null;
  const span = select([["15m", "last 15 minutes"], ["30m", "last 30 minutes"], ["1h", "last hour"]], route.query.get("window") ?? "1h", { "aria-label": "Window", onchange: chosen });
  const by = select(["model", "key", "upstream"], route.query.get("by") ?? "model", { onchange: chosen });
  const updated = h("span.small.dim");
  const past = h("div");
  const bench = h("section.panel.stack");
  const current = h("div.row", { role: "group", "aria-label": "Now" });
  fill(place, h("div.bar", heading, span, labelled("by", by), updated, h("span.push.row", h("button", { onclick: () => copied(JSON.stringify(data, null, 2)) }, "Copy as JSON"), h("button", { onclick: exportCsv }, "CSV"))), current, past, bench);

  function chosen() {
    go(href("measure", "", { window: span.value, by: by.value }), { replace: true });
    load();
  }

  async function load() {
    if (!session.peek()?.signed_in) return;
    try {
      data = await get(`metrics?window=${span.value}&by=${by.value}`);
      problem = null;
      fetched = Date.now();
    } catch (error) {
      problem = error;
    }
    paint();
  }

  // The last minute, from the events that the feed sends every second.
  function paintNow() {
    const { now = {} } = data ?? {};
    fill(current, figures([["running", count(now.running)], ["requests a second", tenth(now.requests_per_s)], ["tokens a second", tenth(now.output_tokens_per_s)], ["TTFT p50", duration(now.ttft_ms?.p50)]]), h("span.small.faint", "in the last minute"));
  }

  // Compares a figure with the same figure of the previous window.
  function versus(now, before, isShare) {
    if (!Number.isFinite(now) || !Number.isFinite(before) || !before && !isShare) return "";
    const change = isShare ? (now - before) * 100 : ((now - before) / before) * 100;
    return `${change >= 0 ? "+" : "−"}${Math.abs(change).toFixed(Math.abs(change) < 10 ? 1 : 0)} ${isShare ? "points" : "%"} vs before`;
  }

  function key(label, value, unit, note) {
    return h("div", h("dt", label), h("dd", value, unit && h("small", ` ${unit}`), h("div.vs", note || " ")));
  }

  function paint() {
    if (problem) return fill(past, note(problem, { retry: load }));
    if (!data) return;
    paintNow();
    const { totals, before, rows, series, step_s: step = 60 } = data;
    if (!totals.requests) {
      fill(past, empty(`No requests in the ${span.selectedOptions[0].textContent}`, h("p.dim", "Figures are kept in memory since toolwire started. "), h("div", h("a", { href: href("play") }, "Open the playground"))));
      return;
    }
    const [first, unit] = duration(totals.ttft_ms.p50).split(" ");
    const times = [...Array(Math.round(data.window_s / step)).keys()].map((at) => Math.floor(data.t / (step * 1000)) * step * 1000 - (data.window_s / step - 1 - at) * step * 1000);
    const byTime = new Map(series.map((own) => [own.t, own]));
    const line = (of) => times.map((t) => (byTime.has(t) ? of(byTime.get(t)) : null));
    const errors = Object.entries(totals.errors).map(([kind, number]) => `${kind.replaceAll("_", " ")} ${number}`).join(", ");
    const busiest = (number) => rows.reduce((all, own) => all + own.totals[number], 0);
    fill(past, h("div.stack",
      h("dl.keys",
        key("Requests", count(totals.requests), "", versus(totals.requests, before.requests)),
        key("TTFT p50", first, unit, `p95 ${duration(totals.ttft_ms.p95)}`),
        key("Tokens a second", tenth(totals.tokens_per_s), "", versus(totals.tokens_per_s, before.tokens_per_s)),
        key("Errors", percent(share(totals)), "", errors || versus(share(totals), share(before), true)),
        key("Tokens", count(totals.input_tokens + totals.output_tokens), "", `${count(totals.input_tokens)} in, ${count(totals.output_tokens)} out`),
        key("Client calls", count(busiest("calls")), "", `${count(busiest("retries"))} retries`)),
      h("div.charts",
        spark("Requests a minute", [times.map((t) => byTime.get(t)?.requests ?? 0)], count),
        spark("TTFT: p50, and p95 dashed", [line((own) => own.ttft_ms.p50), line((own) => own.ttft_ms.p95)], duration)),
      region("div.wide-table", `By ${data.by}`, table(rows))));
  }

  const COLUMNS = [
    ["Requests", (own) => own.requests, count], ["Errors", share, percent], ["TTFT p50", (own) => own.ttft_ms.p50, duration], ["p95", (own) => own.ttft_ms.p95, duration],
    ["Tok/s", (own) => own.tokens_per_s, tenth], ["Tokens", (own) => own.input_tokens + own.output_tokens, count], ["Client calls", (own) => own.calls, count], ["Retries", (own) => own.retries, count],
  ];

  const table = (rows) => h("table.plain",
    h("thead", h("tr", h("th", { scope: "col" }, data.by), COLUMNS.map(([label]) => h("th.num", { scope: "col" }, label)))),
    h("tbody", [...rows].sort((one, other) => other.totals.requests - one.totals.requests).map((row) => h("tr", h("th", { scope: "row" }, h("a", { href: href("live", "", { q: `${data.by}:${/\s/.test(row.name) ? JSON.stringify(row.name) : row.name}` }) }, h("span.clamp", name(row.name)))), COLUMNS.map(([, of, show]) => h("td.num", show(of(row.totals))))))));

  function exportCsv() {
    if (!data) return;
    save("measure.csv", csv([[data.by, ...COLUMNS.map(([label]) => label)], ...data.rows.map((row) => [row.name, ...COLUMNS.map(([, of]) => of(row.totals))])]), "text/csv");
  }

  // The bench: one run at a time, and only against configured upstreams.
  async function loadBench() {
    if (!session.peek()?.signed_in) return;
    try {
      run = await get("bench");
    } catch (error) {
      if (error.status === 404) run = null;
      else refusal = error;
    }
    paintBench();
  }

  const names = h("datalist", { id: fresh("upstreams") });
  const ids = h("datalist", { id: fresh("models") });
  const upstream = h("input", { type: "text", list: names.id, onchange: suggest }), model = h("input", { type: "text", list: ids.id }), streams = h("input", { type: "text", inputmode: "numeric", value: "50", size: 5 }), tokens = h("input", { type: "text", inputmode: "numeric", value: "200", size: 5 });
  const cost = h("span.small.dim");
  const estimate = () => (cost.textContent = `about ${count(Number(streams.value) * Number(tokens.value) || 0)} tokens`);
  [streams, tokens].forEach((field) => field.addEventListener("input", estimate));
  estimate();
  const form = h("div.row", labelled("Upstream ", upstream), names, labelled("Model ", model), ids, labelled("Streams ", streams), labelled("Tokens ", tokens), h("button.main", { onclick: () => change("POST", { upstream: upstream.value, ...(model.value && { model: model.value }), streams: Number(streams.value), tokens: Number(tokens.value) }) }, "Run"), cost);

  async function change(method, body) {
    refusal = null;
    try {
      run = await call(method, "bench", body);
    } catch (error) {
      refusal = error;
    }
    paintBench();
  }

  // Why streams are incomplete.
  const complaints = (own = {}) => Object.keys(own).length > 0 && h("ul.bad", Object.entries(own).slice(0, 8).map(([text, times]) => h("li", `${count(times)} × `, name(text))));

  // A report's figures in one line. The report's times are in microseconds.
  function summary({ targets: [{ all, complaints: wrong }] }) {
    const time = (metric) => duration((all.metrics[metric]?.p50 ?? NaN) / 1000);
    return [h("p", `${count(all.good)} of ${count(all.streams)} streams are complete${all.good ? `, TTFT p50 ${time("ttft")}, ${time("itl")} between tokens, ${tenth(all.tokens_per_second)} tokens/s in all` : ""}`),
      complaints(wrong)];
  }

  function paintBench() {
    const isRunning = run?.state === "running";
    fill(bench, h("h2", "Bench"),
      run === null ? h("p.dim", "This toolwire has no bench in its API. ", h("code", "toolwire bench"), " measures from the command line.") : isRunning
        ? h("div.row", h("progress", { max: 1, value: run.progress ?? 0, "aria-label": "Progress" }), percent(run.progress), h("button", { onclick: () => change("DELETE", {}) }, "Stop"))
        : form,
      (refusal ?? run?.error) && note(refusal ?? run.error),
      run?.report && summary(run.report),
      run?.report && h("details.fold", h("summary", "Last report"), h("div", json(run.report, "Report", 2))));
  }

  const timer = setInterval(() => {
    if (document.hidden) return;
    const age = Date.now() - fetched;
    updated.textContent = fetched ? `updated ${ago(fetched, Date.now())} ago` : "";
    for (const part of [current, past]) part.classList.toggle("stale", fetched > 0 && (age > 15_000 || connection.peek().state !== "live"));
    if (age > 10_000) load();
    if (run?.state === "running") loadBench();
  }, 1000);
  const stop = listen((kind, now) => {
    if (kind === "reset") load();
    else if (kind === "metrics" && data) {
      data.now = now;
      paintNow();
    }
  });
  load();
  loadBench();
  namesOf("upstreams").then((known) => {
    fill(names, known.map((own) => h("option", { value: own })));
    upstream.value ||= known[0] ?? "";
  }).then(suggest);

  // The names under which the upstream of a wildcard knows its models are those of its list.
  async function suggest() {
    const { models = [] } = session.peek()?.signed_in ? await get("models").catch(() => ({})) : {};
    fill(ids, models.filter((own) => own.upstream === upstream.value).map((own) => h("option", { value: own.name })));
  }
  return {
    route() {},
    leave() {
      clearInterval(timer);
      stop();
    },
  };
}
