// The pictures of one answer, one at a time. Only pictures from this server are shown.

import { fill, h } from "../core/dom.js";
import { serverUrl } from "../core/api.js";

class Carousel extends HTMLElement {
  #at = 0;

  // `paths` are relative to the server; `alt` is the prompt.
  show(paths, alt) {
    this.setAttribute("role", "group");
    this.setAttribute("aria-roledescription", "carousel");
    this.setAttribute("aria-label", "Generated images");
    this.paths = paths;
    this.slides = paths.map((path, index) => {
      const image = h("img", { src: serverUrl(path).href, alt: alt || "Generated image", decoding: "async" });
      const slide = h("div.slide", { role: "group", "aria-roledescription": "slide", "aria-label": `${index + 1} of ${paths.length}` }, image);
      image.addEventListener("error", () => fill(slide, h("p.dim", "This image has expired.")));
      return slide;
    });
    const turn = (label, sign, step) => h("button.turn", { "aria-label": label, onclick: () => this.#turn(this.#at + step) }, h("span", { "aria-hidden": "true" }, sign));
    this.counter = h("span", { "aria-live": "polite" });
    this.download = h("a", { download: "" }, "Download");
    fill(this,
      h("div.stage", this.slides),
      h("div.row", paths.length > 1 && [turn("Previous image", "‹", -1), this.counter, turn("Next image", "›", 1)], h("span.push", this.download)));
    this.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: this.#at - 1, ArrowRight: this.#at + 1, Home: 0, End: this.paths.length - 1 }[event.key];
      if (to === undefined) return;
      this.#turn(to);
      event.preventDefault();
    });
    this.#turn(0);
    return this;
  }

  #turn(at) {
    const count = this.paths.length;
    this.#at = (at + count) % count;
    this.slides.forEach((slide, index) => slide.classList.toggle("shown", index === this.#at));
    this.counter.textContent = `${this.#at + 1} / ${count}`;
    this.download.href = serverUrl(this.paths[this.#at]).href;
  }
}
customElements.define("tw-carousel", Carousel);

export const carousel = (paths, alt) => document.createElement("tw-carousel").show(paths, alt);
