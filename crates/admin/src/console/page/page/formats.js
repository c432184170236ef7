// Formats: paste a model's text to see what toolwire finds in it, why, and what clients receive.

import { joined, lastAt, until } from "../core/analysis.js";
import { call, get, session } from "../core/api.js";
import { save } from "../core/copy.js";
import { fill, h, labelled, name, region, select, tabs } from "../core/dom.js";
import { packed, unpacked } from "../core/link.js";
import { go, href } from "../core/route.js";
import { hasSecret, utf8, visible } from "../core/text.js";
import { bytes, count } from "../core/time.js";
import { copied, json } from "../view/json.js";
import { legend, marks } from "../view/marks.js";
import { failed, note, remark, toast } from "../view/note.js";

const SAMPLES = {
  hermes: 'I will look it up.\n<tool_call>\n{"name": "web_search", "arguments": {"query": "newest rust release"}}\n</tool_call>',
  pre: 'One moment.\n<pre>{"name": "web_search", "arguments": {"query": "weather in Oslo"}}</pre>',
  fenced: 'Here is the call:\n```json\n{"name": "web_search", "arguments": {"query": "tea"}}\n```',
  "two calls": '<tool_call>{"name": "web_search", "arguments": {"query": "a"}}</tool_call>\n<tool_call>{"name": "web_search", "arguments": {"query": "b"}}</tool_call>',
  reasoning: '<think>The user wants news, so I search.</think>I will search.\n<tool_call>{"name": "web_search", "arguments": {"query": "news"}}</tool_call>',
  "cut off": 'I will look.\n<tool_call>{"name": "web_search", "arguments": {"query": "ru',
  "not a call": 'In HTML, <tool is not an element, and {"name": "x"} is only JSON.',
};
const MAX_TEXT = 256 << 10;

