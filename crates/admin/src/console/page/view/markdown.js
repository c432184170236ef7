// Renders Markdown while it arrives. Finished blocks are never touched again; only the last one is rendered anew, once per frame.

import { Stream, inline } from "../core/markdown.js";
import { fill, h, region } from "../core/dom.js";
import { imagePath, safeUrl, visible } from "../core/text.js";
import { carousel } from "./carousel.js";
import { copied } from "./json.js";

export class Prose {
  #stream = new Stream();
  #done = 0;
  #size = -1;
  #fence = null;
  #open = h("div.prose");
  element = h("div.prose", this.#open);

  push(text) {
    this.#stream.push(text);
  }

  // Renders what has arrived so far. Called once per frame.
  paint() {
    const { closed } = this.#stream;
    if (this.#done < closed.length) {
      this.#open.before(...this.#blocks(closed.slice(this.#done)));
      this.#done = closed.length;
      this.#size = -1;
      this.#fence = null;
    }
    const { fence } = this.#stream;
    if (fence) return this.#paintFence(fence);
    if (this.#stream.openSize === this.#size) return;
    this.#size = this.#stream.openSize;
    fill(this.#open, this.#blocks(this.#stream.open()));
  }

  #paintFence({ lang, lines, rest }) {
    if (!this.#fence) {
      const [text, last] = [document.createTextNode(""), document.createTextNode("")];
      fill(this.#open, region("pre", `Code ${visible(lang)}`, h("code", text, last)));
      this.#fence = { text, last, count: 0 };
    }
    const own = this.#fence;
    if (own.count < lines.length) own.text.appendData(lines.slice(own.count).map((line) => `${visible(line)}\n`).join(""));
    own.count = lines.length;
    own.last.data = visible(rest);
  }

  finish() {
    this.#stream.finish();
    this.paint();
    fill(this.#open);
  }

  #blocks(blocks) {
    const made = [];
    for (let at = 0; at < blocks.length; at++) {
      const paths = imagesOf(blocks[at]);
      if (!paths.length) {
        made.push(block(blocks[at]));
        continue;
      }
      // Consecutive images of one answer form one carousel.
      const alt = plain(inline(blocks[at].text)[0]?.children ?? []);
      while (at + 1 < blocks.length && imagesOf(blocks[at + 1]).length) paths.push(...imagesOf(blocks[++at]));
      made.push(carousel(paths, alt));
    }
    return made;
  }
}

export function prose(text) {
  const own = new Prose();
  own.push(text);
  own.finish();
  return own.element;
}

// The paths in a paragraph that contains only images from this server.
function imagesOf(own) {
  if (own.kind !== "paragraph" || !own.text.startsWith("![")) return [];
  const parts = inline(own.text).filter((part) => typeof part !== "string" || part.trim());
  const paths = parts.map((part) => part.kind === "image" && imagePath(part.url, location.origin));
  return paths.every(Boolean) ? paths : [];
}

const plain = (parts) => parts.map((part) => (typeof part === "string" ? part : part.text ?? plain(part.children))).join("");

function block(own) {
  switch (own.kind) {
    case "heading":
      return h(`h${Math.min(6, own.level + 2)}`, inlines(inline(own.text)));
    case "code": {
      const copy = h("button.plain.small", { onclick: () => copied(own.text) }, "Copy");
      return h("div", h("div.row.small.dim", visible(own.lang), h("span.push", copy)), region("pre", `Code ${visible(own.lang)}`, h("code", visible(own.text))));
    }
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote.prose", own.blocks.map(block));
    case "list":
      return h(own.isOrdered ? "ol" : "ul", own.isOrdered && own.start !== 1 ? { start: own.start } : null, own.items.map(({ isDone, blocks }) => {
        const mark = isDone !== null && `${isDone ? "☑" : "☐"} `;
        const tight = blocks.length && blocks[0].kind === "paragraph";
        return h("li", mark, tight && inlines(inline(blocks[0].text)), h("div.prose", blocks.slice(tight ? 1 : 0).map(block)));
      }));
    case "table":
      return region("div.scroll", "Table", h("table",
        h("thead", h("tr", own.head.map((cell) => h("th", inlines(inline(cell)))))),
        h("tbody", own.rows.map((row) => h("tr", row.map((cell) => h("td", inlines(inline(cell)))))))));
    case "plain":
      return h("p", visible(own.text));
    default:
      return h("p", inlines(inline(own.text)));
  }
}

const ELEMENTS = { strong: "strong", emphasis: "em", struck: "s" };

function inlines(parts) {
  return parts.map((part) => {
    if (typeof part === "string") return visible(part);
    if (part.kind === "code") return h("code", visible(part.text));
    if (ELEMENTS[part.kind]) return h(ELEMENTS[part.kind], inlines(part.children));
    const url = safeUrl(part.url);
    const text = plain(part.children);
    if (!url) return [visible(text), " (", visible(part.url), ")"];
    // Loading an external image would tell its server that somebody looked at it, so it becomes a link.
    const label = part.kind === "image" ? `${text || "image"} (image)` : inlines(part.children);
    const host = text.includes(url.host) ? "" : ` (${url.host || url.protocol})`;
    return [h("a", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, label), host && h("small.faint", host)];
  });
}
