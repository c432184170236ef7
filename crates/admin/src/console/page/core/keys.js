// Global keyboard shortcuts. Single letters work only outside of fields, can be switched off, and never destroy anything.

import { pref, setPref } from "./dom.js";
import { PAGES, go, href } from "./route.js";

const isField = (element) => element?.closest?.("input:not([type=checkbox], [type=range]), textarea, select, [contenteditable]");

export const LIST = [
  ["?", "this list"],
  ["/", "filter or search"],
  ["g l, f, t, s, p, m", "go to a page by its first letter"],
  ["g q", "open the permission question"],
  ["j, k or arrows", "move in a list"],
  ["Enter, Escape", "open, close"],
  ["[ and ]", "previous and next call of an exchange"],
  ["Space", "play or pause a replay, when it has the focus"],
  ["F6", "go to the messages"],
];

// Moves in the page's list. A list with the focus handles these keys itself.
function step(by) {
  const list = document.querySelector("main tw-list");
  if (list?.checkVisibility()) return list.step(by);
  const links = [...document.querySelectorAll("main :is(.pick, .past) a")].filter((link) => link.checkVisibility());
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}

export const enabled = () => pref("keys", "on") === "on";
export const enable = (on) => setPref("keys", on ? "on" : "off");

export function install({ help, question }) {
  let afterG = 0;
  addEventListener("keydown", (event) => {
    if (event.key === "F6") {
      document.querySelector(".toasts button")?.focus();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !enabled() || isField(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const follows = Date.now() - afterG < 1500;
    afterG = 0;
    const page = follows && PAGES.find((name) => name[0] === event.key);
    if (page) go(href(page));
    else if (follows && event.key === "q") question();
    else if (event.key === "g") afterG = Date.now();
    else if (event.key === "?") help();
    else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    else if (event.key === "/") document.querySelector("main [data-search]")?.focus();
    else return;
    event.preventDefault();
  });
}
