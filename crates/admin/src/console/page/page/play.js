// Playground: chat with any model, in any client dialect, with all tools that toolwire hosts.

import { ApiError, call, consoleUrl, get, part, request, serverUrl, session } from "../core/api.js";
import { save } from "../core/copy.js";
import { announce, dialog, fill, fresh, glyph, h, name, pref, region, select, setPref } from "../core/dom.js";
import { chatRows, csv, curl, markdown, python, typescript } from "../core/exports.js";
import { readEvents } from "../core/feed.js";
import { saveFixture } from "../core/fixture.js";
import * as kept from "../core/history.js";
import { go, href } from "../core/route.js";
import { effect } from "../core/store.js";
import { visible } from "../core/text.js";
import { absolute, count, duration } from "../core/time.js";
import { card, isOpen } from "../view/card.js";
import { copied } from "../view/json.js";
import { Prose, prose } from "../view/markdown.js";
import { empty, failed, note, toast } from "../view/note.js";
import { questions } from "../view/permission.js";
import { promptButton } from "../view/prompts.js";

const THEMES = [["plain", "Chat: plain"], ["dark", "Chat: dark"], ["parchment", "Chat: parchment"]];
const PROMPTS = {
  web_search: "Find the newest stable release of Rust and say what is new in it.",
  generate_images: "/generate-image a red crab on a beach, watercolour",
  scrape: "Read https://example.com and sum it up in one sentence.",
};
// A running chat continues while other pages are shown.
let active = null;
// Drafts survive signing in and switching pages.
let draft = "";
// An answer that is interrupted because the user leaves the page resumes when they return.
let isLeaving = false;
addEventListener("pagehide", () => (isLeaving = true));
addEventListener("pageshow", () => (isLeaving = false));

