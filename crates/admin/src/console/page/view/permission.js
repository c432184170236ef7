// Asks whether a call may run. A question appears as a bar without focus, so that no key press meant for something else can allow it.

import { call, get, part, serverNow } from "../core/api.js";
import { announce, dialog, facts, fill, h, name } from "../core/dom.js";
import { listen } from "../core/feed.js";
import { effect, signal } from "../core/store.js";
import { json } from "./json.js";
import { toast } from "./note.js";

export const questions = signal([]);
const HANDS_OFF = 500;

export async function refresh() {
  let before, open;
  do {
    before = questions.peek();
    ({ questions: open } = await get("permissions"));
    // The list may miss questions that arrived or were answered while it was loading.
  } while (questions.peek() !== before);
  questions.value = open;
}

listen((kind, data) => {
  if (kind === "permission_request") {
    questions.value = [...questions.peek().filter((own) => own.request_id !== data.request_id), data];
    announce(`${data.label ?? data.tool} asks for permission`);
  } else if (kind === "permission_result") {
    const known = questions.peek().find((own) => own.request_id === data.request_id);
    questions.value = questions.peek().filter((own) => own !== known);
    if (known && data.by !== "person") toast(data.granted ? `${data.tool} was allowed` : data.reason === "timeout" || data.by === "timeout" ? `${data.tool} was not answered in time` : `${data.tool} was denied`);
  }
});

const left = (question) => Math.max(0, Math.ceil((question.expires_at - serverNow()) / 1000));

// The bar in the page's frame.
export function bar() {
  const element = h("div.question", { role: "region", "aria-label": "Permission question", hidden: true });
  effect(() => {
    const [first, ...more] = questions.value;
    element.hidden = !first;
    if (first) fill(element, h("strong.clamp", name(first.label ?? first.tool)), h("span", "asks to run", more.length ? `, ${more.length} more wait` : ""), h("span.dim", { "data-left": first.request_id }), h("button.push", { onclick: openFirst }, "Review"));
  });
  setInterval(() => {
    const [first] = questions.peek();
    const shown = element.querySelector("[data-left]");
    if (first && shown) shown.textContent = `${left(first)} s left`;
  }, 1000);
  return element;
}

export function openFirst() {
  const [question] = questions.peek();
  if (question) ask(question);
}

// The dialog for one question. Deny has the focus first, and the buttons are disabled for a moment.
export function ask(question) {
  const { request_id: id, context = {} } = question;
  const time = h("span.dim");
  const send = async (given) => {
    if (deny.ariaDisabled) return;
    try {
      await call("POST", `permissions/${part(id)}`, given);
      toast(given.granted ? `${question.tool} is allowed` : `${question.tool} is denied`);
    } catch (error) {
      toast(error.winner ? `It was answered elsewhere: ${error.winner.granted ? "allowed" : "denied"}` : error.message, error.winner ? "done" : "failed");
    }
    questions.value = questions.peek().filter((one) => one.request_id !== id);
    own.close();
  };
  const answer = (given, ...label) => h("button", { "aria-disabled": "true", onclick: () => send(given) }, label);
  const deny = answer({ granted: false }, "Deny");
  const more = h("button.plain", { onclick: async () => {
    try {
      question.expires_at = (await call("POST", `permissions/${part(id)}/extend`, {})).expires_at;
    } catch (error) {
      toast(error.message, "failed");
    }
  } }, "More time");
  const own = dialog(["May ", name(question.label ?? question.tool), " run?"], () => [
    facts([["Tool", question.tool], ["Model", context.model], ["Key", context.key], ["Domain", context.domain]]),
    h("h3", "Arguments"),
    h("div.code", json(question.params ?? {}, "Arguments", 3)),
    h("p.row", time, more),
    h("div.row",
      deny,
      answer({ granted: true }, "Allow once"),
      context.domain && answer({ granted: true, remember: true, scope: "domain" }, "Always for ", name(context.domain)),
      answer({ granted: true, remember: true, scope: "global" }, "Always"))]);
  setTimeout(() => own.querySelectorAll("[aria-disabled]").forEach((button) => button.removeAttribute("aria-disabled")), HANDS_OFF);
  let said = null;
  const tick = () => {
    const seconds = left(question);
    time.textContent = seconds ? `${seconds} s left` : "Not answered in time";
    if ([30, 10].includes(seconds) && said !== seconds) announce(`${said = seconds} seconds left`);
    if (!seconds && !questions.peek().some((one) => one.request_id === id)) own.close();
  };
  const timer = setInterval(tick, 1000);
  tick();
  own.addEventListener("close", () => clearInterval(timer));
  deny.focus();
}
