// The charts. A side is a target or the baseline: { name, color, dash, target, base }.

const MEASURES = {
  ttfb: ["TTFB", "time to first byte", "Intended start of the request to the first byte of the body."],
  ttft: ["TTFT", "time to first token", "Intended start to the first delta with content."],
  first_call: ["first call", "time to first call", "Intended start to the moment the first tool call's name is known."],
  last_call: ["last call", "time to last piece of a call", "Intended start to the last piece of a tool call."],
  itl: ["ITL", "time between tokens", "Time between two successive deltas with content of one stream."],
  tpot: ["TPOT", "time per output token", "Mean time per output token after the first: (last − first) ÷ (tokens − 1)."],
  e2e: ["E2E", "end to end", "Intended start to the end of the stream."],
  added: ["added", "latency added to each token", "From the mock's postmark in a token to its arrival: the latency that the target added."],
  slip: ["slip", "delay of the mock", "How late the mock sent a token, compared with its own schedule. Not caused by the target."],
};

// ---- Bars -----------------------------------------------------------------------------------------------------------

const timed = (metric, statistic) => ({
  title: `${MEASURES[metric][0]} ${statistic}`, hint: MEASURES[metric][1], measure: `${metric}_${statistic}`, format: time,
  of: (summary) => summary.metrics[metric]?.[statistic],
});
const BARS = [
  timed("added", "p50"), timed("added", "p99"), timed("ttft", "p50"), timed("ttft", "p99"), timed("first_call", "p50"),
  timed("itl", "p50"), timed("itl", "p99"), timed("e2e", "p50"),
  { title: "tokens/s", hint: "higher is better", measure: "tokens_per_second", format: number, of: (summary) => summary.tokens_per_second },
  { title: "CPU per token", hint: "of the measured process", measure: "cpu_per_token", format: time, of: (summary) => summary.process?.cpu_per_token },
  { title: "memory per stream", hint: "above idle", measure: "kib_per_stream", format: (kib) => `${number(kib)} KiB`, of: (summary) => summary.process?.kib_per_stream },
];

// After a ramp, the figures of each target belong to a different load, so they are not compared.
const compared = (report) => (report.rounds ? report.ratios : []);

function ratioOf(report, side, measure) {
  const ratio = compared(report).find((ratio) => ratio.target === side.name && ratio.measure === measure);
  if (!ratio || side.base) return "";
  const unsure = ratio.min <= 1 && ratio.max >= 1 ? "≈ " : "";
  return `${unsure}${factor(ratio.median)} (${factor(ratio.min)}–${factor(ratio.max)})`;
}

function bars(report, sides) {
  const targets = sides.filter((side) => !side.base);
  const panels = BARS.map((bar) => panel(report, bar, targets, sides.find((side) => side.base))).filter(Boolean);
  return html("div", { class: "panels" }, panels);
}

function panel(report, bar, targets, base) {
  const shown = targets.filter((side) => Number.isFinite(bar.of(side.target.all)));
  if (!shown.length) return null;
  const rounds = (side) => side.target.rounds.map(bar.of).filter(Number.isFinite);
  const floor = bar.format === time && base ? bar.of(base.target.all) : undefined;
  // One bad round must not shrink all bars, so whiskers that exceed the scale end in an arrow.
  const highest = Math.max(...shown.map((side) => bar.of(side.target.all)), floor ?? 0);
  const most = Math.min(Math.max(highest, ...shown.flatMap(rounds)), 1.6 * highest) || 1;
  const rows = shown.map((side) => {
    const value = bar.of(side.target.all);
    return html("div", { class: "row" },
      html("div", { class: "caption" },
        html("span", { class: "name" }, side.name),
        html("span", { class: "ratio" }, ratioOf(report, side, bar.measure)),
        html("span", { class: "value" }, bar.format(value))),
      drawn("", (width) => stick(width, most, value, rounds(side), floor, side)));
  });
  const hint = floor === undefined ? bar.hint : `${bar.hint} · ┆ ${bar.format(floor)}`;
  return html("div", { class: "panel" }, html("h3", {}, bar.title, html("span", {}, hint)), rows);
}

function stick(width, most, value, rounds, floor, side) {
  const x = linear([0, most], [0, width - 1]);
  const [least, greatest] = [Math.min(...rounds, most), Math.max(...rounds)];
  const cut = greatest > most * 1.001;
  const ends = cut ? [x(least)] : [x(least), x(greatest)];
  return shape("svg", { height: 14, viewBox: `0 0 ${width} 14`, color: side.color, "aria-hidden": "true" },
    shape("rect", { class: "track", x: 0, y: 3, width, height: 8, rx: 2 }),
    shape("rect", { class: "fill", x: 0, y: 3, width: Math.max(x(value), 1), height: 8, rx: 2 }),
    floor !== undefined && shape("line", { class: "floor", x1: x(floor), x2: x(floor), y1: 0, y2: 14 }),
    rounds.length > 1 && [
      shape("line", { class: "whisker", x1: x(least), x2: cut ? width - 4 : x(greatest), y1: 7, y2: 7 }),
      ...ends.map((at) => shape("line", { class: "whisker", x1: at, x2: at, y1: 3.5, y2: 10.5 })),
      cut && shape("path", { class: "arrow", d: `M${width},7l-6,-4v8z` }, shape("title", {}, "beyond the scale")),
    ]);
}

