// The page: reads the report, lays out its sections.

const report = JSON.parse(document.getElementById("report").textContent);
const sides = [
  ...report.targets.map((target, index) => ({ name: target.name, target, color: `var(--s${index % 6})`, dash: DASHES[(index + Math.floor(index / 6)) % 6] })),
  ...(report.baseline ? [{ name: "baseline", target: report.baseline, color: "var(--base)", dash: "1 3", base: true }] : []),
];

// ---- Head -----------------------------------------------------------------------------------------------------------

const root = document.documentElement;
function themeChoice() {
  const themes = { auto: "System theme", light: "Light", dark: "Dark" };
  const asked = new URLSearchParams(location.search).get("theme");
  const options = Object.entries(themes).map(([theme, title]) => html("option", { value: theme, selected: theme === asked }, title));
  const choice = html("select", { "aria-label": "Theme", on: { change: () => show() } }, options);
  const show = () => { root.dataset.theme = choice.value; };
  show();
  return choice;
}
function saveButton() {
  const save = () => {
    const url = URL.createObjectURL(new Blob([JSON.stringify(report, null, 1)], { type: "application/json" }));
    html("a", { href: url, download: "bench.json" }).click();
    URL.revokeObjectURL(url);
  };
  return html("button", { type: "button", on: { click: save } }, "Save as JSON");
}
document.querySelector("header .bar").append(html("div", { class: "bar push" }, saveButton(), themeChoice()));
const started = new Date(report.started * 1000).toISOString().slice(0, 16).replace("T", " ");
const machine = report.machine;
document.querySelector(".lead").append(
  [`${report.dialect} · ${report.load}`, (report.rounds ? `${report.rounds} round${report.rounds > 1 ? "s" : ""} in ` : "") + span(report.seconds), `${started} UTC`,
    `${machine.system}, ${machine.cores} cores` + (machine.load ? `, load ${machine.load.map((load) => load.toFixed(2)).join(" → ")}` : "")].join(" · "));

// ---- Targets --------------------------------------------------------------------------------------------------------

function losses(all) {
  const kinds = ["refused", "failed", "broken", "malformed", "unsent"].filter((kind) => all[kind]);
  return kinds.length ? [", ", html("span", { class: "bad" }, kinds.map((kind) => `${count(all[kind])} ${kind}`).join(", "))] : null;
}
const cards = html("div", { class: "targets" }, sides.map((side) =>
  html("div", { color: side.color },
    html("b", {}, side.name),
    html("span", { class: "dim" }, side.target.url),
    `${count(side.target.all.good)} of ${count(side.target.all.streams)} streams good`, losses(side.target.all),
    html("span", { class: "dim" }, `${number(side.target.all.tokens_per_second)} tokens/s, ${count(side.target.all.gaps)} ${side.target.all.gaps === 1 ? "gap" : "gaps"}`))));

// ---- Figures --------------------------------------------------------------------------------------------------------

const head = (side) => html("th", { scope: "row" }, swatch(side), side.name);
const cells = (values) => values.map((value) => html("td", {}, value));
const against = (measure) => {
  const ratio = compared(report).find((ratio) => ratio.measure === measure);
  return ratio ? `÷ ${ratio.to}` : "";
};

