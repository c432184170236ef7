// What went wrong and what to do about it; short messages at the corner; what is shown where there is nothing.

import { h, name } from "../core/dom.js";
import { href } from "../core/route.js";

// A sentence for each code, and what leads on.
const KNOWN = {
  auth_failed: ["The provider rejected its key.", (facts) => [href("settings", facts.provider && `providers.${facts.provider}`), "Open its key"]],
  invalid_key: ["The key is not valid."],
  timeout: ["It took longer than its timeout.", () => [href("settings", "execution"), "Open the timeouts"]],
  rate_limited: ["The limit of requests is reached."],
  quota_exceeded: ["The account has no quota left."],
  content_policy: ["The service refused the description. Try a different one."],
  validation_failed: ["The arguments do not fit the tool's schema."],
  invalid_arguments: ["The arguments do not fit the tool's schema."],
  permission_denied: ["The call was not allowed.", () => [href("tools"), "Open the rules"]],
  unknown_tool: ["There is no such tool.", () => [href("tools"), "See the tools"]],
  unavailable: ["The provider cannot be reached."],
  unreachable: ["toolwire does not answer. It may be restarting."],
  cancelled: ["It was cancelled."],
  stalled: ["The client read too slowly."],
  too_large: ["It is larger than the limit allows."],
  not_found: ["It is not there."],
  no_hosted_tools: ["The configuration has no table [execution].", () => [href("tools"), "What to add"]],
};

// An error as a card. `retry` is offered only where trying again makes sense.
export function note(error, { retry, facts = {} } = {}) {
  const { code = "error", message } = error;
  const [sentence, lead] = KNOWN[code] ?? [];
  const [target, label] = lead?.(facts) ?? [];
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
  return h("section", { class: "note", role: "alert" },
    h("h3", null, name(shown)),
    message && message !== shown && h("p", null, name(message)),
    h("p", { class: "small dim" }, Object.entries({ code, ...facts }).filter(([, value]) => value).map(([key, value]) => [h("span", null, `${key} `, name(value)), "  "])),
    (again || target) && h("div", { class: "row" }, again, target && h("a", { href: target }, label)));
}

// A remark that is no error.
export const remark = (title, ...children) => h("section", { class: "note info" }, h("h3", null, title), ...children);

export const empty = (title, ...children) => h("div", { class: "empty stack" }, h("h2", null, title), ...children);

let region;

// A short message. Errors stay until they are closed.
export function toast(text, kind = "done") {
  if (!region) {
    region = h("div", { class: "toasts", role: "region", "aria-label": "Messages" }, h("div", { role: "status" }));
    document.body.append(region);
  }
  const list = region.firstChild;
  while (list.children.length >= 3) list.firstChild.remove();
  const item = h("div", { class: kind }, h("span", { class: "grow" }, name(text)), h("button", { class: "plain push", "aria-label": "Close this message", onclick: () => item.remove() }, "×"));
  list.append(item);
  if (kind !== "failed") setTimeout(() => item.remove(), 6000);
}

export const failed = (error) => toast(error.message, "failed");
