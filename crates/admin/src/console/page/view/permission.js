// Asks whether a call may run, or for what its tool needs to know. A question appears as a bar without focus, so that no key press meant for something else can allow it.

import { call, get, part, serverNow } from "../core/api.js";
import { announce, dialog, facts, fill, h, name, region } from "../core/dom.js";
import { listen } from "../core/feed.js";
import { effect, signal } from "../core/store.js";
import { visible } from "../core/text.js";
import { form } from "./form.js";
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
  if (kind === "permission_request" || kind === "input_request") {
    questions.value = [...questions.peek().filter((own) => own.request_id !== data.request_id), data];
    announce(`${data.label ?? data.tool} asks ${data.input ? "a question" : "for permission"}`);
  } else if (kind === "permission_result" || kind === "input_result") {
    const known = questions.peek().find((own) => own.request_id === data.request_id);
    questions.value = questions.peek().filter((own) => own !== known);
    if (known?.input && data.by !== "person") toast(data.by === "timeout" ? `${data.tool} got no answer in time` : `${data.tool} needs no answer any more`);
    else if (known && data.by !== "person") toast(data.granted ? `${data.tool} was allowed` : data.reason === "timeout" || data.by === "timeout" ? `${data.tool} was not answered in time` : `${data.tool} was denied`);
  }
});

const left = (question) => Math.max(0, Math.ceil((question.expires_at - serverNow()) / 1000));

// The bar in the page's frame.
export function bar() {
  const element = h("div.question", { role: "region", "aria-label": "Permission question", hidden: true });
  effect(() => {
    const [first, ...more] = questions.value;
    element.hidden = !first;
    if (first) fill(element, h("strong.clamp", name(first.label ?? first.tool)), h("span", first.input ? "asks a question" : "asks to run", more.length ? `, ${more.length} more wait` : ""), h("span.dim", { "data-left": first.request_id }), h("button.push", { onclick: openFirst }, "Review"));
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

const SENT = { accept: "answered", decline: "declined", cancel: "cancelled" };

// The dialog for one question. Its first button refuses and has the focus, and the buttons are disabled for a moment.
export function ask(question) {
  const { request_id: id, tool } = question;
  const time = h("span.dim");
  // `given` is called when the button is pressed. What it throws leaves the dialog open.
  const answer = (given, done, ...label) => h("button", { "aria-disabled": "true", onclick: async (event) => {
    if (event.currentTarget.ariaDisabled) return;
    try {
      const body = given();
      await call("POST", `permissions/${part(id)}`, body);
      toast(done);
    } catch (error) {
      if (question.input && !error.winner && error.code !== "not_found") return toast(error.message, "failed");
      toast(error.winner ? `It was answered elsewhere: ${error.winner.granted ? "allowed" : "denied"}` : error.message, error.winner ? "done" : "failed");
    }
    questions.value = questions.peek().filter((one) => one.request_id !== id);
    own.close();
  } }, label);
  const more = h("button.plain", { onclick: async () => {
    try {
      question.expires_at = (await call("POST", `permissions/${part(id)}/extend`, {})).expires_at;
    } catch (error) {
      toast(error.message, "failed");
    }
  } }, "More time");
  const { title, body, buttons } = (question.input ? input : permission)(question, answer);
  const own = dialog(title, () => [body, h("p.row", time, more), h("div.row", buttons)]);
  setTimeout(() => own.querySelectorAll("button[aria-disabled]").forEach((button) => button.removeAttribute("aria-disabled")), HANDS_OFF);
  let said = null;
  const tick = () => {
    const seconds = left(question);
    time.textContent = seconds ? `${seconds} s left` : "Not answered in time";
    if ([30, 10].includes(seconds) && said !== seconds) announce(`${said = seconds} seconds left`);
    if ((question.input || !seconds) && !questions.peek().some((one) => one.request_id === id)) own.close();
  };
  const timer = setInterval(tick, 1000);
  tick();
  own.addEventListener("close", () => clearInterval(timer));
  buttons[0].focus();
}

function permission(question, answer) {
  const { tool, context = {} } = question;
  const allowed = (given, ...label) => answer(() => ({ granted: true, ...given }), `${tool} is allowed`, ...label);
  return {
    title: ["May ", name(question.label ?? tool), " run?"],
    body: [
      facts([["Tool", tool], ["Model", context.model], ["Key", context.key], ["Domain", context.domain]]),
      h("h3", "Arguments"),
      h("div.code", json(question.params ?? {}, "Arguments", 3)),
    ],
    buttons: [
      answer(() => ({ granted: false }), `${tool} is denied`, "Deny"),
      allowed({}, "Allow once"),
      context.domain && allowed({ remember: true, scope: "domain" }, "Always for ", name(context.domain)),
      allowed({ remember: true, scope: "global" }, "Always"),
    ],
  };
}

// A server's question. Its words are quoted, and its page is only opened by a click.
function input(question, answer) {
  const { tool, input: { message, schema, url } } = question;
  const titled = Object.entries(schema?.properties ?? {}).map(([key, { title, ...own }]) => [key, { ...own, description: [title, own.description].filter(Boolean).join(": ") }]);
  const fields = schema && form({ ...schema, properties: Object.fromEntries(titled) }, "Answer");
  const does = (action, ...label) => answer(() => (action === "accept" ? `{"action":"accept","content":${fields?.read() ?? "{}"}}` : { action }), `${tool}: ${SENT[action]}`, ...label);
  return {
    title: [name(question.label ?? tool), " asks"],
    body: [
      region("pre.code", "Question", visible(message)),
      fields,
      url && [facts([["Host", new URL(url).host], ["Address", url]]), h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, "Open the page")],
      h("p.dim", "The words are those of the tool's server, which gets your answer. Give it no password."),
    ],
    buttons: [does("decline", "Decline"), does("cancel", "Cancel"), does("accept", url ? "I have opened it" : "Send")],
  };
}
