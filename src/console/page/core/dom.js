// Elements are made here, one by one. Text becomes text nodes, so nothing from outside becomes markup.

import { visible } from "./text.js";

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "selected", "indeterminate", "readOnly"]);

export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  set(element, props ?? {});
  add(element, children);
  return element;
}

function set(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false && !PROPERTIES.has(name)) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else if (name === "vars") for (const [key, own] of Object.entries(value)) element.style.setProperty(key, own);
    else element.setAttribute(name === "class" ? "class" : name, value === true ? "" : value);
  }
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

// Replaces what an element contains.
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

// A name from outside: its direction stays its own, and what is invisible is shown.
export const name = (text) => h("bdi", null, visible(text ?? ""));

// The same in monospace.
export const code = (text) => h("code", null, h("bdi", null, visible(text ?? "")));

export function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props ?? {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// What a state looks like without its colour.
const GLYPHS = {
  running: "M2 1 9 5 2 9Z",
  done: "M1 3h8v1.6H1zM1 6h8v1.6H1z",
  error: "M1.5 2.6 2.6 1.5 5 3.9l2.4-2.4 1.1 1.1L6.1 5l2.4 2.4-1.1 1.1L5 6.1 2.6 8.5 1.5 7.4 3.9 5z",
  cancelled: "M1 4h8v2H1z",
  live: "M5 1a4 4 0 1 0 .01 0z",
  waiting: "M5 1a4 4 0 1 0 .01 0zm0 1.8a2.2 2.2 0 1 1-.01 0z",
};

export function glyph(state, label) {
  const shape = svg("svg", { viewBox: "0 0 10 10", class: `glyph st-${state}` }, svg("path", { d: GLYPHS[state] ?? GLYPHS.waiting, fill: "currentColor", "fill-rule": "evenodd" }));
  if (label) {
    shape.setAttribute("role", "img");
    shape.setAttribute("aria-label", label);
  } else shape.setAttribute("aria-hidden", "true");
  return shape;
}

let ids = 0;
export const fresh = (prefix) => `${prefix}-${++ids}`;

// A label with its control.
export function labelled(text, control, props) {
  control.id ||= fresh("in");
  return h("label", { for: control.id, ...props }, text, control);
}

export function select(options, value, props) {
  const element = h("select", props, options.map((option) => {
    const [key, label] = Array.isArray(option) ? option : [option, option];
    return h("option", { value: key }, visible(label));
  }));
  element.value = value;
  return element;
}

// A text that screen readers read aloud, apart from everything that only changes on the screen.
let speaker;
export function announce(text) {
  speaker ??= document.body.appendChild(h("div", { class: "only-read", role: "status", "aria-live": "polite", id: "speaker" }));
  speaker.textContent = text;
}

// What this browser keeps for the person who uses it. Storage may be blocked.
export function pref(key, fallback) {
  try {
    return localStorage.getItem(`toolwire.${key}`) ?? fallback;
  } catch {
    return fallback;
  }
}

export function setPref(key, value) {
  try {
    localStorage.setItem(`toolwire.${key}`, value);
  } catch {
    // It holds until the page is closed.
  }
}