// ---- Percentile curves ----------------------------------------------------------------------------------------------

const nines = (percentile) => -Math.log10(Math.max(1 - percentile / 100, 1e-9));
const EXACT = [["min", 0], ["p50", 50], ["p90", 90], ["p95", 95], ["p99", 99], ["p999", 99.9], ["max", 100]];

// The points of a curve in ascending order, including the values in the table.
const pointsOf = new Map();
function curveOf(side, metric) {
  const found = side.target.all.metrics[metric];
  if (!found?.curve?.length) return [];
  if (!pointsOf.has(found)) {
    const points = new Map([...found.curve, ...EXACT.map(([name, at]) => [at, found[name]])]);
    pointsOf.set(found, [...points].sort(([one], [other]) => one - other));
  }
  return pointsOf.get(found);
}

// The value at a percentile, interpolated along the line as it is drawn.
function valueAt(curve, percentile, log) {
  const next = curve.findIndex(([at]) => at >= percentile - 1e-9);
  if (next < 1) return curve.at(next)?.[1];
  const [[at, value], [nextAt, nextValue]] = [curve[next - 1], curve[next]];
  if (Math.abs(nextAt - percentile) < 1e-9) return nextValue;
  const part = (nines(percentile) - nines(at)) / (nines(nextAt) - nines(at) || 1);
  return log && value > 0 ? value * (nextValue / value) ** part : value + (nextValue - value) * part;
}

function curves(sides) {
  const present = Object.keys(MEASURES).filter((metric) => sides.some((side) => curveOf(side, metric).length > 1));
  if (!present.length) return null;
  const state = { metric: present.includes("added") ? "added" : present[0], log: true, at: 99, hidden: new Set() };
  const chart = drawn("chart", (width) => curveChart(width, sides, state, describe));
  const caption = html("div", { "aria-live": "polite" });

  function describe() {
    const [short, , meaning] = MEASURES[state.metric];
    caption.replaceChildren(
      html("p", {}, html("b", {}, `${short}, ${percent(state.at)}`), html("span", { class: "dim" }, ` · ${meaning}`)),
      html("ul", { class: "legend" }, sides.filter((side) => curveOf(side, state.metric).length).map((side) =>
        html("li", {}, swatch(side), html("span", { class: "name" }, side.name),
          html("span", { class: "value" }, time(valueAt(curveOf(side, state.metric), state.at, state.log)))))));
  }
  const redraw = () => { chart.redraw(); describe(); };
  const choice = html("fieldset", { class: "choice", "aria-label": "Measure" }, present.map((metric) =>
    html("label", { title: MEASURES[metric][1] },
      html("input", { type: "radio", name: "metric", value: metric, checked: metric === state.metric,
        on: { change: () => { state.metric = metric; redraw(); } } }), MEASURES[metric][0])));
  const log = html("label", {}, html("input", { type: "checkbox", checked: true,
    on: { change: (event) => { state.log = event.target.checked; redraw(); } } }), "logarithmic");
  describe();
  return section("Percentile curves",
    "The share of values that lie below; each step to the right is ten times rarer. Hover over the chart, or focus it and use the arrow keys.",
    html("div", { class: "controls" }, choice, log), chart, caption);
}

