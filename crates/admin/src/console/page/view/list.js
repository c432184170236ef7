// A list of any length: only rows near the visible part exist. New rows at the top never move the visible ones.

import { fill, h } from "../core/dom.js";

const OVERSCAN = 10;

class List extends HTMLElement {
  #rows = [];
  #made = new Map();
  #selected = null;
  #active = null;
  #known = null;

  // `columns`: [label, class]. `render(row)`: the cells. `sign(row)`: a string that changes whenever they do. `open(row)`: called when a row is chosen.
  // `away(count)`: called with the number of new rows above. `end()`: called when the last rows are near.
  setup({ label, columns, render, sign, open, away, none, end }) {
    Object.assign(this, { render, sign, onopen: open, onaway: away, none, onend: end });
    this.setAttribute("role", "grid");
    this.setAttribute("aria-label", label);
    this.space = h("div.space", { role: "rowgroup" });
    const heads = columns.map(([text, kind]) => h("div", { role: "columnheader", class: kind }, text || h("span.only-read", "State")));
    this.empty = h("div.none", { hidden: true });
    fill(this, h("div.heads", { role: "rowgroup" }, h("div.head", { role: "row", "aria-rowindex": 1 }, heads)), this.space);
    this.before(this.empty);
    this.addEventListener("scroll", () => this.#paint(), { passive: true });
    this.addEventListener("keydown", (event) => this.#key(event));
    this.addEventListener("click", (event) => {
      const row = this.#of(event.target.closest(".item"));
      if (row) this.onopen(row);
    });
    this.addEventListener("focusin", (event) => {
      const item = event.target.closest(".item");
      if (item) this.#active = item.dataset.id;
    });
    new ResizeObserver(() => this.#paint()).observe(this);
  }

  get height() {
    return parseFloat(getComputedStyle(this).getPropertyValue("--row")) || 36;
  }

  set rows(rows) {
    const top = this.#rows[0]?.id;
    const added = top ? rows.findIndex((row) => row.id === top) : -1;
    this.#rows = rows;
    this.setAttribute("aria-rowcount", rows.length + 1);
    this.space.style.setProperty("height", `${rows.length * this.height}px`);
    if (added > 0 && this.scrollTop > 0) {
      this.scrollTop += added * this.height;
      this.onaway?.(added);
    }
    this.empty.hidden = rows.length > 0;
    this.hidden = !rows.length;
    const none = rows.length ? null : this.none();
    if (none && this.empty.firstChild !== none) fill(this.empty, none);
    this.#paint();
  }

  set selected(id) {
    this.#selected = id;
    if (id) this.#active = id;
    this.#paint();
  }

  top() {
    this.scrollTop = 0;
    this.onaway?.(0);
  }

  #paint() {
    const height = this.height;
    if (!this.scrollTop) this.onaway?.(0);
    const first = Math.max(0, Math.floor(this.scrollTop / height) - OVERSCAN);
    const last = Math.min(this.#rows.length, Math.ceil((this.scrollTop + this.clientHeight) / height) + OVERSCAN);
    const seen = this.#rows.slice(first, last);
    const wanted = new Set(seen.map((row) => row.id));
    if (!this.#rows.some((row) => row.id === this.#active)) this.#active = this.#rows[0]?.id ?? null;
    for (const [id, item] of this.#made) {
      if (wanted.has(id)) continue;
      item.remove();
      this.#made.delete(id);
    }
    // The elements are in the order of the rows, because screen readers follow it.
    let next = this.space.firstElementChild;
    seen.forEach((row, index) => {
      const at = first + index;
      let item = this.#made.get(row.id);
      if (!item) {
        const isNew = this.#known && !this.#known.has(row.id);
        item = h("div", { class: `item${isNew ? " fresh" : ""}`, role: "row", "data-id": row.id });
        this.#made.set(row.id, item);
      }
      if (item === next) next = next.nextElementSibling;
      else this.space.insertBefore(item, next);
      item.style.setProperty("transform", `translateY(${at * height}px)`);
      item.setAttribute("aria-rowindex", at + 2);
      item.setAttribute("aria-selected", row.id === this.#selected);
      item.tabIndex = row.id === this.#active ? 0 : -1;
      const sign = this.sign(row);
      if (item.sign === sign) return;
      item.sign = sign;
      fill(item, this.render(row).map((cell) => {
        cell.setAttribute("role", "gridcell");
        return cell;
      }));
    });
    this.#known = new Set(this.#rows.map((row) => row.id));
    if (this.clientHeight && last > this.#rows.length - 2 * OVERSCAN) this.onend?.();
  }

  #of = (item) => item && this.#rows.find((row) => row.id === item.dataset.id);

  #key(event) {
    const at = this.#rows.findIndex((row) => row.id === this.#active);
    const page = Math.max(1, Math.floor(this.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps && this.#rows.length) this.#move(Math.min(this.#rows.length - 1, Math.max(0, at + steps[event.key])));
    else if (event.key === "Enter" && at >= 0) this.onopen(this.#rows[at]);
    else return;
    event.preventDefault();
  }

  // Moves by one row from the chosen one, or to the first visible one.
  step(by) {
    const at = this.#rows.findIndex((row) => row.id === this.#selected);
    const next = at < 0 ? Math.ceil(this.scrollTop / this.height) : Math.max(0, at + by);
    if (this.#rows.length) this.#move(Math.min(this.#rows.length - 1, next));
  }

  #move(at) {
    this.#active = this.#rows[at].id;
    const top = at * this.height, view = this.clientHeight - this.height;
    if (top < this.scrollTop) this.scrollTop = top;
    else if (top > this.scrollTop + view - this.height) this.scrollTop = top - view + this.height;
    this.#paint();
    this.#made.get(this.#active)?.focus({ preventScroll: true });
    if (this.#selected) this.onopen(this.#rows[at]);
  }
}
customElements.define("tw-list", List);
