// Errors with advice, short messages in the corner, and placeholders for empty pages.

import { h, name, status } from "../core/dom.js";
import { href } from "../core/route.js";

const timeouts = () => [href("settings", "execution"), "Open the timeouts"];
const upstream = (facts) => facts.exchange && [href("live", facts.exchange), "See what it sent"];

// For each error code: what happened, what to do, and where to go for it.
const KNOWN = {
  // Hosted calls.
  invalid_arguments: ["The arguments do not fit the tool's schema.", "Compare them with the schema of the tool.", (facts) => [href("tools", facts.tool), "See the schema"]],
  unknown_tool: ["There is no such tool.", "It may have been switched off, or its provider is not ready.", () => [href("tools"), "See the tools"]],
  permission_denied: ["The call was not allowed.", "A person or a remembered rule denied it.", () => [href("tools"), "Open the rules"]],
  permission_timeout: ["Nobody answered in time whether the call may run.", "Ask again, or remember an answer.", () => [href("tools"), "Open the rules"]],
  rate_limited: ["The limit of requests is reached.", "Wait a moment, or raise the limit of the provider."],
  timeout: ["It took longer than its timeout.", "Try again, or allow more time.", timeouts],
  provider_error: ["The provider failed.", "Test it, and read its log.", (facts) => [href("tools", "", { provider: facts.provider }), "See the providers"]],
  auth_failed: ["The provider rejected its key.", "Give it another key.", (facts) => [href("settings", facts.provider && `providers.${facts.provider}`), "Open its key"]],
  blocked_url: ["The address may not be opened.", "It is private, or not among the allowed domains.", () => [href("settings", "execution"), "Open the settings"]],
  content_policy: ["The service refused the description.", "Try a different one."],
  unsupported_content: ["It is no text, image or PDF that a model can read."],
  too_large: ["It is larger than the limit allows.", "Ask for less."],
  cancelled: ["It was cancelled."],
  max_calls: ["The response has as many calls as `max_calls` allows.", "The model was told to answer without more."],
  max_rounds: ["The response has as many rounds as `max_rounds` allows.", "The model was told to answer without more."],
  max_uses: ["The tool was called as often as `max_uses` allows.", "The model was told to answer without it."],
  loop: ["The same call was made again and again.", "The model was told to answer without it."],
  // Requests.
  invalid_key: ["The key is not valid."],
  upstream_timeout: ["The upstream took too long.", "See whether it is busy, or allow more time.", upstream],
  upstream_unreachable: ["The upstream cannot be reached.", "See whether it runs, and whether its address is right.", () => [href("settings"), "Open the settings"]],
  upstream_protocol: ["The upstream sent what is not its API.", "See whether its dialect is the right one.", upstream],
  upstream_truncated: ["The upstream ended in the middle.", "Try again.", upstream],
  context_length_exceeded: ["The chat is longer than the model can read.", "Begin a new one, or choose another model."],
  insufficient_quota: ["The budget of this key is used up."],
  overloaded: ["The upstream is overloaded.", "Try again in a moment."],
  stalled: ["The client read too slowly."],
  unreachable: ["toolwire does not answer.", "It may be restarting."],
  not_found: ["It is not there."],
  no_hosted_tools: ["The configuration has no table [execution].", "", () => [href("tools"), "What to add"]],
};

// An error as a card. `retry` is offered only if trying again can help.
export function note(error, { retry, facts = {} } = {}) {
  const { code = "error", message } = error;
  const [sentence, advice, lead] = (Object.hasOwn(KNOWN, code) && KNOWN[code]) || [];
  const [target, label] = lead?.(facts) || [];
  const shown = sentence ?? message ?? code;
  let after = error.retryAfter ?? error.retry_after_s ?? 0;
  const again = retry && h("button", { onclick: retry, disabled: after > 0 }, after ? `Try again in ${after} s` : "Try again");
  if (again && after) {
    const timer = setInterval(() => {
      after--;
      again.disabled = after > 0;
      again.textContent = after > 0 ? `Try again in ${after} s` : "Try again";
      if (after <= 0) clearInterval(timer);
    }, 1000);
  }
  return h("section.note", { role: "alert" },
    h("h3", name(shown)),
    message && message !== shown && h("p", name(message)),
    advice && h("p", advice),
    h("p.row.small.dim", Object.entries({ code, ...facts }).filter(([, value]) => value).map(([key, value]) => h("span", `${key} `, name(value)))),
    (again || target) && h("div.row", again, target && h("a", { href: target }, label)));
}

// A remark that is not an error.
export const remark = (title, ...children) => h("section.note.info", h("h3", title), ...children);

export const empty = (title, ...children) => h("div.empty.stack", h("h2", title), ...children);

const VERDICTS = { invalid: "The provider rejected this key. Copy it again.", unreachable: "The provider cannot be reached.", rate_limited: "The provider limits requests now." };

// The result of testing a provider.
export const verdictLine = (verdict, hasKey = true) => (verdict === "valid" ? status("done", hasKey ? "The key is valid." : "The provider can be used.") : status("error", VERDICTS[verdict] ?? name(verdict)));

let messages;

// A short message. Errors stay until they are closed.
export function toast(text, kind = "done") {
  if (!messages) {
    messages = h("div.toasts", { role: "region", "aria-label": "Messages" }, h("div", { role: "status" }));
    document.body.append(messages);
  }
  const list = messages.firstChild;
  while (list.children.length >= 3) list.firstChild.remove();
  const item = h("div", { class: kind }, h("span.grow", name(text)), h("button.plain.push", { "aria-label": "Close this message", onclick: () => item.remove() }, "×"));
  list.append(item);
  if (kind !== "failed") setTimeout(() => item.remove(), 6000);
}

export const failed = (error) => toast(error.message, "failed");
