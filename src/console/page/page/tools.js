// Tools: questions first, then providers and their tools, each to look at, switch and try.

import { ApiError, call, get, part, session } from "../core/api.js";
import { fill, glyph, h, name } from "../core/dom.js";
import { quoted } from "../core/exports.js";
import { listen } from "../core/feed.js";
import { href } from "../core/route.js";
import { effect } from "../core/store.js";
import { ago, count, duration, percent } from "../core/time.js";
import { adminUrl } from "../core/api.js";
import { form } from "../view/form.js";
import { copied, json } from "../view/json.js";
import { result } from "../view/card.js";
import { empty, failed, note, toast } from "../view/note.js";
import { ask, questions } from "../view/permission.js";

// What the feed has told of calls, since the page was opened.
const seen = new Map();
listen((kind, data) => {
  if (kind !== "tool_result") return;
  const own = seen.get(data.toolCall.name) ?? { calls: 0, failed: 0, cached: 0, times: [] };
  own.calls++;
  own.failed += data.ok ? 0 : 1;
  own.cached += data.cached ? 1 : 0;
  own.times = [...own.times.slice(-199), data.ms];
  seen.set(data.toolCall.name, own);
});

const GOOD = ["ready", "healthy", "up", "ok"];
const GLYPH = (state) => (GOOD.includes(state) ? "done" : ["starting", "restarting"].includes(state) ? "running" : "error");
const half = (times) => [...times].sort((one, other) => one - other)[Math.floor(times.length / 2)];

