// Errors with advice, short messages in the corner, and placeholders for empty pages.

import { advice } from "../core/advice.js";
import { announce, h, name, status } from "../core/dom.js";

// An error as a card: what happened, and what to do. `retry` is offered only if trying again can help.
export function note(error, { retry, facts = {} } = {}) {
  const { code = "error", message, status: answered } = error;
  const { what, todo, link } = advice({ ...error, code }, facts);
  const wait = Math.ceil(error.retryAfter ?? error.retry_after_s ?? 0);
  const again = retry && h("button", { onclick: retry }, "Try again");
  const own = h("section.note", { role: "alert" },
    h("h3", name(what)),
    message && message !== what && h("p", name(message)),
    h("p", marked(todo)),
    h("p.row.small.dim", Object.entries({ code, status: answered, ...facts }).filter(([, value]) => value).map(([key, value]) => h("span", `${key} `, name(value)))),
    (again || link || wait > 0) && h("div.row", again || wait > 0 && h("span.dim"), link && h("a", { href: link[0] }, link[1])));
  if (wait > 0) countdown(own.querySelector("button, .row > .dim"), wait, Boolean(again));
  return own;
}

// Shows how long the server wants to receive no requests.
function countdown(place, wait, isButton) {
  const end = Date.now() + wait * 1000;
  // The card is read once, not each second.
  place.setAttribute("aria-live", "off");
  const tick = () => {
    const left = Math.ceil((end - Date.now()) / 1000);
    place.textContent = left > 0 ? `${isButton ? "Try again" : "Possible again"} in ${left} s` : isButton ? "Try again" : "Possible again now";
    if (isButton) place.disabled = left > 0;
    if (left > 0) return;
    clearInterval(timer);
    if (place.isConnected) announce("It can be tried again");
  };
  const timer = setInterval(tick, 500);
  tick();
}

// Text of toolwire with names in backticks, and links by their words.
export const marked = (text) => text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").split("`").map((part, at) => (at % 2 ? h("code", part) : part));

// A remark that is not an error.
export const remark = (title, ...children) => h("section.note.info", h("h3", title), ...children);

export const empty = (title, ...children) => h("div.empty.stack", h("h2", title), ...children);

const VERDICTS = { invalid: "The provider rejected this key. Copy it again.", unreachable: "The provider cannot be reached.", rate_limited: "The provider limits requests now." };

// The result of testing a provider.
export const verdictLine = (verdict, hasKey = true) => (verdict === "valid" ? status("done", hasKey ? "The key is valid." : "The provider can be used.") : status("error", VERDICTS[verdict] ?? name(verdict)));

// One thing is said once: while the page changes the configuration itself, the feed's message about it is left out.
let saidUntil = 0;
export const saysItself = () => (saidUntil = Date.now() + 3000);
export const isSaid = () => Date.now() < saidUntil;

let messages;

// A short message. Errors stay until they are closed.
export function toast(text, kind = "done") {
  if (!messages) {
    messages = h("div.toasts", { role: "region", "aria-label": "Messages" }, h("div", { role: "status" }));
    document.body.append(messages);
  }
  const list = messages.firstChild;
  const item = h("div", { class: kind }, h("span.grow", name(text)), h("button.plain.push", { "aria-label": "Close this message", onclick: () => item.remove() }, "×"));
  for (const own of [...list.children]) if (own.textContent === item.textContent) own.remove();
  while (list.children.length >= 3) list.firstChild.remove();
  list.append(item);
  if (kind !== "failed") setTimeout(() => item.remove(), 6000);
}

export const failed = (error) => toast(error.message, "failed");
