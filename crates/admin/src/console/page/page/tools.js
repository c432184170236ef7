// Tools: open questions first, then providers and their tools, each of which can be inspected, switched and tried.

import { adminUrl, ApiError, call, get, part, request, serverUrl, session } from "../core/api.js";
import { dialog, facts, fill, glyph, h, name, region, status } from "../core/dom.js";
import { quoted } from "../core/exports.js";
import { listen } from "../core/feed.js";
import { href } from "../core/route.js";
import { effect } from "../core/store.js";
import { tallied } from "../core/tally.js";
import { visible } from "../core/text.js";
import { ago, count, duration, percent } from "../core/time.js";
import { form } from "../view/form.js";
import { copied, json } from "../view/json.js";
import { card } from "../view/card.js";
import { keyLogins, logIn, logOutButton } from "../view/login.js";
import { empty, failed, note, toast, verdictLine } from "../view/note.js";
import { ask, questions } from "../view/permission.js";

// Calls reported by the feed since the page was opened: their durations, and whether they were served from the cache.
const seen = new Map();
listen((kind, data) => {
  if (kind !== "tool_result") return;
  const own = seen.get(data.toolCall.name) ?? { calls: 0, cached: 0, times: [] };
  own.calls++;
  own.cached += data.cached ? 1 : 0;
  own.times = [...own.times.slice(-199), data.ms];
  seen.set(data.toolCall.name, own);
});

const LINES = '[execution]\n\n[[providers]]\nname = "serper"\nkind = "serper"\napi_key = "env:SERPER_API_KEY"\n';
const GOOD = ["ready", "healthy", "up", "ok"];
const GLYPH = (state) => (GOOD.includes(state) ? "done" : ["starting", "restarting"].includes(state) ? "running" : state === "needs_login" ? "waiting" : "error");
const half = (times) => [...times].sort((one, other) => one - other)[Math.floor(times.length / 2)];

