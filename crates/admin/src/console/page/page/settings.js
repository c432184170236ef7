// Settings: every value with its source. Secrets can be set here but are never shown.

import { call, get, part, session } from "../core/api.js";
import { dialog, fill, fresh, h, name, select, status } from "../core/dom.js";
import { listen } from "../core/feed.js";
import { href } from "../core/route.js";
import { numberText } from "../core/schema.js";
import { visible } from "../core/text.js";
import { readable } from "../core/time.js";
import { json } from "../view/json.js";
import { empty, failed, marked, note, remark, saysItself, toast, verdictLine } from "../view/note.js";

const SOURCES = { default: "default", file: "file", env: "environment", flag: "flag", overlay: "saved here" };
// Drafts survive signing in and switching pages.
const drafts = new Map();

// Splits a path into its parts; a name that contains dots is quoted.
const parts = (path) => path.match(/"(?:[^"\\]|\\.)*"|[^.]+/g) ?? [path];

function groupOf(path) {
  const [first, second, ...rest] = parts(path);
  return rest.length && ["providers", "models", "upstreams", "tools", "keys"].includes(first) ? `${first}.${second}` : second === undefined ? "server" : first;
}

// A path that may wrap after its dots instead of within words.
const dotted = (path) => h("bdi", visible(path).split(/(?<=[._])/).map((part) => [part, h("wbr")]));

