// The prompts of MCP servers: a button that opens a dialog, in which one is chosen and filled in.

import { call, get, part } from "../core/api.js";
import { dialog, fill, h, name, select } from "../core/dom.js";
import { listen } from "../core/feed.js";
import { form } from "./form.js";
import { failed, toast } from "./note.js";

// `insert(text)` gets the text of the prompt. `stop()` ends the watch for new prompts.
export function promptButton(insert) {
  const button = h("button", { hidden: true, onclick: () => open(insert).catch(failed) }, "Prompts");
  const refresh = async () => {
    const { prompts } = await get("prompts").catch(() => ({ prompts: [] }));
    button.hidden = !prompts.length;
  };
  refresh();
  const stop = listen((kind) => kind === "provider_status" && refresh());
  return { button, stop };
}

async function open(insert) {
  const { prompts } = await get("prompts");
  if (!prompts.length) return toast("No server offers a prompt any more");
  const choice = select(prompts.map((own, index) => [index, `${own.provider}: ${own.title || own.name}`]), 0, { "aria-label": "Prompt", onchange: () => show() });
  const place = h("div.stack");
  let fields;
  const show = () => {
    const { description, arguments: wanted } = prompts[choice.value];
    const properties = Object.fromEntries(wanted.map((own) => [own.name, { type: "string", description: own.description }]));
    fields = wanted.length ? form({ type: "object", properties, required: wanted.filter((own) => own.required).map((own) => own.name) }, "Arguments") : null;
    fill(place, description && h("p", name(description)), fields);
  };
  show();
  const own = dialog("Prompts", (close) => [choice, place, h("div.row", h("button", { onclick: close }, "Cancel"), h("button", { onclick: async () => {
    const { provider, name: prompt } = prompts[choice.value];
    try {
      const { messages } = await call("POST", `prompts/${part(provider)}/${part(prompt)}`, `{"arguments":${fields?.read() ?? "{}"}}`);
      insert(joined(messages));
      own.close();
    } catch (error) {
      toast(error.message, "failed");
    }
  } }, "Use"))]);
}

// The messages as one text. The speakers are named if there are several.
const joined = (messages) => messages.map(({ role, content }) => (messages.some((own) => own.role === "assistant") ? `${role}: ${content}` : content)).join("\n\n");
