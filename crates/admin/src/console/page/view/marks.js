// A text with marked parts, and a list that explains them. Hovering over either highlights the other.

import { h, name } from "../core/dom.js";
import { visible } from "../core/text.js";

// `spans`: {range, kind}, in bytes of `encoded`. `edges`: additional places to split at. `more(from, to)`: additional classes for a part.
export function marks(encoded, spans, edges = [], more = () => "") {
  const decoder = new TextDecoder();
  const all = new Set([0, encoded.length, ...edges, ...spans.flatMap(({ range }) => range)]);
  const sorted = [...all].filter((edge) => edge >= 0 && edge <= encoded.length).sort((one, other) => one - other);
  return sorted.slice(1).map((end, index) => {
    const from = sorted[index];
    const own = spans.findIndex(({ range }) => range[0] <= from && range[1] >= end);
    return h("span", { class: `${own >= 0 ? `k-${spans[own].kind} ` : ""}${more(from, end)}`, "data-span": own >= 0 ? own : null }, visible(decoder.decode(encoded.subarray(from, end))));
  });
}

// The entries of the list; `marked` has the parts. `tail(span)` is shown at the end of an entry.
export function legend(marked, spans, tail = () => null) {
  const light = (index) => () => {
    for (const own of marked.children) own.classList.toggle("lit", own.dataset.span === String(index));
  };
  return spans.map((span, index) => h("li", { tabindex: 0, onfocus: light(index), onmouseenter: light(index), onblur: light(-1), onmouseleave: light(-1) }, h("span.faint", `${span.range[0]}–${span.range[1]}`), h("span", name(span.why ?? span.kind), (span.rule ?? span.format) && h("code.faint", " ", name(span.rule ?? span.format)), tail(span))));
}