export default function tools({ place, heading, route }) {
  let list = { tools: [], providers: [], execution: true }, rules = { rules: [], auto_approve: false }, problem = null, find = "";
  const waiting = h("div", { class: "stack" });
  const search = h("input", { type: "search", class: "grow", "data-search": "", placeholder: "Find a tool", "aria-label": "Find a tool", oninput: () => {
    find = search.value.toLowerCase();
    paintList();
  } });
  const pick = h("div", { class: "pick", role: "navigation", "aria-label": "Tools" });
  const shown = h("section", { class: "stack", "aria-label": "Tool" });
  const summary = h("span", { class: "figure" });
  const root = h("div", { class: "choose" }, h("div", { class: "pick stack" }, search, pick), shown);
  fill(place, h("div", { class: "bar" }, heading, summary), waiting, root);

  const stopQuestions = effect(() => fill(waiting, questions.value.length ? h("section", { class: "stack" }, h("h2", null, "Questions"), questions.value.map((own) => h("div", { class: "note info" }, h("div", { class: "row" }, h("strong", { class: "grow clamp" }, name(own.label ?? own.tool)), h("span", { class: "dim" }, name(own.context?.model ?? ""), " ", name(own.context?.domain ?? "")), h("button", { class: "push", onclick: () => ask(own) }, "Review"))))) : null));
  const stopFeed = listen((kind) => {
    if (["registry_changed", "provider_status", "reset"].includes(kind)) load();
    if (kind === "permission_result") loadRules();
  });

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
      // The list of tools says what is wrong.
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
        h("h2", null, h("a", { href: href("tools", "", { provider: provider.name }) }, name(provider.name)), h("span", { class: "small row" }, glyph(GLYPH(provider.state)), name(provider.state)), h("span", { class: "small push" }, `${provider.tools}`)),
        h("ul", null, own.map((tool) => {
          const facts = seen.get(tool.name);
          const state = !tool.enabled ? "off" : tool.permission === "allow" ? "on" : tool.permission;
          return h("li", null, h("a", { href: href("tools", tool.name), "aria-current": tool.name === route.id ? "true" : null, class: tool.enabled ? "" : "off" }, h("span", null, name(tool.name)), h("span", { class: "dim" }, state), h("span", { class: "num dim" }, facts ? `${facts.calls}` : "")));
        })),
      ];
    }));
  }

  function paintOne() {
    root.classList.toggle("chosen", Boolean(route.id || route.query.get("provider")));
    if (!list.execution) return fill(shown, empty("No hosted tools", h("p", { class: "dim" }, "The configuration has no table [execution]. Add these lines to run a web search for models:"), h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": "Lines to add" }, '[execution]\n\n[[providers]]\nname = "serper"\nkind = "serper"\napi_key = "env:SERPER_API_KEY"'), h("div", null, h("button", { onclick: () => copied('[execution]\n\n[[providers]]\nname = "serper"\nkind = "serper"\napi_key = "env:SERPER_API_KEY"\n') }, "Copy"))));
    const provider = list.providers.find((own) => own.name === route.query.get("provider"));
    const tool = list.tools.find((own) => own.name === route.id);
    if (tool) fill(shown, back(), toolView(tool));
    else if (provider) fill(shown, back(), providerView(provider));
    else if (route.id && list.tools.length) fill(shown, back(), note({ code: "unknown_tool", message: `There is no tool ${route.id}.` }));
    else fill(shown, rulesView());
  }

  const back = () => h("a", { class: "back", href: href("tools") }, "‹ All tools");

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
    const facts = seen.get(tool.name);
    const fields = form(tool.parameters, `Arguments of ${tool.name}`);
    const out = h("div", { class: "stack" });
    const run = h("button", { class: "main", onclick: async () => {
      let input;
      try {
        input = fields.read();
      } catch (error) {
        return toast(error.message, "failed");
      }
      run.disabled = true;
      const began = Date.now();
      const timer = setInterval(() => fill(out, h("p", { class: "row dim", role: "status" }, glyph("running"), `Running, ${duration(Date.now() - began)}`)), 500);
      try {
        const ran = await call("POST", `tools/${part(tool.name)}/run`, `{"input":${input}}`);
        const path = ran.result?.path ?? ran.result?.error?.path;
        if (!ran.ok && path) fields.wrong(path, ran.result.message ?? ran.result.error?.message);
        fill(out, h("p", { class: "row", role: "status" }, glyph(ran.ok ? "done" : "error"), ran.ok ? "ok" : "failed", h("span", { class: "dim" }, duration(ran.ms))),
          ran.ok ? result(ran.result) : [note(ran.result?.error ?? (typeof ran.result === "object" ? ran.result : { message: String(ran.result) }), { facts: { tool: tool.name, provider: tool.provider } }), json(ran.result, "Result", 2)]);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        fields.wrong(error.path, error.message);
        fill(out, note(error, { retry: () => run.click(), facts: { tool: tool.name, provider: tool.provider } }));
      } finally {
        clearInterval(timer);
        run.disabled = false;
      }
    } }, "Run");
    const curl = () => {
      let input = "{}";
      try {
        input = fields.read();
      } catch {
        // The command has what is valid.
      }
      copied(`curl -X POST ${quoted(adminUrl(`tools/${part(tool.name)}/run`).href)} -H "Authorization: Bearer $TOOLWIRE_ADMIN_KEY" -H 'Content-Type: application/json' -d ${quoted(`{"input":${input}}`)}`);
    };
    const mine = rules.rules.filter((rule) => rule.tool === tool.name);
    return [
      h("div", { class: "row" }, h("h2", null, name(tool.name)), tool.label && h("span", { class: "dim" }, name(tool.label)), h("label", { class: "push" }, on, "On")),
      h("p", { class: "row dim" }, glyph(GLYPH(provider.state)), h("a", { href: href("tools", "", { provider: tool.provider }) }, name(tool.provider)), name(provider.state ?? "")),
      h("p", null, name(tool.description ?? "")),
      h("dl", { class: "facts" }, [["Permission", tool.permission], ["Offered", { force: "always", selective: "when asked for", off: "never" }[tool.injection] ?? tool.injection], ["Timeout", duration(tool.timeout_ms)], ["Cache", tool.cache_ttl_ms ? duration(tool.cache_ttl_ms) : "off"], ["Calls seen", facts ? count(facts.calls) : "0"], ["Failed", facts ? percent(facts.failed / facts.calls) : "–"], ["p50", facts ? duration(half(facts.times)) : "–"], ["From the cache", facts ? percent(facts.cached / facts.calls) : "–"]].map(([key, value]) => h("div", null, h("dt", null, key), h("dd", null, name(value))))),
      h("h3", null, "Try it"),
      fields,
      h("div", { class: "row" }, run, h("button", { onclick: curl }, "Copy as curl")),
      out,
      h("details", { class: "fold" }, h("summary", null, "Schema"), h("div", null, json(tool.parameters ?? {}, "Schema", 3))),
      mine.length ? h("details", { class: "fold", open: true }, h("summary", null, `Rules ${mine.length}`), h("div", null, ruleList(mine))) : null,
    ];
  }

  function providerView(provider) {
    const out = h("div", { class: "stack" });
    const act = (path, method, show) => async () => {
      try {
        show(await call(method, `providers/${part(provider.name)}/${path}`, method === "GET" ? undefined : {}));
      } catch (error) {
        fill(out, note(error, { facts: { provider: provider.name } }));
      }
    };
    const verdicts = { valid: "It can be used.", invalid: "It rejected the key.", unreachable: "It cannot be reached.", rate_limited: "It limits requests now." };
    return [
      h("div", { class: "row" }, h("h2", null, name(provider.name)), h("span", { class: "tag" }, name(provider.kind ?? "")), h("span", { class: "row" }, glyph(GLYPH(provider.state)), name(provider.state))),
      provider.reason && h("p", null, name(provider.reason)),
      h("div", { class: "row" },
        h("button", { onclick: act("test", "POST", ({ verdict }) => fill(out, h("p", { class: "row", role: "status" }, glyph(verdict === "valid" ? "done" : "error"), verdicts[verdict] ?? verdict))) }, "Test"),
        h("button", { onclick: act("restart", "POST", () => toast(`${provider.name} is restarted`)) }, "Restart"),
        h("button", { onclick: act("log", "GET", ({ lines }) => fill(out, h("h3", null, "Log"), h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": "Log" }, lines.length ? lines.map((line) => `${name(line).textContent}\n`) : "Nothing was written."))) }, "Log"),
        h("a", { href: href("settings", `providers.${provider.name}`) }, "Settings")),
      out,
      provider.registrations?.length ? h("table", { class: "plain" }, h("thead", null, h("tr", null, ["Registered", "Label", "Tools"].map((text) => h("th", null, text)))), h("tbody", null, provider.registrations.map((own) => h("tr", null, h("td", null, name(own.id)), h("td", null, name(own.label ?? "")), h("td", null, name([own.tools].flat().join(", "))))))) : null,
    ];
  }

  const ruleList = (own) => h("ul", { class: "stack" }, own.map((rule) => h("li", { class: "row" }, h("span", { class: `tag ${rule.granted ? "result" : "error"}` }, rule.granted ? "allowed" : "denied"), h("strong", null, name(rule.tool)), rule.domain && h("span", null, "for ", name(rule.domain)), h("span", { class: "faint" }, `used ${count(rule.use_count)} times${rule.last_used ? `, ${ago(rule.last_used, Date.now())} ago` : ""}`), h("button", { class: "push", "aria-label": `Forget the rule for ${rule.tool}`, onclick: async () => {
    try {
      await call("DELETE", `permissions/rules/${part(rule.id)}`, {});
      await loadRules();
      paintOne();
    } catch (error) {
      failed(error);
    }
  } }, "Forget"))));

  function rulesView() {
    const auto = h("input", { type: "checkbox", role: "switch", checked: rules.auto_approve, onchange: async () => {
      try {
        await call("PUT", "permissions/auto_approve", { enabled: auto.checked });
        toast(auto.checked ? "All questions are answered with yes" : "Questions are asked again");
      } catch (error) {
        auto.checked = !auto.checked;
        failed(error);
      }
    } });
    return [
      h("h2", null, "Permissions"),
      h("p", { class: "dim" }, "Choose a tool to see and try it. What was answered once and remembered is below."),
      h("label", null, auto, "Answer all questions with yes"),
      rules.rules.length ? ruleList(rules.rules) : h("p", { class: "faint" }, "No rules are remembered."),
    ];
  }

  load();
  loadRules();
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