export default function formats({ place, heading, route }) {
  let analysis = null, cut = null, shared = null, client = "chat", abort = null, known = [];
  const format = select([["auto", "auto"]], "auto", { onchange: changed });
  const tools = h("textarea", { rows: 1, value: "web_search", spellcheck: "false", "aria-describedby": "tools-help", oninput: changed });
  const toolsHelp = h("p.small.dim", { id: "tools-help" });
  const samples = select([["", "Samples"], ...Object.keys(SAMPLES).map((key) => [key, key])], "", { "aria-label": "Samples", onchange: () => {
    if (samples.value) text.value = SAMPLES[samples.value];
    samples.value = "";
    changed();
  } });
  const text = h("textarea", { id: "model-text", spellcheck: "false", "data-search": "", oninput: changed });
  const slider = h("input", { type: "range", min: 0, "aria-label": "Cut after a byte", oninput: () => {
    cut = Number(slider.value);
    paint();
  } });
  const where = h("p.small.dim", { role: "status" });
  const marked = region("div.marked", "The text with its parts marked");
  const found = h("div");
  const what = h("ul.what");
  const why = h("ul.why");
  const gets = h("pre.code", { tabindex: 0 });
  const clients = tabs("Client", (session.peek()?.clients ?? ["chat"]).map((own) => [own, own]), gets, (own) => {
    client = own;
    paintClient();
  });
  const taught = h("div.stack");
  const problem = h("div");
  text.value = SAMPLES.hermes;
  fill(place, h("div.formats.stack",
    h("div.bar", heading, labelled("Format ", format), samples, h("button", { onclick: share }, "Share")),
    h("div.declare", labelled("Tools ", tools), toolsHelp),
    problem,
    h("div.sides",
      h("section.stack", h("h2", h("label", { for: "model-text" }, "Model output")), text, slider, where, h("h2", "How it is read"), marked),
      h("section.stack", h("h2", "What it is"), found, what, h("h2", "Why"), why)),
    h("section.panel.stack", h("h2", "What the client gets"), clients.element, gets),
    h("section.panel", taught)));

  const paintClient = () => (gets.textContent = visible(analysis?.clients?.[client] ?? "") || "Nothing yet.");

  // Reads tool names, or declarations as JSON as clients send them. Throws if they are invalid.
  function declared() {
    const said = tools.value.trim();
    if (!/^[[{]/.test(said)) return said.split(/[\s,]+/).filter(Boolean).map((own) => ({ type: "function", function: { name: own, parameters: { type: "object" } } }));
    return [JSON.parse(said)].flat();
  }

  // `null`: the field itself shows the error.
  function declaredOrWrong() {
    let list = null, wrong = "";
    try {
      list = declared();
    } catch (error) {
      wrong = `Not JSON: ${error.message}`;
    }
    toolsHelp.textContent = wrong || "Names, or a JSON list of declarations as clients send them.";
    toolsHelp.classList.toggle("wrong", Boolean(wrong));
    wrong ? tools.setAttribute("aria-invalid", "true") : tools.removeAttribute("aria-invalid");
    return list;
  }

  let timer;
  function changed() {
    clearTimeout(timer);
    timer = setTimeout(analyse, 150);
  }

  async function analyse() {
    abort?.abort();
    abort = new AbortController();
    if (utf8(text.value).length > MAX_TEXT) return fill(problem, note({ code: "too_large", message: `At most ${bytes(MAX_TEXT)} are analysed.` }));
    const list = declaredOrWrong();
    if (!list || !session.peek()?.signed_in) return;
    try {
      analysis = await call("POST", "formats/analyze", { text: text.value, format: format.value, tools: list }, { signal: abort.signal });
      fill(problem);
    } catch (error) {
      if (error.name === "AbortError") return;
      analysis = null;
      fill(problem, note(error, { retry: analyse }));
    }
    cut = shared;
    shared = null;
    paint();
    paintClient();
    teach(list);
  }

  async function teach(list) {
    const wanted = format.value !== "auto" ? format.value : analysis?.spans?.find((span) => span.format)?.format;
    const own = known.find((entry) => entry.name === wanted);
    if (!wanted || own?.taught === false) return fill(taught, h("h2", "What a model is taught"), h("p.dim", "Choose a format that can be taught."));
    try {
      const prompt = await call("POST", "formats/teach", { format: wanted, tools: list });
      const shown = prompt.prompt;
      fill(taught, h("div.row", h("h2", "What a model is taught: ", name(wanted)), h("span.dim", prompt.tokens == null ? "" : `about ${count(prompt.tokens)} tokens`), h("button.push", { onclick: () => copied(shown) }, "Copy prompt")),
        region("pre.code", "Taught prompt", visible(shown)),
        (prompt.examples ?? []).length > 0 && h("details.fold", h("summary", `Turns of examples: ${prompt.examples.length}`), h("div", prompt.examples.map((own) => h("p", h("strong", own.role), h("span.mono", " ", visible(own.text)))))));
    } catch (error) {
      fill(taught, h("h2", "What a model is taught"), h("p.dim", name(error.message)));
    }
  }

  function paint() {
    const size = utf8(text.value).length;
    const at = cut ?? size;
    slider.max = size;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `byte ${at} of ${size}`);
    const events = until(analysis?.events ?? [], cut ?? Infinity);
    const silent = Math.max(0, at - lastAt(events));
    const parts = joined(events).length;
    where.textContent = `After ${count(at)} of ${count(size)} bytes: ${count(parts)} part${parts === 1 ? "" : "s"}${silent > 0 && analysis ? `, the last ${count(silent)} bytes gave nothing yet` : ""}.`;
    fill(what, items(events));
    if (!events.length) fill(what, h("li", h("span.faint", "nothing"), h("span", "Nothing has come out so far.")));
    const spans = analysis?.spans ?? [];
    const rejected = analysis?.rejected ?? [];
    fill(why, legend(marked, spans),
      rejected.length > 0 && h("li", h("span"), h("details.fold", h("summary", `Why it is none of ${count(rejected.length)} other formats`), h("ul.why", rejected.map((own) => h("li", h("span.faint", own.range ? `${own.range[0]}–${own.range[1]}` : ""), h("span.dim", name(own.format), ": ", name(own.why))))))));
    paintFound();
    fill(marked, marks(utf8(text.value), spans, [at, at - silent], (from, to) => (from >= at ? "later" : cut !== null && from >= at - silent && to <= at ? "k-held" : "")));
  }

  // If nothing was found: the format that would find the calls, and what to configure.
  function paintFound() {
    const [best] = analysis?.found ?? [];
    if (!best || analysis.calls?.length > 0) return fill(found);
    const lines = `[[models]]\nname = "*"\ndetect = ["${best.name}"]\n`;
    const missing = best.calls.find((own) => !own.declared);
    const sure = { certain: "It is", likely: "It is probably", possible: "It may be" }[best.confidence];
    fill(found, remark([sure, " ", name(best.name)],
      h("p", name(best.summary), best.marker ? [". The text has its marker ", name(best.marker), "."] : ". The format has no marker, so only its shape says so."),
      missing && h("p", "The request declares no tool ", name(missing.name), "."),
      h("ul.what", best.calls.slice(0, 3).map((own) => h("li", h("span.dim", "call"), h("div.mono", name(own.name), " ", visible(own.arguments))))),
      best.automatic ? h("p", "It is looked for by default.") : h("pre.code", lines),
      h("div.row",
        h("button", { onclick: () => {
          format.value = best.name;
          if (missing) tools.value = [...new Set([...tools.value.trim().split(/[\s,]+/).filter(Boolean), ...best.calls.map((own) => own.name)])].join(" ");
          analyse();
        } }, "Read it so"),
        !best.automatic && h("button", { onclick: () => copied(lines) }, "Copy the lines"))));
  }

  const ENDS = { cut: "It was cut off, so it is never run.", broken: "Its arguments are not valid." };
  const items = (events) => joined(events).map((own) => h("li", h("span.dim", own.kind === "call" ? `call ${own.number}` : own.kind),
    own.kind === "call"
      ? h("div", h("strong", name(own.name)), json(own.text || "{}", `Arguments of ${own.name}`, 2), ENDS[own.end] && h("p.small.dim", ENDS[own.end]))
      : own.kind === "finish" ? h("div.dim", "The response ends.") : h("div.mono", visible(own.text))));

  async function share() {
    if (hasSecret(text.value)) toast("The text looks as if it had a key in it", "failed");
    const value = { format: format.value, text: text.value, tools: tools.value, ...(cut !== null && { cut }) };
    try {
      const s = await packed(value);
      if (s === null) {
        save("sample.json", JSON.stringify(value, null, 2), "application/json");
        toast("It is too long for a link, so it was saved as a file");
        return;
      }
      const target = href("formats", "", { s });
      go(target, { replace: true });
      copied(new URL(target, document.baseURI).href, "Link copied");
    } catch (error) {
      failed(error);
    }
  }

  async function open(query) {
    const s = query.get("s");
    if (!s) return;
    try {
      const value = await unpacked(s);
      text.value = String(value.text ?? "");
      tools.value = String(value.tools ?? "");
      format.value = value.format ?? "auto";
      shared = Number.isInteger(value.cut) ? value.cut : null;
    } catch (error) {
      toast(`The link cannot be read: ${error.message}`, "failed");
    }
  }

  (async () => {
    try {
      known = (await get("formats")).formats ?? [];
      fill(format, [["auto", "auto"], ...known.map((own) => [own.name, own.name])].map(([value, label]) => h("option", { value }, visible(label))));
      format.value = route.query.get("f") ?? "auto";
      if (route.query.get("f")) text.value = known.find((own) => own.name === format.value)?.example ?? text.value;
    } catch (error) {
      if (error.status !== 401) fill(problem, note(error));
    }
    await open(route.query);
    analyse();
  })();
  clients.pick("chat");
  paint();
  return { route: ({ query }) => open(query).then(analyse), leave: () => (abort?.abort(), clearTimeout(timer)) };
}