export default function play({ place, heading, route }) {
  let chats = [], models = null, unlisted = "", takesAny = false, tools = [], chat = null, follows = true, isOpened = false, sending = null;
  const instance = session.peek()?.instance;
  // A wildcard may serve models that no list has, so any name can be typed.
  const names = h("datalist", { id: fresh("models") });
  const model = h("input", { type: "text", list: names.id, value: pref("model", ""), placeholder: "Model", "aria-label": "Model", spellcheck: "false", oninput: () => say(""), onchange: () => setPref("model", model.value) });
  const client = select(session.peek()?.clients ?? ["chat"], pref("client", "chat"), { "aria-label": "Client dialect", onchange: () => setPref("client", client.value) });
  const theme = select(THEMES, pref("chat-theme", "plain"), { "aria-label": "Theme of the chat", onchange: () => {
    setPref("chat-theme", theme.value);
    paintTheme();
  } });
  const paintTheme = () => THEMES.forEach(([own]) => column.classList.toggle(own, own === theme.value));
  const take = (title, entries) => {
    const choice = select([["", title], ...Object.keys(entries).map((key) => [key, key])], "", { "aria-label": title, onchange: () => {
      entries[choice.value]?.();
      choice.value = "";
    } });
    return choice;
  };
  const code = take("Code", { curl: () => showCode(curl), Python: () => showCode(python), TypeScript: () => showCode(typescript) });
  const exports = take("Export", {
    Markdown: () => save(`${chat.id}.md`, markdown(chat), "text/markdown"),
    JSON: () => save(`${chat.id}.json`, JSON.stringify(chat, null, 2), "application/json"),
    CSV: () => save(`${chat.id}.csv`, csv(chatRows(chat)), "text/csv"),
    Fixture: () => {
      // Only the last answer, because a fixture holds one exchange.
      const last = chat.turns.findLast((turn) => turn.exchange);
      return last ? saveFixture(last.exchange).catch(failed) : toast("No answer has begun yet", "failed");
    },
  });
  const past = h("nav.past", { "aria-label": "Chats" });
  const log = h("div.chat", { role: "log", "aria-live": "off", "aria-label": "Chat", tabindex: 0 });
  const down = h("button.follow", { hidden: true, onclick: () => {
    follows = true;
    bottom();
  } }, "Go to the end");
  const field = h("textarea", { rows: 1, "aria-label": "Message", placeholder: "Message", "data-search": "", value: draft, oninput: () => {
    draft = field.value;
    if (!hint.hidden) say("");
  }, onkeydown: (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!event.repeat) send();
    }
  } });
  // What keeps a message from being sent.
  const hint = h("p.small.wrong", { hidden: true });
  function say(text, at) {
    hint.textContent = text;
    hint.hidden = !text;
    if (text) announce(text);
    if (at === model && text) model.setAttribute("aria-invalid", "true");
    else model.removeAttribute("aria-invalid");
    at?.focus();
  }
  // The second click of a double click does not stop what the first one has sent.
  const submit = h("button.main", { onclick: ({ detail }) => (!active || active.chat !== chat ? send() : detail < 2 && active.abort.abort()) }, "Send");
  const prompts = promptButton((text) => {
    draft = field.value = text;
    field.focus();
  });
  const column = h("div.column", h("h2.only-read", "Chat"), log, down, h("div.compose", hint, field, prompts.button, submit));
  // Where there is no room, both are behind a button.
  const choices = h("div.bar.choices"), side = h("div.stack.side");
  const more = (label, element) => {
    element.id = fresh("more");
    const own = h("button.opens", { "aria-expanded": "false", "aria-controls": element.id, onclick: () => own.setAttribute("aria-expanded", element.classList.toggle("open")) }, label);
    return own;
  };
  fill(side, past);
  fill(choices, h("label", "API", client), theme, code, exports);
  fill(place,
    h("div.bar.play-head", heading, h("button", { onclick: () => go(href("play")) }, "New chat"), more("Chats", side), more("Options", choices), model, names, choices),
    h("div.play", side, column));
  paintTheme();

  // Only the user's own scrolling turns following the end on or off.
  const scrolled = () => {
    if (active?.isPainting) return;
    follows = innerHeight + scrollY >= document.documentElement.scrollHeight - 24;
    down.hidden = follows;
  };
  // Rows get their real height only when they become visible, so the end may move in the next frame.
  const bottom = () => {
    const toEnd = () => scrollTo(0, document.documentElement.scrollHeight);
    toEnd();
    down.hidden = true;
    requestAnimationFrame(() => follows && place.isConnected && toEnd());
  };
  for (const kind of ["wheel", "touchmove", "keydown"]) addEventListener(kind, scrolled, { passive: true });

  function paintPast() {
    const day = (t) => (new Date(t).toDateString() === new Date().toDateString() ? "Today" : "Earlier");
    let last = "";
    fill(past, chats.slice(0, 100).map((own) => {
      const title = day(own.t);
      const head = title !== last && h("h2", title);
      last = title;
      return [head, h("div.row", h("a.grow.cut", { href: href("play", own.id), "aria-current": own.id === chat?.id ? "true" : null, title: absolute(own.t) }, name(own.title)), h("button.plain", { "aria-label": `Forget ${own.title}`, onclick: () => forget(own) }, "×"))];
    }));
  }

  async function forget(own) {
    await kept.forget(instance, own.id).catch(() => {});
    chats = chats.filter((one) => one.id !== own.id);
    if (own.id === chat?.id) go(href("play"));
    else paintPast();
  }

  function open(id) {
    isOpened = true;
    chat = active?.chat.id === id ? active.chat : chats.find((own) => own.id === id) ?? null;
    if (id && !chat) toast("This chat is not kept in this browser", "failed");
    fill(log, chat ? chat.turns.map((turn) => (turn === active?.turn ? active.element : turnView(turn))) : begin());
    exports.disabled = !chat;
    paintSend();
    paintPast();
    follows = true;
    if (chat) requestAnimationFrame(bottom);
    const last = chat?.turns.at(-1);
    if (last?.running && !active) attach(last);
  }

  // An answer that was still arriving when the page was left: read it again from the start.
  function attach(turn) {
    log.lastChild.remove();
    Object.assign(turn, { parts: [], hops: 1 });
    run(turn, (options) => request("GET", consoleUrl(`api/chat/${part(turn.exchange)}`), options));
  }

  function begin() {
    if (models && !models.length && !takesAny) {
      return empty("No models", h("p.dim", "The list of models is empty. Add an upstream and a model to the configuration:"), region("pre.code", "Lines to add", '[[upstreams]]\nname = "local"\ndialect = "chat"\nbase_url = "http://127.0.0.1:11434/v1"\n\n[[models]]\nname = "*"\nupstream = "local"'));
    }
    const prompts = Object.entries(PROMPTS).filter(([tool]) => tools.some((own) => own.name === tool)).map(([, prompt]) => prompt);
    return empty("Begin with a message", h("p.dim", "Chats stay in this browser."), models && !models.length && h("p", unlisted ? visible(`${unlisted}.`) : "The upstream lists no models.", " Type a model's name above."), (prompts.length ? prompts : ["Write a haiku about copper wire.", "Explain split invariance in two sentences."]).map((prompt) => h("div", h("button", { onclick: () => {
      field.value = draft = prompt;
      field.focus();
    } }, prompt))));
  }

  function paintSend() {
    const isRunning = active && active.chat === chat;
    submit.textContent = isRunning ? "Stop" : "Send";
    submit.classList.toggle("main", !isRunning);
  }

  function turnView(turn) {
    if (turn.role === "user") return h("div.turn-user.done", h("span.only-read", "You: "), name(turn.text));
    const element = h("div.turn-model.done");
    for (const own of turn.parts) element.append(partView(own, turn));
    element.append(foot(turn));
    return element;
  }

  function partView(own, turn) {
    if (own.kind === "text") return prose(own.text);
    if (own.kind === "stopped" || own.code === "cancelled") return h("p.row.small.dim", glyph("cancelled"), "You stopped it.");
    if (own.kind === "reasoning") return h("details.fold.reasoning", h("summary", "Reasoning"), h("div.prose", visible(own.text)));
    if (own.kind === "call") return card({ ...own, state: isOpen(own) ? "cut" : own.state }, { tool: own.name, exchange: turn.exchange }).element;
    return note(own, { retry: own.retryable ? () => again(turn) : undefined, facts: { exchange: turn.exchange } });
  }

  const foot = ({ usage = {}, ttft_ms: first, hops, ms, exchange }) => h("p.small.dim", [hops && `${hops} hop${hops === 1 ? "" : "s"}`, usage.input_tokens != null && `${count(usage.input_tokens)} tokens in, ${count(usage.output_tokens ?? 0)} out`, first != null && `TTFT ${duration(first)}`, ms != null && duration(ms)].filter(Boolean).join(", "), exchange && [" ", h("a", { href: href("live", exchange) }, "open in Live")]);

  function again(turn) {
    const at = chat.turns.indexOf(turn);
    const asked = chat.turns[at - 1];
    if (active || asked?.role !== "user") return;
    chat.turns.splice(at - 1, 2);
    field.value = asked.text;
    open(chat.id);
    send();
  }

  async function send() {
    const own = (sending = {});
    if (!isOpened) say("The chat is being read: the message is sent then.");
    else if (!model.value && !models) say("The models are being listed: the message is sent then.");
    if (!isOpened) await isLoaded;
    if (!model.value) await isListed;
    // A later attempt takes its place. On another page, the text stays a draft.
    if (sending !== own || !field.isConnected) return;
    const text = field.value.trim();
    if (!text) return say("Write a message first.", field);
    if (active) return say(active.chat === chat ? "The answer is not complete yet: wait, or stop it." : "Another chat is being answered: wait, or stop it there.");
    if (!session.peek()?.signed_in) return say("Sign in first.");
    if (!model.value) return say(models.length ? "Choose a model first." : "Type the name of a model first: the upstream lists none.", model);
    if (models?.length && !takesAny && !models.some((own) => own.name === model.value)) return say("There is no model of this name: choose one of the list.", model);
    say("");
    field.value = draft = "";
    if (!chat) {
      chat = { id: `c_${Date.now().toString(36)}`, t: Date.now(), title: text.slice(0, 60), turns: [] };
      chats.unshift(chat);
      fill(log);
      route = { ...route, id: chat.id };
      go(href("play", chat.id), { replace: true });
    }
    const asked = { role: "user", text };
    chat.turns.push(asked);
    log.append(turnView(asked));
    const turn = { role: "model", model: model.value, client: client.value, parts: [], hops: 1 };
    chat.turns.push(turn);
    await run(turn);
  }

  // The part of the chat that is sent to the model: its texts.
  const messages = () => chat.turns.slice(0, -1).map((turn) => ({ role: turn.role === "user" ? "user" : "assistant", content: turn.role === "user" ? turn.text : turn.parts.filter((own) => own.kind === "text").map((own) => own.text).join("") })).filter((own) => own.content);

  const asked = (turn) => (options) => request("POST", consoleUrl("api/chat"), { ...options, body: { model: turn.model, client: turn.client, messages: messages() } });

  async function run(turn, read = asked(turn)) {
    const own = (active = { chat, turn, abort: new AbortController(), element: h("div.turn-model"), isPainting: false });
    log.append(own.element);
    paintSend();
    const answer = new Answer(turn, own.element);
    const began = performance.now();
    const keep = (last) => kept.put(instance, { ...own.chat, turns: own.chat.turns.with(-1, last) }).catch(() => toast("The chat cannot be kept in this browser", "failed"));
    announce("Answer started");
    const painter = () => {
      own.frame = 0;
      own.isPainting = true;
      answer.paint();
      if (follows && chat === own.chat && own.element.isConnected) bottom();
      own.isPainting = false;
    };
    const later = () => (own.frame ||= requestAnimationFrame(painter));
    const beat = setInterval(() => answer.beat(), 100);
    // Questions arrive through the feed, before or after the call that they belong to.
    const stopQuestions = effect(() => questions.value && later());
    try {
      const response = await read({ headers: { Accept: "text/event-stream" }, signal: own.abort.signal });
      await readEvents(response, (kind, data) => {
        answer.take(kind, data, performance.now() - began);
        later();
        // From here on, a reload can restore the chat.
        if (kind === "message_start") keep({ ...turn, running: true });
      });
      if (!answer.isComplete && !isLeaving) answer.take("error", { error: { code: "unreachable", message: "The answer broke off.", retryable: true } });
    } catch (error) {
      if (isLeaving) return;
      if (error.name === "AbortError") {
        answer.stop();
        // Without this the chat would keep running for a while, as it does after a reload.
        if (turn.exchange) request("DELETE", consoleUrl(`api/chat/${part(turn.exchange)}`)).catch(() => {});
      }
      else if (turn.running && [404, 410].includes(error.status)) answer.take("error", { error: { code: "lost", message: "The page was left while the answer arrived, and it is not kept any more.", retryable: true } });
      else answer.take("error", { error: { code: error.code ?? "unreachable", message: error.message, status: error.status, retry_after_s: error.retryAfter, retryable: !(error instanceof ApiError) || error.status === 0 || error.status >= 500 || error.status === 429 } });
    }
    stopQuestions();
    clearInterval(beat);
    if (own.frame) cancelAnimationFrame(own.frame);
    answer.finish();
    turn.ms ??= performance.now() - began;
    delete turn.running;
    active = null;
    if (own.element.isConnected) {
      const errors = turn.parts.filter((one) => ["error", "stopped"].includes(one.kind));
      own.element.append(...errors.map((one) => partView(one, turn)), foot(turn));
      own.element.classList.add("done");
    }
    const ended = turn.parts.findLast((one) => ["error", "stopped"].includes(one.kind))?.kind;
    announce({ error: "Answer failed", stopped: "Answer stopped" }[ended] ?? "Answer complete");
    paintSend();
    paintPast();
    exports.disabled = false;
    await keep(turn);
  }

  function showCode(make) {
    const base = h("input.grow", { value: serverUrl().href, "aria-label": "Base URL" });
    const shown = region("pre.code", "Code");
    const said = chat ? chat.turns.filter((turn) => turn.role === "user").map((turn) => ({ role: "user", content: turn.text })).slice(-1) : [{ role: "user", content: "Hello" }];
    const update = () => (shown.textContent = make(base.value, client.value, model.value, said));
    base.addEventListener("input", update);
    update();
    dialog("The same request", (close) => [
      h("label.row", "Base URL", base), shown,
      h("div.row", h("button", { onclick: () => copied(shown.textContent) }, "Copy"), h("button", { onclick: close }, "Close"))]);
  }

  // Models that have answered lately, newest first.
  const recent = async () => {
    const { exchanges } = await get("exchanges?q=state:done&limit=100");
    return [...new Set(exchanges.filter((own) => own.upstream !== "sample").map((own) => own.model))];
  };

  // Chooses a model whose upstream answers, first of all one that has answered.
  function choose(answered) {
    const known = (own) => takesAny || models.some(({ name }) => name === own);
    if (model.value && known(model.value)) return;
    const alive = models.filter(({ answers }) => answers !== false);
    const lately = answered.filter((own) => known(own) && !models.some(({ name, answers }) => name === own && answers === false));
    model.value = lately[0] ?? (alive.find(({ answers }) => answers) ?? alive[0] ?? models[0])?.name ?? "";
  }

  async function list() {
    if (session.peek()?.signed_in) {
      const [found, hosted, answered] = await Promise.all([get("models").catch(failed), get("tools").catch(() => ({ tools: [] })), recent().catch(() => [])]);
      tools = hosted.tools;
      for (const own of tools) if (own.label) labels.set(own.name, own.label);
      takesAny = found?.any ?? true;
      models = found?.models ?? [];
      unlisted = found?.error ?? "";
      fill(names, models.map(({ name, upstream, answers }) => h("option", { value: name }, answers === false ? `${visible(upstream)} does not answer` : visible(upstream))));
      // Nothing is put between the letters that somebody types.
      if (document.activeElement !== model) choose(answered);
      else model.addEventListener("blur", () => model.value || choose(answered), { once: true });
    }
    models ??= [];
    if (!chat && isOpened && place.isConnected) fill(log, begin());
  }

  const isLoaded = (async () => {
    const found = await kept.all(instance).catch(() => {
      toast("The chats of this browser cannot be read", "failed");
      return [];
    });
    chats.push(...found.filter(({ id }) => !chats.some((own) => own.id === id)));
    if (isOpened) paintPast();
    else open(route.id);
  })();
  // A new chat does not need those that are kept.
  if (!route.id) open("");
  const isListed = list();
  return {
    route(next) {
      route = next;
      if (next.id !== (chat?.id ?? "")) open(next.id);
    },
    leave() {
      prompts.stop();
      for (const kind of ["wheel", "touchmove", "keydown"]) removeEventListener(kind, scrolled);
    },
  };
}

