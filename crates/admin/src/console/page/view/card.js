// A tool call: its arguments, its progress and its result.

import { fill, glyph, h, name, region } from "../core/dom.js";
import { imagePath, visible } from "../core/text.js";
import { duration } from "../core/time.js";
import { carousel } from "./carousel.js";
import { json } from "./json.js";
import { note } from "./note.js";

const WORDS = {
  arriving: "arguments arrive", asking: "waits for permission", entering: "waits for an answer", queued: "queued", running: "running", ok: "ok", cached: "ok, from the cache",
  failed: "failed", denied: "denied", expired: "not answered in time", cancelled: "cancelled", cut: "not run: it was cut off", repeated: "not run: the same call again", returned: "returned to the client",
};
const GLYPH = { ok: "done", cached: "done", returned: "done", arriving: "running", running: "running", queued: "waiting", asking: "waiting", entering: "waiting", cancelled: "cancelled" };

// `call`: {name, state, input?, inputText?, result?, details?, code?, ms?, progress?, startedAt?}
export function card(call, facts) {
  const summary = h("summary");
  const body = h("div");
  const element = h("details.card", summary, body);
  const own = { element, update, call };
  const time = h("span.push.small.dim");
  let ticks = null;
  element.addEventListener("toggle", () => element.open && paintBody());

  function paintTime() {
    const isRunning = call.state === "running" && call.startedAt;
    time.textContent = call.ms != null ? duration(call.ms) : isRunning ? duration(Date.now() - call.startedAt) : "";
    if (isRunning) ticks ??= setInterval(paintTime, 100);
    else ticks = clearInterval(ticks) ?? null;
  }

  function update(change = {}) {
    Object.assign(call, change);
    const hasFailed = ["failed", "denied", "expired", "repeated"].includes(call.state);
    // The advice is inside.
    if (hasFailed && !element.classList.contains("failed")) element.open = true;
    element.classList.toggle("failed", hasFailed);
    paintTime();
    const tail = call.progress ?? call.inputText ?? (call.input === undefined ? "" : JSON.stringify(call.input));
    fill(summary, h("strong", name(call.name)), h("span.row.small", glyph(GLYPH[call.state] ?? "error"), h("span", WORDS[call.state] ?? call.state)), time, h("span.tail.cut.mono", visible(call.inputText ? tail.slice(-160) : tail.slice(0, 160))));
    if (element.open) paintBody();
    return own;
  }

  function paintBody() {
    const parts = [];
    if (call.input !== undefined || call.inputText) parts.push(h("h3.small.dim", "Arguments"), json(call.inputText ?? call.input, "Arguments", 2));
    else if (call.input_bytes != null) parts.push(h("p.dim", `Arguments: ${call.input_bytes} bytes, not captured`));
    if (call.code) parts.push(note({ code: call.code, message: typeof call.result === "string" ? call.result : undefined }, { facts }));
    else if (call.result !== undefined) parts.push(h("h3.small.dim", "Result"), result(call.result));
    if (call.details !== undefined) parts.push(h("h3.small.dim", "Details"), json(call.details, "Details", 2));
    fill(body, parts);
  }

  return update();
}

// Renders a tool's result by its kind. An unknown kind is shown as JSON.
export function result(value) {
  const paths = images(value);
  if (paths.length) return carousel(paths, value.data?.prompt ?? value.prompt ?? "");
  if (typeof value !== "string") return json(value, "Result", 2);
  const text = value.trim();
  if (/^[[{]/.test(text)) {
    try {
      const parsed = JSON.parse(text);
      return images(parsed).length ? result(parsed) : json(text, "Result", 2);
    } catch {
      // The text only starts like JSON.
    }
  }
  return region("pre.code", "Result", visible(text.slice(0, 100_000)));
}

function images(value) {
  const list = value?.data?.image_urls ?? value?.image_urls ?? (Array.isArray(value?.images) ? value.images.map((own) => own?.url ?? own) : []);
  return Array.isArray(list) ? list.map((own) => imagePath(own, location.origin)).filter(Boolean) : [];
}
