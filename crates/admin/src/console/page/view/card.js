// A tool call: its arguments as they are written, its progress, elapsed time and result, and a way to stop it.

import { fill, glyph, h, name, region } from "../core/dom.js";
import { visible } from "../core/text.js";
import { bytes, duration } from "../core/time.js";
import { json } from "./json.js";
import { note } from "./note.js";
import { folded, result } from "./results.js";

const WORDS = {
  arriving: "arguments arrive", asking: "waits for permission", entering: "waits for an answer", queued: "queued", running: "running", ok: "ok", cached: "ok, from the cache",
  failed: "failed", denied: "denied", expired: "not answered in time", cancelled: "cancelled", stopped: "stopped", cut: "not run: it was cut off", repeated: "not run: the same call again", returned: "returned to the client",
};
const GLYPH = { ok: "done", cached: "done", returned: "done", arriving: "running", running: "running", queued: "waiting", asking: "waiting", entering: "waiting", cancelled: "cancelled", stopped: "cancelled" };
const OPEN = ["arriving", "asking", "entering", "queued", "running"];

export const isOpen = (call) => OPEN.includes(call.state);

// `call`: {name, label?, state, input?, inputText?, result?, details?, code?, ms?, progress?, done?, total?, startedAt?, isRun?}. `stop` ends
// the call once toolwire runs it.
export function card(call, facts, stop) {
  const summary = h("summary");
  const body = h("div");
  const details = h("details.card", summary, body);
  const end = stop && h("button", { onclick: () => {
    end.disabled = true;
    stop();
  } }, "Cancel");
  const element = h("div.called", details, end);
  const own = { element, update, call, open: () => (details.open = true) };
  const time = h("span.push.small.dim");
  let ticks = null;
  details.addEventListener("toggle", () => details.open && paintBody());

  function paintTime() {
    const runs = isOpen(call) && call.startedAt;
    time.textContent = call.ms != null ? duration(call.ms) : runs ? duration(Date.now() - call.startedAt) : "";
    if (runs) ticks ??= setInterval(paintTime, 100);
    else ticks = clearInterval(ticks) ?? null;
  }

  function update(change = {}) {
    Object.assign(call, change);
    const hasFailed = ["failed", "denied", "expired", "repeated"].includes(call.state);
    // The advice is inside.
    if (hasFailed && !details.classList.contains("failed")) details.open = true;
    details.classList.toggle("failed", hasFailed);
    if (end) end.hidden = !isOpen(call) || !call.isRun;
    const writes = call.state === "arriving";
    const tail = call.progress ?? call.inputText ?? (call.input === undefined ? "" : JSON.stringify(call.input));
    const share = isOpen(call) && call.total > 0 && call.done != null && h("progress", { max: call.total, value: Math.min(call.done, call.total), "aria-label": "Progress" });
    fill(summary, h("strong", name(call.label || call.name)), call.label && call.label !== call.name && h("span.small.dim", name(call.name)), h("span.row.small", glyph(GLYPH[call.state] ?? "error"), h("span", WORDS[call.state] ?? call.state)), share, time,
      h("span.tail.mono", { class: writes ? "writes" : "cut" }, h("span", visible(writes ? tail.slice(-200) : tail.slice(0, 200)))));
    paintTime();
    if (details.open) paintBody();
    return own;
  }

  function paintBody() {
    const parts = [];
    const heading = (text) => h("h3.small.dim", text);
    // Arguments that are being written are not JSON yet.
    if (call.inputText) parts.push(heading("Arguments"), region("pre.code", "Arguments", visible(call.inputText.slice(-20_000))));
    else if (call.input !== undefined) parts.push(heading("Arguments"), json(call.input, "Arguments", 2));
    else if (call.input_bytes != null) parts.push(h("p.dim", `Arguments: ${bytes(call.input_bytes)}, not captured`));
    if (call.code) parts.push(note({ ...call.error, code: call.code, message: call.error?.message ?? (typeof call.result === "string" ? call.result : undefined) }, { facts }));
    else if (call.result !== undefined) parts.push(heading("Result"), result(call.result, call.details));
    if (call.details !== undefined) parts.push(folded("Details", call.details));
    fill(body, parts);
  }

  return update();
}