// Names of tools for people.
const labels = new Map();

const FAILED = { permission_denied: "denied", permission_timeout: "expired", cancelled: "cancelled", loop: "repeated" };

// An answer while it arrives. Text is collected and rendered once per frame.
class Answer {
  #texts = [];
  #cards = new Map();
  isComplete = false;

  // When something arrived last, and the line that says what is waited for since then.
  #last = performance.now();
  #wait = null;

  constructor(turn, element) {
    Object.assign(this, { turn, element });
  }

  // Shows that the answer is waited for, while nothing else moves.
  beat() {
    const age = performance.now() - this.#last;
    const isIdle = age > (this.turn.parts.length ? 1000 : 300) && ![...this.#cards.values()].some((own) => isOpen(own.call));
    if (!isIdle || this.isComplete) {
      this.#wait?.remove();
      return (this.#wait = null);
    }
    this.#wait ??= h("p.row.small.dim.pulse", glyph("running"), h("span", "Waiting for ", name(this.turn.model)), h("span"));
    this.#wait.lastChild.textContent = duration(age);
    if (!this.#wait.isConnected || this.#wait.nextSibling) this.element.append(this.#wait);
  }

  #text(kind, text) {
    const last = this.turn.parts.at(-1);
    if (last?.kind === kind) last.text += text;
    else {
      this.turn.parts.push({ kind, text });
      const view = kind === "text" ? new Prose() : fold();
      this.element.append(view.element);
      this.#texts.push(view);
    }
    this.#texts.at(-1).push(text);
  }

  // Only calls that toolwire runs have a `provider`, from when they run, and can be cancelled.
  #call({ id, name: tool = "tool", input, input_bytes: size }, change, provider) {
    let own = this.#cards.get(id);
    if (!own) {
      const made = { kind: "call", id, name: tool, label: labels.get(tool), input, input_bytes: size, state: "running", startedAt: Date.now() };
      this.turn.parts.push(made);
      const { exchange } = this.turn;
      own = card(made, { tool, exchange }, () => call("DELETE", `calls/${part(exchange)}/${part(id)}`).catch(failed));
      this.#cards.set(id, own);
      this.element.append(own.element);
      announce(`Calling ${tool}`);
    }
    own.update({ ...(input !== undefined && { input }), ...(provider && { isRun: true }), ...change });
  }

  take(kind, data, ms) {
    const { turn } = this;
    this.#last = performance.now();
    if (data.exchange) turn.exchange = data.exchange;
    if (data.hop) turn.hops = Math.max(turn.hops, data.hop);
    if (kind === "message_update") {
      if (data.reasoning) this.#text("reasoning", data.reasoning);
      if (data.content) {
        turn.ttft_ms ??= ms;
        this.#text("text", data.content);
      }
    } else if (kind === "tool_use") {
      const before = this.#cards.get(data.toolCall.id)?.call;
      if (data.input_text) this.#call(data.toolCall, { state: "arriving", inputText: (before?.inputText ?? "") + data.input_text });
      else this.#call(data.toolCall, { state: "running", inputText: undefined, progress: data.progress, ...(before?.state === "arriving" && { startedAt: Date.now() }) }, data.provider);
    }
    else if (kind === "tool_progress") this.#call(data.toolCall, { state: "running", done: data.done, total: data.total, ...(data.progress && { progress: data.progress }) }, data.provider);
    else if (kind === "tool_result") this.#call(data.toolCall, { state: data.ok ? (data.cached ? "cached" : "ok") : FAILED[data.code] ?? "failed", result: data.result, details: data.details, code: data.code, ms: data.ms, progress: undefined });
    else if (kind === "message_complete") {
      this.isComplete = true;
      if (data.content && !turn.parts.some((own) => own.kind === "text")) this.#text("text", data.content);
      Object.assign(turn, { usage: data.usage ?? {}, ms: data.ms, finish: data.finish, ttft_ms: data.ttft_ms ?? turn.ttft_ms });
    } else if (kind === "error") {
      this.isComplete = true;
      turn.parts.push({ kind: "error", ...data.error });
    }
  }

  // The user's own wish is no error.
  stop() {
    this.isComplete = this.isStopped = true;
    this.turn.parts.push({ kind: "stopped" });
  }

  paint() {
    this.beat();
    for (const view of this.#texts) view.paint();
    for (const own of this.#cards.values()) {
      const asked = questions.peek().find(({ context, tool }) => context?.exchange === this.turn.exchange && tool === own.call.name);
      if (["running", "asking", "entering"].includes(own.call.state)) own.update({ state: asked ? (asked.input ? "entering" : "asking") : "running" });
    }
  }

  finish() {
    this.isComplete = true;
    this.beat();
    for (const view of this.#texts) view.finish();
    const state = this.isStopped ? "stopped" : this.turn.finish === "tool_calls" ? "returned" : "cut";
    for (const own of this.#cards.values()) if (isOpen(own.call)) own.update({ state });
  }
}

// Reasoning: collapsed, and only ever appended to.
function fold() {
  const text = document.createTextNode("");
  let waiting = "";
  return {
    element: h("details.fold.reasoning", h("summary", "Reasoning"), h("div.prose", text)),
    push: (more) => (waiting += more),
    paint() {
      if (waiting) text.appendData(visible(waiting));
      waiting = "";
    },
    finish() {
      this.paint();
    },
  };
}