export default function tools({ place, heading, route }) {
  let list = { tools: [], providers: [], execution: true }, rules = { rules: [], auto_approve: false }, counts = new Map(), paintFacts = () => {}, problem = null, find = "";
  const waiting = h("div.stack");
  const search = h("input.grow", { type: "search", "data-search": "", placeholder: "Find a tool", "aria-label": "Find a tool", oninput: () => {
    find = search.value.toLowerCase();
    paintList();
  } });
  const pick = h("div.pick", { role: "navigation", "aria-label": "Tools" });
  const shown = h("section.stack", { "aria-label": "Tool" });
  const summary = h("span.figure");
  const root = h("div.choose", h("div.pick.stack", search, pick), shown);
  fill(place, h("div.bar", heading, summary), waiting, root);

  const stopQuestions = effect(() => fill(waiting, questions.value.length ? h("section.stack", h("h2", "Questions"), questions.value.map((own) => h("div.note.info", h("div.row", h("strong.grow.clamp", name(own.label ?? own.tool)), h("span.dim", name(own.context?.model ?? ""), " ", name(own.context?.domain ?? "")), h("button.push", { onclick: () => ask(own) }, "Review"))))) : null));
  const stopFeed = listen((kind) => {
    if (["registry_changed", "provider_status", "reset"].includes(kind)) load();
    if (kind === "permission_result") loadRules();
    if (kind === "tool_result") counted ??= setTimeout(countCalls, 500);
  });

  // Counts since the start of toolwire come from its metrics. A proxy may block these; then no counts are shown.
  let counted = null;
  async function countCalls() {
    counted = null;
    try {
      counts = tallied(await (await request("GET", serverUrl("metrics"))).text());
    } catch {
      return;
    }
    paintList();
    paintFacts();
  }

  async function load() {
    if (!session.peek()?.signed_in) return paintList();
    try {
      list = await get("tools");
      problem = null;
    } catch (error) {
      problem = error;
    }
    paintList();
    if (!shown.contains(document.activeElement)) paintOne();
  }

  async function loadRules() {
    try {
      rules = await get("permissions");
    } catch {
      // The list of tools shows the error.
    }
    if (!route.id) paintOne();
  }

  function paintList() {
    summary.textContent = `${count(list.tools.length)} tools, ${count(list.providers.length)} providers`;
    if (problem) return fill(pick, note(problem, { retry: load }));
    if (!list.execution) return fill(pick);
    const trouble = (own) => (GOOD.includes(own.state) ? 1 : 0);
    const providers = [...list.providers].sort((one, other) => trouble(one) - trouble(other));
    fill(pick, providers.map((provider) => {
      const own = list.tools.filter((tool) => tool.provider === provider.name && `${tool.name} ${tool.label ?? ""}`.toLowerCase().includes(find));
      if (find && !own.length) return null;
      return [
        h("h2", h("a", { href: href("tools", "", { provider: provider.name }) }, name(provider.name)), h("span.small.row", glyph(GLYPH(provider.state)), name(provider.state.replace("_", " "))), h("span.small.push", `${provider.tools}`)),
        h("ul", own.map((tool) => {
          const own = counts.get(tool.name);
          const state = !tool.enabled ? "off" : tool.permission === "allow" ? "on" : tool.permission;
          return h("li", h("a", { href: href("tools", tool.name), "aria-current": tool.name === route.id ? "true" : null, class: tool.enabled ? "" : "off" }, h("span", name(tool.name)), h("span.dim", state), h("span.num.dim", own?.failed ? [h("span.bad", `${count(own.failed)} failed`), " of "] : "", own ? count(own.calls) : "")));
        })),
      ];
    }));
  }

  function paintOne() {
    root.classList.toggle("chosen", Boolean(route.id || route.query.get("provider")));
    if (!list.execution) return fill(shown, empty("No hosted tools", h("p.dim", "The configuration has no table [execution]. Add these lines to run a web search for models:"), region("pre.code", "Lines to add", LINES), h("div", h("button", { onclick: () => copied(LINES) }, "Copy"))));
    const provider = list.providers.find((own) => own.name === route.query.get("provider"));
    const tool = list.tools.find((own) => own.name === route.id);
    if (tool) fill(shown, back(), toolView(tool));
    else if (provider) fill(shown, back(), providerView(provider));
    else if (route.id && list.tools.length) fill(shown, back(), note({ code: "unknown_tool", message: `There is no tool ${route.id}.` }));
    else fill(shown, rulesView());
  }

  const back = () => h("a.back", { href: href("tools") }, "‹ All tools");

  function toolView(tool) {
    const on = h("input", { type: "checkbox", role: "switch", checked: tool.enabled, onchange: async () => {
      try {
        await call("PATCH", `tools/${part(tool.name)}`, { enabled: on.checked });
        toast(`${tool.name} is ${on.checked ? "on" : "off"} until toolwire stops`);
        load();
      } catch (error) {
        on.checked = !on.checked;
        failed(error);
      }
    } });
    const provider = list.providers.find((own) => own.name === tool.provider) ?? {};
    const known = h("div");
    paintFacts = () => {
      const own = counts.get(tool.name) ?? { calls: 0, failed: 0 }, recent = seen.get(tool.name);
      fill(known, facts([["Permission", tool.permission], ["Offered", { force: "always", selective: "when asked for", off: "never" }[tool.injection] ?? tool.injection], ["Timeout", duration(tool.timeout_ms)], ["Cache", tool.cache_ttl_ms ? duration(tool.cache_ttl_ms) : "off"], ["Calls", count(own.calls)], ["Failed", own.calls ? `${count(own.failed)}, ${percent(own.failed / own.calls)}` : "0"], ["Time p50", recent && duration(half(recent.times))], ["From the cache", recent && percent(recent.cached / recent.calls)]]));
    };
    paintFacts();
    const fields = form(tool.parameters, `Arguments of ${tool.name}`);
    const out = h("div.stack");
    const run = h("button.main", { onclick: async () => {
      let input;
      try {
        input = fields.read();
      } catch (error) {
        return toast(error.message, "failed");
      }
      run.disabled = true;
      const own = { tool: tool.name, provider: tool.provider }, abort = new AbortController();
      const running = card({ name: tool.name, label: tool.label, state: "running", inputText: input, startedAt: Date.now(), isRun: true }, own, () => abort.abort());
      // Questions and progress arrive through the feed.
      const stopRun = [listen((kind, data) => {
        if (kind === "tool_progress" && data.toolCall.name === tool.name && /^run_/.test(data.exchange)) running.update({ done: data.done, total: data.total, ...(data.progress && { progress: data.progress }) });
      }), effect(() => {
        const asked = questions.value.find((one) => one.tool === tool.name && /^run_/.test(one.context?.exchange));
        running.update({ state: asked ? (asked.input ? "entering" : "asking") : "running" });
      })];
      fill(out, running.element);
      let ends;
      try {
        const ran = await call("POST", `tools/${part(tool.name)}/run`, `{"input":${input}}`, { signal: abort.signal });
        const error = ran.ok ? null : ran.result?.error ?? (typeof ran.result === "object" ? ran.result : { message: String(ran.result) });
        if (error?.path) fields.wrong(error.path, error.message);
        ends = { state: ran.ok ? "ok" : "failed", ms: ran.ms, result: ran.result, details: ran.details, progress: undefined, ...(error && { code: error.code ?? "error", error }) };
      } catch (error) {
        if (error.name === "AbortError") ends = { state: "stopped" };
        else if (!(error instanceof ApiError)) throw error;
        else {
          fields.wrong(error.path, error.message);
          fill(out, note(error, { retry: () => run.click(), facts: own }));
        }
      } finally {
        stopRun.forEach((end) => end());
        running.update(ends ?? { state: "failed" });
        if (ends) running.open();
        run.disabled = false;
      }
    } }, "Run");
    const curl = () => {
      let input = "{}";
      try {
        input = fields.read();
      } catch {
        // The command shows which values are valid.
      }
      copied(`curl -X POST ${quoted(adminUrl(`tools/${part(tool.name)}/run`).href)} -H "Authorization: Bearer $TOOLWIRE_ADMIN_KEY" -H 'Content-Type: application/json' -d ${quoted(`{"input":${input}}`)}`);
    };
    const mine = rules.rules.filter((rule) => rule.tool === tool.name);
    return [
      h("div.row", h("h2", name(tool.name)), tool.label && h("span.dim", name(tool.label)), h("label.push", on, "On")),
      h("p.row.dim", glyph(GLYPH(provider.state)), h("a", { href: href("tools", "", { provider: tool.provider }) }, name(tool.provider)), name(provider.state ?? "")),
      h("p", name(tool.description ?? "")),
      known,
      h("h3", "Try it"),
      fields,
      h("div.row", run, h("button", { onclick: curl }, "Copy as curl")),
      out,
      h("details.fold", h("summary", "Schema"), h("div", json(tool.parameters ?? {}, "Schema", 3))),
      mine.length ? h("details.fold", { open: true }, h("summary", `Rules ${mine.length}`), h("div", ruleList(mine))) : null,
    ];
  }

  function providerView(provider) {
    const out = h("div.stack"), log = h("div.stack");
    const ask = async (path, method, place, show) => {
      fill(place, status("running", "Waiting for it"));
      try {
        fill(place, show(await call(method, `providers/${part(provider.name)}/${path}`, method === "GET" ? undefined : {})));
      } catch (error) {
        fill(place, note(error, { facts: { provider: provider.name } }));
      }
    };
    const act = (label, ...asked) => h("button", { onclick: () => ask(...asked) }, label);
    const hasKey = !["mcp", "http", "command"].includes(provider.kind), writesLog = ["mcp", "command"].includes(provider.kind);
    const readLog = ["log", "GET", log, ({ lines }) => [h("h3", "Log"), region("pre.code", "Log", lines.length ? lines.map((line) => `${visible(line)}\n`) : "Nothing was written.")]];
    if (writesLog) ask(...readLog);
    return [
      h("div.row", h("h2", name(provider.name)), h("span.tag", name(provider.kind ?? "")), h("span.row", glyph(GLYPH(provider.state)), name(provider.state.replace("_", " ")))),
      provider.reason && h("p", name(provider.reason)),
      h("div.row",
        act("Test", "test", "POST", out, ({ verdict }) => verdictLine(verdict, hasKey)),
        provider.kind === "mcp" && act("Restart", "restart", "POST", out, () => status("done", `${provider.name} is restarted`)),
        loginButton(provider),
        writesLog && act("Read the log again", ...readLog),
        h("a", { href: href("settings", `providers.${provider.name}`) }, "Settings")),
      out,
      provider.logins && keyLogins(provider.name, provider.logins, load),
      h("ul.why", list.tools.filter((tool) => tool.provider === provider.name).map((tool) => h("li.wide", h("a", { href: href("tools", tool.name) }, name(tool.name)), h("span.clamp.dim", name(tool.description ?? ""))))),
      provider.registrations?.length ? h("table.plain", h("thead", h("tr", ["Registered", "Label", "Tools"].map((text) => h("th", text)))), h("tbody", provider.registrations.map((own) => h("tr", h("td", name(own.id)), h("td", name(own.label ?? "")), h("td", name([own.tools].flat().join(", "))))))) : null,
      log,
    ];
  }

  function loginButton({ name: own, state, login }) {
    if (login?.state === "logged_in") return logOutButton(own, load);
    return login && state === "needs_login" ? h("button.main", { onclick: () => logIn(own).catch(failed) }, "Log in") : null;
  }

  const ruleList = (own) => h("ul.stack", own.map((rule) => h("li.row", h("span", { class: `tag ${rule.granted ? "result" : "error"}` }, rule.granted ? "allowed" : "denied"), h("strong", name(rule.tool)), rule.domain && h("span", "for ", name(rule.domain)), h("span.faint", `used ${count(rule.use_count)} times${rule.last_used ? `, ${ago(rule.last_used, Date.now())} ago` : ""}`), h("button.push", { "aria-label": `Forget the rule for ${rule.tool}`, onclick: async () => {
    try {
      await call("DELETE", `permissions/rules/${part(rule.id)}`, {});
      await loadRules();
      paintOne();
    } catch (error) {
      failed(error);
    }
  } }, "Forget"))));

  function rulesView() {
    const auto = h("input", { type: "checkbox", role: "switch", checked: rules.auto_approve, onchange: () => {
      if (!auto.checked) return setAuto();
      auto.checked = false;
      dialog("Answer all questions with yes?", (close) => [
        h("p", "Then every tool runs without a question, for all clients and with any arguments, until this is switched off. Rules that deny a tool stay."),
        h("div.row", h("button", { onclick: close }, "Keep asking"), h("button.main", { onclick: () => {
          close();
          auto.checked = true;
          setAuto();
        } }, "Answer all with yes"))]);
    } });
    const setAuto = async () => {
      try {
        await call("PUT", "permissions/auto_approve", { enabled: auto.checked });
        toast(auto.checked ? "All questions are answered with yes" : "Questions are asked again");
      } catch (error) {
        auto.checked = !auto.checked;
        failed(error);
      }
    };
    return [
      h("h2", "Permissions"),
      h("p.dim", "Choose a tool to see and try it. What was answered once and remembered is below."),
      h("label", auto, "Answer all questions with yes"),
      rules.rules.length ? ruleList(rules.rules) : h("p.faint", "No rules are remembered."),
    ];
  }

  load();
  loadRules();
  countCalls();
  return {
    route(next) {
      route = next;
      paintList();
      paintOne();
    },
    leave() {
      stopFeed();
      stopQuestions();
    },
  };
}
