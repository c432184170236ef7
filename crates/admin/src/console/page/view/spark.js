// A sparkline. A hidden table has the same figures for screen readers.

import { h, svg } from "../core/dom.js";

// `series`: lists of numbers of equal length, with null where there is no value.
export function spark(label, series, format) {
  const all = series.flat().filter(Number.isFinite);
  const most = Math.max(...all, 0) || 1;
  const shape = svg("svg", { class: "spark", viewBox: "0 0 600 64", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${all.length ? `at most ${format(most)}` : "no figures"}` });
  shape.append(svg("line", { x1: 0, y1: 63, x2: 600, y2: 63 }));
  series.forEach((numbers, index) => {
    const step = 600 / Math.max(1, numbers.length - 1);
    let run = [];
    const end = () => {
      if (run.length === 1) run.push(run[0].replace(/^[\d.]+/, (x) => String(Number(x) + 2)));
      if (run.length) shape.append(svg("polyline", { points: run.join(" "), class: index ? "second" : "first" }));
      run = [];
    };
    numbers.forEach((number, at) => {
      if (!Number.isFinite(number)) return end();
      run.push(`${(at * step).toFixed(1)},${(62 - (number / most) * 58).toFixed(1)}`);
    });
    end();
  });
  return h("figure", h("figcaption.row.small.dim", label, h("span.push", all.length ? `max ${format(most)}` : "")), shape);
}
