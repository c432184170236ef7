// Creates elements one by one. Text becomes text nodes, so nothing from outside can become markup.

import { visible } from "./text.js";

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "open", "selected", "indeterminate", "readOnly"]);

// `h("div.row.small", { role: "group" }, ...children)`: an element with its classes. The properties are optional.
export function h(selector, ...rest) {
  const [tag, ...classes] = selector.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  if (rest[0]?.constructor === Object) set(element, rest.shift());
  add(element, rest);
  return element;
}

function set(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false && !PROPERTIES.has(name)) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else if (name === "vars") for (const [key, own] of Object.entries(value)) element.style.setProperty(key, own);
    else if (name === "class") element.classList.add(...value.split(" ").filter(Boolean));
    else element.setAttribute(name, value === true ? "" : name === "title" || name === "aria-label" ? visible(value) : value);
  }
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

// Replaces the contents of an element.
export function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

// A name from outside: its text direction is isolated, and invisible characters are shown.
export const name = (text) => h("bdi", visible(text ?? ""));

// The same in monospace.
export const code = (text) => h("code", h("bdi", visible(text ?? "")));

// A scrollable box with a label, which can be reached with the keyboard.
export const region = (selector, label, ...children) => h(selector, { tabindex: 0, role: "region", "aria-label": label }, children);

// Pairs of name and value. Pairs without a value are left out.
export const facts = (pairs) => h("dl.facts", pairs.filter(([, value]) => value != null && value !== "").map(([key, value]) => h("div", h("dt", key), h("dd", name(value)))));

// Figures in one line, each with its unit.
export const figures = (pairs) => pairs.map(([label, value]) => h("span.figure", h("b", String(value)), label));

// The name of a state, after its glyph.
export const status = (state, ...children) => h("p.row", { role: "status" }, glyph(state), children);

// Opens a dialog. `body(close)` creates its contents.
export function dialog(title, body) {
  const id = fresh("title");
  const element = h("dialog", { "aria-labelledby": id });
  fill(element, h("div.stack", h("h2", { id }, title), body(() => element.close())));
  element.addEventListener("close", () => element.remove());
  document.body.append(element);
  element.showModal();
  return element;
}

// Tabs over `panel`. `entries` are pairs of key and label. `choose(key)` is called when the user or `pick(key)` selects one.
export function tabs(label, entries, panel, choose) {
  const pick = (key) => {
    for (const tab of element.children) {
      tab.setAttribute("aria-selected", tab.dataset.key === key);
      tab.tabIndex = tab.dataset.key === key ? 0 : -1;
      if (tab.dataset.key === key) panel.setAttribute("aria-labelledby", tab.id);
    }
    choose(key);
  };
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...element.children];
    const next = all[(all.indexOf(event.currentTarget) + step + all.length) % all.length];
    next.focus();
    next.click();
  };
  panel.id ||= fresh("panel");
  panel.setAttribute("role", "tabpanel");
  const element = h("div.tabs", { role: "tablist", "aria-label": label }, entries.map(([key, text]) =>
    h("button", { role: "tab", id: fresh("tab"), "aria-controls": panel.id, "data-key": key, onclick: () => pick(key), onkeydown: move }, text)));
  return { element, pick };
}

export function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props ?? {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Glyphs that distinguish states without color.
const GLYPHS = {
  running: "M5 .5A4.5 4.5 0 1 1 .5 5H2A3 3 0 1 0 5 2z",
  done: "M.8 5.2 2 4l2 2L8 1.9l1.2 1.2L4 8.4z",
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

// Text that screen readers announce, unlike other changes on the page.
let speaker;
export function announce(text) {
  speaker ??= document.body.appendChild(h("div.only-read", { role: "status", "aria-live": "polite", id: "speaker" }));
  speaker.textContent = text;
}

// Preferences of this browser's user. Storage may be blocked.
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
    // Then the value lasts until the page is closed.
  }
}
