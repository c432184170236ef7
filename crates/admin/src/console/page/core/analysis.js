// The events that came out of a text that was read byte by byte.

import { utf8 } from "./text.js";

// The events up to `cut` bytes. With `step` 1, each further byte of an event's text took a further byte of the input.
export function until(events, cut) {
  const past = [];
  for (const event of events) {
    if (event.at > cut) continue;
    const bytes = event.step === 1 && event.text ? utf8(event.text) : null;
    const isWhole = !bytes || bytes.length <= cut + 1 - event.at;
    past.push(isWhole ? event : { ...event, text: new TextDecoder().decode(bytes.subarray(0, cut + 1 - event.at)).replace(/\ufffd+$/, "") });
  }
  return past;
}

// Number of bytes read when the last of these events came out.
export function lastAt(events) {
  return events.reduce((last, { at = 0, step, text }) => Math.max(last, step === 1 && text ? at + utf8(text).length - 1 : at), 0);
}

// Joins the pieces of a text, and each call with its arguments.
export function joined(events) {
  const made = [];
  let calls = 0;
  for (const { kind, text = "", name, end, call } of events) {
    const before = made.at(-1);
    if (["text", "reasoning"].includes(kind) && before?.kind === kind) before.text += text;
    else if (kind === "call_start") made.push({ kind: "call", number: call ?? ++calls, name, text: "" });
    else if (kind === "arguments" || kind === "call_end") {
      const own = made.findLast((one) => one.kind === "call" && (call === undefined || one.number === call));
      if (own) Object.assign(own, { text: own.text + text, ...(kind === "call_end" && { end: end ?? "complete" }) });
    } else made.push({ kind, text });
  }
  return made;
}