function latencies() {
  const rows = Object.keys(MEASURES).flatMap((metric) =>
    sides.filter((side) => side.target.all.metrics[metric]).map((side, index, all) => {
      const found = side.target.all.metrics[metric];
      return html("tr", {}, group(index, all.length, MEASURES[metric][0]), head(side),
        cells([count(found.count)]),
        cells(["min", "mean", "p50", "p90", "p95", "p99", "p999", "max"].map((statistic) => time(found[statistic]))),
        cells(compared(report).length ? ["p50", "p99"].map((statistic) => ratioOf(report, side, `${metric}_${statistic}`)) : []));
    }));
  const heads = ["measure", "target", "values", "min", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"];
  const ratios = compared(report).length ? [`p50 ${against("ttft_p50")}`, `p99 ${against("ttft_p99")}`] : [];
  return rows.length ? table("Latencies", [...heads, ...ratios], rows) : null;
}

function counts() {
  const kinds = ["streams", "good", "refused", "failed", "broken", "malformed", ...(report.targets.some((target) => target.all.unsent) ? ["unsent"] : []), "gaps", "tokens", "bytes"];
  const rows = sides.map((side) => html("tr", {}, head(side), cells(kinds.map((kind) => count(side.target.all[kind]))), cells([number(side.target.all.streams_per_second), number(side.target.all.tokens_per_second)])));
  return table("Counts", ["target", ...kinds, "streams/s", "tokens/s"], rows);
}

// The cost per token and per stream, and the ratios of measures that are not times.
function costs() {
  const isWatched = report.targets.some((target) => target.all.process);
  const ratio = (measure) => against(measure) && [against(measure), (side) => ratioOf(report, side, measure)];
  const rate = against("tokens_per_second");
  const columns = [
    rate && [`tokens/s ${rate}`, (side) => ratioOf(report, side, "tokens_per_second")],
    ...(isWatched ? [
      ["CPU/token", ({ target }) => time(target.all.process?.cpu_per_token)], ratio("cpu_per_token"),
      ["KiB/stream", ({ target }) => number(target.all.process?.kib_per_stream)], ratio("kib_per_stream"),
      ["MiB idle", ({ target }) => number(target.all.process?.idle_kib / 1024)],
      ["MiB peak", ({ target }) => number(target.all.process?.peak_kib / 1024)],
      ["open streams", ({ target }) => count(target.all.process?.open_streams)]] : []),
  ].filter(Boolean);
  const rows = sides.filter((side) => !side.base).map((side) => html("tr", {}, head(side), cells(columns.map(([, of]) => of(side)))));
  return columns.length ? table("Costs", ["target", ...columns.map(([title]) => title)], rows) : null;
}

function rounds() {
  const shown = [["ttft", "p50"], ["ttft", "p99"], ["itl", "p99"], ["added", "p50"], ["added", "p99"]];
  const rows = report.targets.flatMap((target, position) => target.rounds.map((round, index, all) =>
    html("tr", {}, group(index, all.length, swatch(sides[position]), target.name),
      cells([index + 1, `${count(round.good)} of ${count(round.streams)}`]),
      cells(shown.map(([metric, statistic]) => time(round.metrics[metric]?.[statistic]))),
      cells([number(round.tokens_per_second), time(round.process?.cpu_per_token), number(round.process?.kib_per_stream)]))));
  const heads = ["target", "round", "good", ...shown.map(([metric, statistic]) => `${MEASURES[metric][0]} ${statistic}`), "tokens/s", "CPU/token", "KiB/stream"];
  return html("details", {}, html("summary", {}, "Round by round"), table("Rounds", heads, rows));
}

function complaints() {
  const rows = sides.flatMap((side) => Object.entries(side.target.complaints).map(([sentence, times], index, all) =>
    html("tr", {}, group(index, all.length, swatch(side), side.name), cells([count(times)]), html("td", { class: "text" }, sentence))));
  return rows.length ? section("Complaints", "How streams violated the rules of their dialect, or how they broke off.", table("Complaints", ["target", "times", "complaint"], rows)) : null;
}

// ---- Method ---------------------------------------------------------------------------------------------------------

function method() {
  const { overhead } = report;
  const present = Object.keys(MEASURES).filter((metric) => sides.some((side) => side.target.all.metrics[metric]));
  const lag = overhead.start_lag;
  const terms = [
    ...present.map((metric) => [MEASURES[metric][0], MEASURES[metric][2]]),
    compared(report).length && ["ratios", "Computed within each round, since all targets of a round share its conditions; the median, and in parentheses the lowest and the highest. ≈ marks ratios whose rounds lie on both sides of 1: no difference was shown."],
    ["whiskers", "The lowest and the highest round, ▸ where that lies beyond the scale; the bar shows all rounds together. ┆ is the baseline: a mock inside the tool, read by the same client."],
    ["the tool", `${time(overhead.cpu_per_token)} CPU per token, ${number(overhead.parse_ns)} ns to read a delta, ${number(overhead.clock_ns)} ns to read the clock` +
      (lag ? `; requests were sent ${time(lag.p50)} (p50) and ${time(lag.p99)} (p99) after their intended start.` : ".")],
    ["command", html("code", {}, report.command)],
    ["version", report.version],
  ].filter(Boolean);
  return section("Method", "", html("dl", {}, terms.flatMap(([term, meaning]) => [html("dt", {}, term), html("dd", {}, meaning)])));
}

document.querySelector("main").append(...[
  cards,
  report.rounds ? null : ramps(report, sides),
  section("Side by side", "All rounds together; whiskers show the lowest and the highest round. Lower is better unless stated otherwise."
    + (compared(report).length ? " Grey: the ratio to the first target that has the measure, with its spread; ≈ where the rounds disagree." : "")
    + (report.baseline ? " ┆ baseline." : ""), bars(report, sides)),
  curves(sides),
  timeline(sides),
  report.rounds ? ramps(report, sides) : null,
  section("Figures", "", counts(), costs(), latencies(), rounds()),
  complaints(),
  method(),
].filter(Boolean));