export default function settings({ place, heading, route }) {
  let list = [], tag = null, problem = null, wrong = new Map(), find = "", verdict = null;
  const search = h("input.grow", { type: "search", "data-search": "", placeholder: "Find a setting", "aria-label": "Find a setting", oninput: () => {
    find = search.value.toLowerCase();
    paint();
  } });
  const summary = h("span.dim");
  const reset = h("button", { onclick: resetAll }, "Reset to the file…");
  const saver = h("button.main", { onclick: save }, "Save");
  const notice = h("div.stack");
  const pick = h("nav.stack.pick", { "aria-label": "Groups" });
  const shown = h("section.stack", { "aria-label": "Settings" });
  const root = h("div.choose", pick, shown);
  fill(place, h("div.bar", heading, summary, h("span.push.row", h("button", { onclick: reload }, "Reload the file"), reset)), notice, root);

  async function load() {
    if (!session.peek()?.signed_in) return paint();
    try {
      const answer = await get("settings");
      list = answer.settings;
      tag = answer.etag;
      problem = null;
    } catch (error) {
      problem = error;
    }
    paint();
  }

  const chosen = () => {
    if (!route.id) return "changed";
    const groups = new Set(list.map((own) => groupOf(own.path)));
    return groups.has(route.id) ? route.id : groupOf(route.id);
  };

  function paint() {
    const saved = list.filter((own) => own.source === "overlay");
    const changed = list.filter((own) => own.source !== "default");
    summary.textContent = saved.length ? `${saved.length} saved here, in place of the file's` : "Nothing is saved here";
    reset.disabled = !saved.length;
    root.classList.toggle("chosen", Boolean(route.id));
    if (problem) return fill(shown, note(problem, { retry: load }));
    const group = chosen();
    const groups = [...new Set(list.map((own) => groupOf(own.path)))].sort((one, other) => order(one) - order(other) || one.localeCompare(other));
    fill(pick, search, h("ul", [["changed", "Differs from the default", changed.length], ...groups.map((own) => [own, own, list.filter((one) => groupOf(one.path) === own).length])].map(([key, label, size]) => h("li", h("a", { href: href("settings", key === "changed" ? "" : key), "aria-current": key === group && !find ? "true" : null }, h("span", name(label)), h("span.num.dim", String(size)))))));
    const rows = find ? list.filter((own) => `${own.path} ${own.about ?? ""}`.toLowerCase().includes(find)) : group === "changed" ? changed : list.filter((own) => groupOf(own.path) === group);
    fill(shown, h("a.back", { href: href("settings") }, "‹ All settings"), h("h2", name(find ? `“${find}”` : group === "changed" ? "Differs from the default" : group)),
      rows.length ? h("div", !find && /^providers\./.test(group) && providerSwitch(group), rows.slice(0, 300).map(line)) : empty("Nothing here", h("p.dim", find ? "No setting has this in its path or its description." : "Every value is its default.")),
      !find && !rows.some((own) => own.path === `${group}.api_key`) && h("div.row", tester(group)),
      h("div.foot.row", { hidden: !drafts.size && !wrong.size }, h("span", { role: "status" }, `${drafts.size} unsaved change${drafts.size === 1 ? "" : "s"}`), h("button", { onclick: () => {
        drafts.clear();
        wrong.clear();
        paint();
      } }, "Discard"), saver, h("span.small.dim", "Holds at once; open responses keep what they began with.")));
    foot = shown.querySelector(".foot");
  }
  let foot;

  function edited(path, value) {
    value === undefined ? drafts.delete(path) : drafts.set(path, value);
    wrong.delete(path);
    foot.hidden = !drafts.size;
    foot.firstChild.textContent = `${drafts.size} unsaved change${drafts.size === 1 ? "" : "s"}`;
  }

  function line(own) {
    const id = fresh("setting");
    const group = groupOf(own.path);
    const label = chosen() === "changed" || find ? own.path : parts(own.path).slice(group.includes(".") ? 2 : 1).join(".") || own.path;
    const isFixed = own.settable === false;
    const message = h("p.wrong.small", { id: `${id}-wrong`, role: "status" });
    const field = isFixed ? fixed(own) : control(own, id, (value) => say(misfit(own, value)));
    const say = (wrongWith) => {
      fill(message, wrongWith && name(wrongWith));
      message.hidden = !wrongWith;
      if (wrongWith) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    };
    const about = own.about && h("p.small.dim", { id: `${id}-about` }, marked(own.about));
    field.setAttribute("aria-describedby", `${about ? `${about.id} ` : ""}${message.id}`);
    say(wrong.get(own.path));
    const limits = !isFixed && range(own);
    return h("div.setting", h("div", isFixed ? h("span", dotted(label)) : h("label", { for: id }, dotted(label)), about),
      h("div", h("div.row", field, limits && h("span.small.dim", limits), own.path === `${group}.api_key` && tester(group)), message),
      sourceOf(own));
  }

  const sourceOf = (own) => h("span.small.dim", SOURCES[own.source] ?? own.source,
    own.where && [", ", h("span", { title: own.where }, name(own.where.split("/").at(-1)))],
    own.source === "overlay" && own.file_value !== undefined && [", file has ", name(shownText(own.file_value))],
    own.restart_required && ", holds after a restart",
    own.default !== undefined && own.source !== "default" && [", default ", name(shownText(own.default))], " ",
    own.source === "overlay" && h("button.plain", { "aria-label": `Reset ${own.path}`, onclick: () => resetOne(own.path) }, "Reset"));

  // Calls `changed(value)` whenever the value is edited.
  function control(own, id, changed) {
    const draft = drafts.get(own.path);
    if (typeof own.value === "boolean") {
      const box = h("input", { type: "checkbox", id, checked: draft ?? own.value, onchange: () => edited(own.path, box.checked === own.value ? undefined : box.checked) });
      return box;
    }
    const put = (value) => {
      const isSame = value === undefined || text(value) === text(own.value);
      field.classList.toggle("dirty", !isSame);
      edited(own.path, isSame ? undefined : value);
      changed(isSame ? undefined : value);
    };
    const dirty = draft === undefined ? null : "dirty";
    let field;
    if (own.words) field = select(own.words, draft ?? own.value, { id, class: dirty, onchange: () => put(field.value) });
    else if (typeof own.value === "object" || own.value?.includes?.("\n")) {
      const isJson = isTable(own.value);
      const [write, read] = isJson ? [pretty, parsed] : isList(own.value) ? [(value) => value.join("\n"), lines] : [String, String];
      field = h("textarea.grow", { id, class: [dirty, isJson && "mono"].filter(Boolean).join(" "), rows: isJson ? 6 : 2, spellcheck: "false", placeholder: isJson ? "JSON" : isList(own.value) ? "empty: one entry a line" : "", value: typeof draft === "string" ? draft : write(draft ?? own.value), oninput: () => put(read(field.value)) });
    } else {
      const shown = own.secret ? "" : readable(text(own.value));
      field = h("input.grow", { id, type: own.secret ? "password" : "text", autocomplete: "off", spellcheck: "false", class: dirty, value: draft === undefined ? shown : text(draft), placeholder: own.secret ? (own.set ? "set, type to replace" : "not set") : "", inputmode: typeof own.value === "number" ? "decimal" : null, oninput: () => put(field.value === shown ? undefined : typed(field.value, own)) });
    }
    return field;
  }

  // A provider counts as off if all its tools are denied.
  function providerSwitch(group) {
    const own = list.find(({ path }) => path === `${group}.deny`);
    if (!own || own.settable === false) return null;
    const denied = drafts.get(own.path) ?? own.value ?? [];
    const rest = [denied].flat().filter((one) => one !== "*");
    const on = h("input", { type: "checkbox", role: "switch", id: fresh("setting"), checked: !denied.includes("*"), onchange: () => {
      const next = on.checked ? rest : [...rest, "*"];
      edited(own.path, text(next) === text(own.value ?? []) ? undefined : next);
      paint();
    } });
    return h("div.setting", h("label", { for: on.id }, "On"), h("div", on), h("span.small.dim", "Off denies all of its tools to models"));
  }

  // Tests a provider and shows the result.
  function tester(group) {
    const provider = /^providers\.(.+)$/.exec(group)?.[1];
    if (!provider) return null;
    const bare = provider.replace(/^"|"$/g, "");
    const path = `${group}.api_key`;
    const hasKey = list.some((own) => own.path === path);
    const place = h("span", verdict?.provider === provider && verdict.line);
    const button = h("button", { onclick: async () => {
      const key = drafts.get(path);
      button.disabled = true;
      fill(place, status("running", "Testing"));
      let line;
      try {
        line = verdictLine((await call("POST", `providers/${part(bare)}/test`, key ? { api_key: key } : {})).verdict, hasKey);
      } catch (error) {
        line = status("error", name(error.message));
      }
      verdict = { provider, line };
      button.disabled = false;
      fill(place, line);
    } }, "Test");
    return [button, place];
  }

  async function save() {
    wrong = new Map();
    fill(notice);
    saver.disabled = true;
    try {
      saysItself();
      const answer = await call("PATCH", "settings", Object.fromEntries(drafts), { headers: tag ? { "If-Match": tag } : {} });
      drafts.clear();
      saysItself();
      toast(answer.restart_required ? "Saved; it holds when the file is valid again" : "Saved");
      await load();
    } catch (error) {
      if (error.status === 412) {
        await load();
        fill(notice, remark("The settings were changed meanwhile", h("p", "Yours are still here. Look at them once more and save again.")));
        return;
      }
      for (const own of error.problems ?? []) if (own.path) wrong.set(own.path, own.message + (own.nearest?.length ? ` Nearest: ${own.nearest.join(", ")}.` : ""));
      fill(notice, note(error));
      paint();
      shown.querySelector("[aria-invalid]")?.focus();
    } finally {
      saver.disabled = false;
    }
  }

  async function resetOne(path) {
    try {
      saysItself();
      await call("DELETE", `settings/${part(path)}`, {}, { headers: tag ? { "If-Match": tag } : {} });
      toast(`${path} is as in the file again`);
      load();
    } catch (error) {
      failed(error);
    }
  }

  function resetAll() {
    const saved = list.filter((own) => own.source === "overlay");
    dialog(`Forget ${saved.length} saved value${saved.length === 1 ? "" : "s"}?`, (close) => [
      h("p", "These go back to what the file says, or to their defaults:"),
      h("ul", saved.slice(0, 50).map((own) => h("li.mono", name(own.path)))),
      h("div.row", h("button", { onclick: close }, "Keep them"), h("button.main", { onclick: async () => {
        try {
          saysItself();
          await call("DELETE", "settings", {});
          toast("All saved values were forgotten");
        } catch (error) {
          failed(error);
        }
        close();
        load();
      } }, "Forget them"))]);
  }

  async function reload() {
    try {
      saysItself();
      const { changed, restart_required: later } = await call("POST", "reload", {});
      fill(notice, remark("The file was loaded", h("p", changed.length ? `Changed: ${changed.join(", ")}.` : "Nothing has changed.", later.length ? ` After a restart: ${later.join(", ")}.` : "")));
      load();
    } catch (error) {
      fill(notice, note(error), error.problems && h("ul.stack", error.problems.map((own) => h("li", h("code", name(own.where ?? "")), " ", name(own.message)))));
    }
  }

  const stop = listen((kind) => kind === "config_loaded" && !drafts.size && load());
  load();
  return {
    route(next) {
      route = next;
      verdict = null;
      paint();
    },
    leave: stop,
  };
}

