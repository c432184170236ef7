// JSON as a tree that shows the text as it arrived. Nodes are created when they are opened.

import { copyText, save } from "../core/copy.js";
import { fill, h } from "../core/dom.js";
import { visible } from "../core/text.js";
import { bytes } from "../core/time.js";
import { compact, pointer, read } from "../core/tokens.js";
import { toast } from "./note.js";

const MAX_TEXT = 2 << 20;
const MAX_STRING = 2048;
const PAGE = 200;

export async function copied(text, what = "Copied") {
  const done = await copyText(text);
  toast(done ? what : "The browser does not allow copying here", done ? "done" : "failed");
}

class Json extends HTMLElement {
  // Shows this text; `label` names the tree.
  show(text, label = "JSON", depth = 1) {
    this.replaceChildren();
    if (text.length > MAX_TEXT) {
      this.append(h("pre", visible(text.slice(0, 65536))), h("p.row", `The first 64 KB of ${bytes(text.length)}.`, h("button", { onclick: () => save("value.json", text, "application/json") }, "Download")));
      return this;
    }
    let root;
    try {
      root = read(text);
    } catch (error) {
      this.append(h("p.small.dim", `Not JSON: ${error.message}`), h("pre", visible(text)));
      return this;
    }
    const tree = h("div", { role: "tree", "aria-label": label, onkeydown: (event) => this.#key(event), onclick: (event) => this.#click(event) });
    tree.append(this.#item(root, undefined, "", depth));
    tree.firstChild.tabIndex = 0;
    this.append(tree, h("div.row", h("button.plain", { onclick: () => copied(text) }, "Copy all")));
    return this;
  }

  #item(node, key, path, depth) {
    const line = h("div.line");
    const item = h("div", { role: "treeitem", tabindex: -1, "aria-selected": "false" }, line);
    Object.assign(item, { node, path });
    if (node.entries) {
      const [open, close] = node.kind === "object" ? "{}" : "[]";
      const size = node.entries.length;
      item.setAttribute("aria-expanded", "false");
      item.turn = h("span.turn", { "aria-hidden": "true" }, "▸");
      line.append(item.turn);
      label(line, key);
      line.append(h("span.faint", size ? `${open} ${size} ${close}` : open + close));
      if (depth > 0 && size) this.#turn(item, true, depth - 1);
    } else {
      line.append(h("span.turn", { "aria-hidden": "true" }));
      label(line, key);
      this.#scalar(line, node);
    }
    return item;
  }

  #scalar(line, { kind, raw }) {
    const shown = raw.length > MAX_STRING ? raw.slice(0, MAX_STRING) : raw;
    const text = h("span", { class: kind }, h("bdi", visible(shown)));
    line.append(text);
    if (shown !== raw) {
      line.append(h("button.plain", { onclick: (event) => {
        fill(text, h("bdi", visible(raw)));
        event.target.remove();
      } }, `show all ${bytes(raw.length)}`));
    }
  }

  #turn(item, open, depth = 0) {
    if (!item.node.entries?.length || item.getAttribute("aria-expanded") === String(open)) return;
    item.setAttribute("aria-expanded", open);
    item.turn.textContent = open ? "▾" : "▸";
    if (!open) return void item.querySelector("[role=group]").remove();
    const group = h("div", { role: "group" });
    const { entries, kind } = item.node;
    const more = (from) => {
      entries.slice(from, from + PAGE).forEach(({ key, node }, index) => {
        const part = kind === "object" ? key : from + index;
        group.append(this.#item(node, part, `${item.path}/${pointer(part)}`, depth));
      });
      if (from + PAGE < entries.length) {
        group.append(h("button.plain", { onclick: (event) => {
          event.target.remove();
          more(from + PAGE);
        } }, `${entries.length - from - PAGE} more`));
      }
    };
    more(0);
    item.append(group);
  }

  #click(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.target.closest("button")) return;
    if (event.target.closest(".line") && item.node.entries && !getSelection()?.toString()) this.#turn(item, item.getAttribute("aria-expanded") !== "true");
    this.#focus(item);
  }

  #focus(item) {
    for (const own of this.querySelectorAll("[role=treeitem][tabindex='0']")) own.tabIndex = -1;
    item.tabIndex = 0;
    item.focus();
  }

  #key(event) {
    const items = [...this.querySelectorAll("[role=treeitem]")];
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.target.closest("button")) return;
    const at = items.indexOf(item);
    const isOpen = item.getAttribute("aria-expanded") === "true";
    const go = (own) => own && this.#focus(own);
    if (event.key === "ArrowDown") go(items[at + 1]);
    else if (event.key === "ArrowUp") go(items[at - 1]);
    else if (event.key === "ArrowRight") isOpen ? go(items[at + 1]) : this.#turn(item, true);
    else if (event.key === "ArrowLeft") isOpen ? this.#turn(item, false) : go(item.parentElement.closest("[role=treeitem]"));
    else if (event.key === "*") for (const own of item.parentElement.children) own.node && this.#turn(own, true);
    else if (event.key === "c" && (event.ctrlKey || event.metaKey) && !getSelection()?.toString()) copied(compact(item.node), "Value copied");
    else if (event.key === "p" && !event.ctrlKey) copied(item.path, "Path copied");
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
customElements.define("tw-json", Json);

function label(line, key) {
  if (key !== undefined) line.append(h("span.key", h("bdi", visible(key))), ":");
}

export const json = (text, what, depth) => document.createElement("tw-json").show(typeof text === "string" ? text : JSON.stringify(text), what, depth);
