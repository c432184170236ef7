"use strict";
// Elements, figures and scales. All text of the report goes in as text, never as markup.

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (name === "color") node.style.setProperty("--c", value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}
const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const shape = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const NONE = "–";
const thousands = (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ",");

function number(value) {
  if (value == null || !Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 9.995 ? value.toFixed(2) : size < 99.95 ? value.toFixed(1) : thousands(value.toFixed(0));
}
function time(us) {
  if (us == null || !Number.isFinite(us)) return NONE;
  if (us < 999.5) return number(us) + "\u00a0µs";
  return us < 999500 ? number(us / 1e3) + "\u00a0ms" : number(us / 1e6) + "\u00a0s";
}
const count = (value) => (value == null ? NONE : thousands(String(value)));
const factor = (value) => (value !== 0 && Math.abs(value) < 0.0995 ? value.toFixed(3) : number(value));
const span = (seconds) =>
  seconds < 99.5 ? time(seconds * 1e6) : `${Math.floor(Math.round(seconds) / 60)} min ${Math.round(seconds) % 60} s`;
// A mark on an axis: no more digits than it needs.
function mark(us) {
  const [value, unit] = us < 1e3 ? [us, "µs"] : us < 1e6 ? [us / 1e3, "ms"] : [us / 1e6, "s"];
  return `${Number(value.toPrecision(3))}\u00a0${unit}`;
}
// No more digits than the chart can point at: p50, p99, p99.92.
const percent = (percentile) => `p${Number(percentile.toFixed(percentile < 100 ? Math.floor(-Math.log10(1 - percentile / 100) + 1e-6) : 0))}`;

const linear = ([from, to], [left, right]) => (value) => left + ((value - from) / (to - from || 1)) * (right - left);
const logarithmic = ([from, to], range) => {
  const scale = linear([Math.log10(from), Math.log10(to)], range);
  return (value) => scale(Math.log10(Math.max(value, from)));
};
// Round values from 0 to `most`, about `wanted` of them.
function steps(most, wanted) {
  const raw = most / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= raw * 0.999);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, index) => index * step);
}
// 1, 2, 5, 10, … within the bounds; only powers of ten if there would be too many.
function powers(from, to) {
  const digits = to / from > 2e3 ? [1] : to / from > 60 ? [1, 3] : [1, 2, 5];
  const marks = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.log10(to); power += 1)
    marks.push(...digits.map((digit) => digit * 10 ** power));
  return marks.filter((value) => value >= from * 0.999 && value <= to * 1.001);
}

// Draws now and whenever the width changes.
function drawn(className, draw) {
  const box = html("div", { class: className });
  let width = 0;
  box.redraw = () => width && box.replaceChildren(draw(width));
  // Drawing changes heights, which must not happen inside the observer's callback.
  new ResizeObserver(() => requestAnimationFrame(() => {
    if (box.clientWidth !== width) {
      width = box.clientWidth;
      box.redraw();
    }
  })).observe(box);
  return box;
}

// Text in a chart does not wrap: as much of `text` as fits into `width` pixels, and all of it on hover.
function label(text, width, attributes) {
  const room = Math.max(4, Math.floor(width / 7));
  return shape("text", attributes, text.length > room ? `${text.slice(0, room - 1)}…` : text, text.length > room && shape("title", {}, text));
}

const DASHES = ["", "7 3", "2 3", "9 3 2 3", "5 2", "1 2"];
const swatch = (side) =>
  shape("svg", { class: "swatch", viewBox: "0 0 26 10", "aria-hidden": "true", color: side.color },
    shape("line", { class: "curve", x1: 0, x2: 26, y1: 5, y2: 5, "stroke-dasharray": side.dash, "stroke-width": 3 }));
const section = (title, note, ...children) =>
  html("section", {}, html("h2", {}, title), note && html("p", { class: "note" }, note), ...children);

// A cell names its column, for screens on which a row is a list. The first column may have cells that span rows.
function table(name, heads, rows) {
  for (const row of rows) {
    const missing = heads.length - row.cells.length;
    [...row.cells].forEach((cell, index) => cell.localName === "td" && (cell.dataset.head = heads[index + missing]));
  }
  const isText = (index) => rows.some((row) => row.cells.length === heads.length && row.cells[index].matches("th, .text"));
  return html("div", { class: "scroll", role: "region", "aria-label": name, tabindex: 0 },
    html("table", { class: heads.length < 6 ? "few" : "many" },
      html("thead", {}, html("tr", {}, heads.map((head, index) => html("th", { scope: "col", class: isText(index) && "text" }, head)))),
      html("tbody", {}, rows)));
}

// The head of a group of `length` rows, in the first of them.
const group = (index, length, ...content) => index === 0 && html("th", { scope: "rowgroup", rowspan: length }, content);