const ORDER = ["server", "upstreams", "models", "providers", "execution", "tools", "limits", "keys", "admin"];
const order = (group) => (ORDER.indexOf(group.split(".")[0]) + 1 || ORDER.length + 1);
const text = (value) => (value == null ? "" : typeof value === "string" ? value : JSON.stringify(value));

const isList = (value) => Array.isArray(value) && value.every((own) => typeof own === "string" && !own.includes("\n"));
const isTable = (value) => value !== null && typeof value === "object" && !isList(value);
const lines = (typed) => typed.split("\n").map((line) => line.trim()).filter(Boolean);
const pretty = (value) => JSON.stringify(value, null, 2);
const parsed = (typed) => {
  try {
    return JSON.parse(typed);
  } catch {
    return typed;
  }
};

// A value as people write it.
const shownText = (value) => (isList(value) ? value.join(", ") || "none" : readable(text(value)) || "empty");

// A setting that can only be changed in the file.
function fixed({ secret, set, value }) {
  if (secret) return h("span.mono", set ? "set" : "not set");
  if (isTable(value)) return h("div", json(value, "Value", 1));
  return isList(value) && value.length ? h("ul.mono", value.map((own) => h("li", name(own)))) : h("span.mono", name(shownText(value)));
}

const range = ({ min, max }) => (min == null && max == null ? "" : max == null ? `at least ${readable(text(min))}` : `${readable(text(min ?? ""))} to ${readable(text(max))}`);

// Parses a number, or a duration in seconds. `null` if it is neither.
function measured(value) {
  const found = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text(value).trim());
  return found && Number(found[1]) * { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400 }[found[2] ?? "s"];
}

// The error of a value that violates the limits of its setting.
function misfit(own, value) {
  if (isTable(own.value) && typeof value === "string") return "It is not JSON";
  if (value === undefined || !range(own)) return "";
  const size = measured(value);
  return size === null || size < measured(own.min ?? 0) || own.max != null && size > measured(own.max) ? `It can be ${range(own)}` : "";
}

// Converts the input to the setting's type. Anything else is sent as text, so that the server reports the error.
function typed(shown, { value, default: initial }) {
  const like = value ?? initial;
  if (typeof like === "number" && numberText(shown) !== null) return Number(shown);
  // A duration without a unit is in seconds.
  if (/^\d+(ms|s|m|h|d)$/.test(like) && /^\d+$/.test(shown)) return `${shown}s`;
  return shown;
}