function curveChart(width, sides, state, describe) {
  const shown = sides.map((side) => [side, curveOf(side, state.metric)]).filter(([, curve]) => curve.length > 1);
  // The largest of n values represents the last 1/n of them, so it is placed in the middle of that, at 1 − 1/2n.
  const end = (side) => Math.log10(2 * side.target.all.metrics[state.metric].count);
  const rarest = Math.max(1, ...shown.map(([side]) => end(side)));
  const place = (side, percentile) => Math.min(nines(percentile), end(side));
  const values = shown.flatMap(([, curve]) => curve.map(([, value]) => value));
  const [least, most] = [Math.max(Math.min(...values), 0.1), Math.max(...values, 0.2)];
  const height = Math.max(240, Math.min(380, width * 0.42));
  const [left, right, top, bottom] = [58, 10, 10, 34];
  const x = linear([0, rarest], [left, width - right]);
  const bounds = state.log ? [least / 1.15, Math.max(most, least * 1.5) * 1.15] : [0, most * 1.05];
  const y = (state.log ? logarithmic : linear)(bounds, [height - bottom, top]);
  const marks = state.log ? powers(...bounds) : steps(bounds[1], 5);
  const percentiles = [0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999].filter((at) => nines(at) <= rarest + 0.01)
    .filter((at) => at !== 50 || x(nines(50)) - x(0) > 26);

  const cursor = shape("g", {});
  const put = () => {
    const at = Math.min(x(nines(state.at)), width - right);
    cursor.replaceChildren(
      shape("line", { class: "cursor", x1: at, x2: at, y1: top, y2: height - bottom }),
      ...shown.map(([side, curve]) => shape("circle", { class: "dot", color: side.color, r: 4.5, cx: at, cy: y(valueAt(curve, state.at, state.log)) })));
  };
  const move = (position) => {
    const bounded = Math.max(0, Math.min(position, rarest));
    state.at = bounded >= rarest - 1e-6 ? 100 : 100 * (1 - 10 ** -bounded);
    put();
    describe();
  };
  const here = () => (state.at === 100 ? rarest : nines(state.at));
  put();
  return shape("svg", {
    height, viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img",
    "aria-label": `Percentile curves of ${MEASURES[state.metric][0]}: ` + shown.map(([side, curve]) =>
      `${side.name} p50 ${time(valueAt(curve, 50))}, p99 ${time(valueAt(curve, 99))}`).join("; "),
    on: {
      pointermove: (event) => {
        const box = event.currentTarget.getBoundingClientRect();
        move(((event.clientX - box.left - left) / (width - left - right)) * rarest);
      },
      keydown: (event) => {
        const by = { ArrowRight: 0.1, ArrowLeft: -0.1 }[event.key];
        if (by === undefined) return;
        event.preventDefault();
        move(Math.round((here() + by) * 10) / 10);
      },
    },
  },
    marks.map((value) => [
      shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      shape("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, mark(value))]).flat(),
    percentiles.map((at) => [
      shape("line", { class: "grid", x1: x(nines(at)), x2: x(nines(at)), y1: top, y2: height - bottom }),
      shape("text", { x: x(nines(at)), y: height - bottom + 16, "text-anchor": "middle" }, String(at))]).flat(),
    shape("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    shape("text", { x: width - right, y: height - 2, "text-anchor": "end" }, "percentile"),
    shown.map(([side, curve]) => shape("path", { class: "curve", color: side.color, "stroke-dasharray": side.dash,
      d: curve.map(([at, value], index) => `${index ? "L" : "M"}${x(place(side, at)).toFixed(1)},${y(value).toFixed(1)}`).join("") })),
    cursor,
    shape("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom, fill: "transparent" }));
}

// ---- Timeline -------------------------------------------------------------------------------------------------------

const longestPause = (tokens) => tokens.reduce((most, at, index) => (index ? Math.max(most, at - tokens[index - 1]) : 0), 0);

function timeline(sides) {
  const shown = sides.filter((side) => side.target.timelines.length);
  const whole = Math.max(0, ...shown.flatMap((side) => side.target.timelines.map((line) => line.end)));
  if (!whole) return null;
  const state = { upTo: whole };
  const chart = drawn("chart", (width) => timelineChart(width, shown, state));
  const shownTime = html("output", {}, time(whole));
  const zoom = html("input", { type: "range", min: 0, max: 100, value: 100, on: { input: (event) => {
    state.upTo = whole * (Math.min(2000, whole) / whole) ** (1 - event.target.value / 100);
    shownTime.textContent = time(state.upTo);
    chart.redraw();
  } } });
  return section("Timeline of tokens",
    "One row per stream, with a few streams of each target; one stroke per token, at its arrival. ○ first byte, ◆ start of the first call, ┃ end. Times are measured from the intended start.",
    html("div", { class: "controls" }, html("label", {}, "show the first", zoom, shownTime)), chart);
}

function timelineChart(width, sides, state) {
  const noted = width > 640;
  const [left, right, pitch] = [8, noted ? 132 : 8, 18];
  const x = linear([0, state.upTo], [left, width - right]);
  const within = (at) => at != null && at <= state.upTo * 1.0001;
  const parts = [];
  let top = 4;
  for (const side of sides) {
    parts.push(label(side.name, width - right, { class: "ink", x: left, y: top + 13 }));
    if (noted && side === sides[0]) parts.push(shape("text", { x: width, y: top + 13, "text-anchor": "end" }, "longest pause"));
    top += 20;
    for (const line of side.target.timelines) {
      parts.push(streamRow(line, side, x, top + pitch / 2, within, state.upTo));
      if (noted) parts.push(shape("text", { x: width, y: top + pitch / 2 + 4, "text-anchor": "end" }, time(longestPause(line.tokens))));
      top += pitch;
    }
    top += 8;
  }
  const wanted = Math.max(2, Math.floor((width - right) / 110));
  const axis = steps(state.upTo, wanted).map((value) => [
    shape("line", { class: "grid", x1: x(value), x2: x(value), y1: 0, y2: top }),
    shape("text", { x: x(value), y: top + 16, "text-anchor": value ? "middle" : "start" }, mark(value))]).flat();
  return shape("svg", { height: top + 22, viewBox: `0 0 ${width} ${top + 22}`, role: "img", "aria-label":
    "Timeline of tokens: " + sides.map((side) => `${side.name}, longest pauses ${side.target.timelines.map((line) => time(longestPause(line.tokens))).join(", ")}`).join("; ") },
    axis, parts);
}

function streamRow(line, side, x, y, within, upTo) {
  const strokes = line.tokens.filter(within).map((at) => `M${x(at).toFixed(2)},${y - 5.5}v11`).join("");
  const call = within(line.first_call) ? x(line.first_call) : null;
  return shape("g", { color: side.color },
    shape("title", {}, `${side.name}: ${line.tokens.length} tokens, first byte ${time(line.first_byte)}, end ${time(line.end)}, longest pause ${time(longestPause(line.tokens))}`),
    shape("line", { class: "life", x1: x(0), x2: x(Math.min(line.end, upTo)), y1: y, y2: y }),
    shape("path", { class: "token", d: strokes || "M0,0" }),
    within(line.end) && shape("line", { class: "end", x1: x(line.end), x2: x(line.end), y1: y - 7, y2: y + 7 }),
    within(line.first_byte) && shape("circle", { class: "byte", cx: x(line.first_byte), cy: y, r: 3.5 }),
    call !== null && shape("path", { class: "call", d: `M${call},${y - 6}l5,6l-5,6l-5,-6z` }));
}

// ---- Ramp -----------------------------------------------------------------------------------------------------------

function ramps(report, sides) {
  if (!report.ramps.length) return null;
  const chart = drawn("chart", (width) => rampChart(width, report.ramps, sides));
  const rows = report.ramps.flatMap((ramp) => [...ramp.steps].sort((one, other) => one.streams - other.streams).map((step, index, all) =>
    html("tr", {}, group(index, all.length, ramp.target), html("td", {}, count(step.streams)),
      html("td", { class: "text" }, step.held ? "met" : "not met"), html("td", { class: "text" }, step.measured.join(", ")))));
  return section("Ramp", `The highest number of concurrent streams that meets ${report.ramps[0].slo}. ● met, ✕ not met.`, chart,
    html("details", {}, html("summary", {}, "All steps"), table("Steps", ["target", "streams", "target met", "measured"], rows)));
}

function rampChart(width, ramps, sides) {
  const tried = ramps.flatMap((ramp) => ramp.steps.map((step) => step.streams));
  const [left, right, pitch] = [8, 16, 50];
  const x = logarithmic([Math.min(...tried) / 1.3, Math.max(...tried) * 1.2], [left, width - right]);
  const height = ramps.length * pitch + 26;
  const ends = powers(Math.min(...tried) / 1.3, Math.max(...tried) * 1.2);
  const rows = ramps.map((ramp, index) => {
    const y = index * pitch + 32;
    const side = sides.find((side) => side.name === ramp.target && !side.base) ?? sides[0];
    return shape("g", { color: side.color },
      label(ramp.target, width - 140, { class: "ink", x: left, y: y - 16 }),
      shape("text", { class: "ink", x: width - right, y: y - 16, "text-anchor": "end" }, ramp.streams == null ? "never met" : `${count(ramp.streams)} streams`),
      shape("line", { class: "life", x1: left, x2: width - right, y1: y, y2: y }),
      ramp.streams != null && shape("line", { class: "curve", x1: left, x2: x(ramp.streams), y1: y, y2: y }),
      // If a step was repeated, its last attempt counts.
      [...new Map(ramp.steps.map((step) => [step.streams, step])).values()].map((step) => step.held
        ? shape("circle", { class: "dot", cx: x(step.streams), cy: y, r: 5.5 }, shape("title", {}, `${step.streams}: ${step.measured.join(", ")}`))
        : shape("path", { class: "missed", d: `M${x(step.streams) - 4.5},${y - 4.5}l9,9m0,-9l-9,9` }, shape("title", {}, `${step.streams}: ${step.measured.join(", ")}`))));
  });
  return shape("svg", { height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Ramp: " + ramps.map((ramp) => `${ramp.target} ${ramp.streams ?? "no"} streams`).join("; ") },
    ends.map((value) => [
      shape("line", { class: "grid", x1: x(value), x2: x(value), y1: 20, y2: height - 20 }),
      shape("text", { x: x(value), y: height - 5, "text-anchor": "middle" }, count(Math.round(value)))]).flat(),
    rows);
}
