// Settings: every value with its source. Secrets are written here, never shown.

import { call, get, part, session } from "../core/api.js";
import { fill, fresh, glyph, h, name } from "../core/dom.js";
import { listen } from "../core/feed.js";
import { href } from "../core/route.js";
import { numberText } from "../core/schema.js";
import { visible } from "../core/text.js";
import { empty, failed, note, remark, toast } from "../view/note.js";

const SOURCES = { default: "default", file: "file", env: "environment", flag: "flag", overlay: "saved here" };
// Drafts outlive a sign-in and other pages.
const drafts = new Map();

// The parts of a path; a name with dots is quoted.
const parts = (path) => path.match(/"(?:[^"\\]|\\.)*"|[^.]+/g) ?? [path];

function groupOf(path) {
  const [first, second, ...rest] = parts(path);
  return rest.length && ["providers", "models", "upstreams", "tools", "keys"].includes(first) ? `${first}.${second}` : second === undefined ? "server" : first;
}

// A path that is broken behind its dots rather than within words.
const dotted = (path) => h("bdi", null, visible(path).split(/(?<=[._])/).map((part) => [part, h("wbr")]));

export default function settings({ place, heading, route }) {
  let list = [], tag = null, problem = null, wrong = new Map(), find = "", verdict = null;
  const search = h("input", { type: "search", class: "grow", "data-search": "", placeholder: "Find a setting", "aria-label": "Find a setting", oninput: () => {
    find = search.value.toLowerCase();
    paint();
  } });
  const summary = h("span", { class: "dim" });
  const reset = h("button", { onclick: resetAll }, "Reset to defaults…");
  const notice = h("div", { class: "stack" });
  const pick = h("nav", { class: "stack pick", "aria-label": "Groups" });
  const shown = h("section", { class: "stack", "aria-label": "Settings" });
  const root = h("div", { class: "choose" }, pick, shown);
  fill(place, h("div", { class: "bar" }, heading, summary, h("span", { class: "push row" }, h("button", { onclick: reload }, "Reload the file"), reset)), notice, root);

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
    fill(pick, search, h("ul", null, [["changed", "Differs from the default", changed.length], ...groups.map((own) => [own, own, list.filter((one) => groupOf(one.path) === own).length])].map(([key, label, size]) => h("li", null, h("a", { href: href("settings", key === "changed" ? "" : key), "aria-current": key === group && !find ? "true" : null }, h("span", null, name(label)), h("span", { class: "num dim" }, String(size)))))));
    const rows = find ? list.filter((own) => own.path.toLowerCase().includes(find)) : group === "changed" ? changed : list.filter((own) => groupOf(own.path) === group);
    fill(shown, h("a", { class: "back", href: href("settings") }, "‹ All settings"), h("h2", null, name(find ? `“${find}”` : group === "changed" ? "Differs from the default" : group)),
      rows.length ? h("div", null, rows.slice(0, 300).map(line)) : empty("Nothing here", h("p", { class: "dim" }, find ? "No setting has this in its path." : "Every value is its default.")),
      tester(group),
      h("div", { class: "foot row", hidden: !drafts.size && !wrong.size }, h("span", { role: "status" }, `${drafts.size} unsaved change${drafts.size === 1 ? "" : "s"}`), h("button", { onclick: () => {
        drafts.clear();
        wrong.clear();
        paint();
      } }, "Discard"), h("button", { class: "main", onclick: save }, "Save"), h("span", { class: "small dim" }, "Holds at once; open responses keep what they began with.")));
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
    const last = chosen() === "changed" || find ? own.path : parts(own.path).slice(groupOf(own.path).includes(".") ? 2 : 1).join(".") || own.path;
    const source = h("span", { class: "small dim" }, SOURCES[own.source] ?? own.source, own.where && [", ", h("span", { title: own.where }, name(own.where.split("/").at(-1)))], own.source === "overlay" && own.file_value !== undefined && [", file has ", name(JSON.stringify(own.file_value))], own.restart_required && ", holds after a restart", own.default !== undefined && own.source !== "default" && [", default ", name(text(own.default))], " ",
      own.source === "overlay" && h("button", { class: "plain", "aria-label": `Reset ${own.path}`, onclick: () => resetOne(own.path) }, "Reset"));
    const field = own.settable === false ? h("span", { class: "mono", id }, name(own.secret ? (own.set ? "set" : "not set") : text(own.value))) : control(own, id);
    const message = wrong.get(own.path);
    if (message && field.setAttribute) {
      field.setAttribute("aria-invalid", "true");
      field.setAttribute("aria-describedby", `${id}-wrong`);
    }
    return h("div", { class: "setting" }, own.settable === false ? h("span", null, dotted(last)) : h("label", { for: id }, dotted(last)), h("div", null, field), source, message && h("p", { class: "wrong small", id: `${id}-wrong` }, name(message)));
  }

  function control(own, id) {
    const draft = drafts.get(own.path);
    if (typeof own.value === "boolean") {
      const box = h("input", { type: "checkbox", id, checked: draft ?? own.value, onchange: () => edited(own.path, box.checked === own.value ? undefined : box.checked) });
      return box;
    }
    const field = h("input", { id, type: own.secret ? "password" : "text", autocomplete: "off", spellcheck: "false", class: draft === undefined ? "" : "dirty", value: draft === undefined ? (own.secret ? "" : text(own.value)) : text(draft), placeholder: own.secret ? (own.set ? "set, type to replace" : "not set") : "", inputmode: typeof own.value === "number" ? "decimal" : null, title: own.min != null || own.max != null ? `${own.min ?? ""} to ${own.max ?? ""}` : null });
    field.addEventListener("input", () => {
      const value = own.secret ? field.value || undefined : field.value === text(own.value) ? undefined : typed(field.value, own);
      field.classList.toggle("dirty", value !== undefined);
      edited(own.path, value);
    });
    return field;
  }

  function tester(group) {
    const provider = /^providers\.(.+)$/.exec(group)?.[1];
    if (!provider || find) return null;
    const bare = provider.replace(/^"|"$/g, "");
    const path = `${group}.api_key`;
    return h("div", { class: "row" }, h("button", { onclick: async () => {
      const key = drafts.get(path);
      try {
        ({ verdict } = await call("POST", `providers/${part(bare)}/test`, key ? { api_key: key } : {}));
      } catch (error) {
        verdict = error;
      }
      paint();
    } }, "Test"), verdict && h("span", { class: "row", role: "status" }, glyph(verdict === "valid" ? "done" : "error"), verdict.message ? name(verdict.message) : VERDICTS[verdict] ?? verdict));
  }

  async function save() {
    wrong = new Map();
    fill(notice);
    try {
      const answer = await call("PATCH", "settings", Object.fromEntries(drafts), { headers: tag ? { "If-Match": tag } : {} });
      drafts.clear();
      toast(answer.restart_required ? "Saved; it holds when the file is valid again" : "Saved");
      await load();
    } catch (error) {
      if (error.status === 412) {
        await load();
        fill(notice, remark("The settings were changed meanwhile", h("p", null, "Yours are still here. Look at them once more and save again.")));
        return;
      }
      for (const own of error.problems ?? []) if (own.path) wrong.set(own.path, own.message + (own.nearest?.length ? ` Nearest: ${own.nearest.join(", ")}.` : ""));
      fill(notice, note(error));
      paint();
      shown.querySelector("[aria-invalid]")?.focus();
    }
  }

  async function resetOne(path) {
    try {
      await call("DELETE", `settings/${part(path)}`, {}, { headers: tag ? { "If-Match": tag } : {} });
      toast(`${path} is as in the file again`);
      load();
    } catch (error) {
      failed(error);
    }
  }

  function resetAll() {
    const saved = list.filter((own) => own.source === "overlay");
    const dialog = h("dialog", { "aria-labelledby": "reset-title" }, h("div", { class: "stack" },
      h("h2", { id: "reset-title" }, `Forget ${saved.length} saved values?`),
      h("p", null, "These go back to what the file says, or to their defaults:"),
      h("ul", null, saved.slice(0, 50).map((own) => h("li", { class: "mono" }, name(own.path)))),
      h("div", { class: "row" }, h("button", { onclick: () => dialog.close() }, "Keep them"), h("button", { class: "main", onclick: async () => {
        try {
          await call("DELETE", "settings", {});
          toast("All saved values were forgotten");
        } catch (error) {
          failed(error);
        }
        dialog.close();
        load();
      } }, "Forget them"))));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  async function reload() {
    try {
      const { changed, restart_required: later } = await call("POST", "reload", {});
      fill(notice, remark("The file was loaded", h("p", null, changed.length ? `Changed: ${changed.join(", ")}.` : "Nothing has changed.", later.length ? ` After a restart: ${later.join(", ")}.` : "")));
      load();
    } catch (error) {
      fill(notice, note(error), error.problems && h("ul", { class: "stack" }, error.problems.map((own) => h("li", null, h("code", null, name(own.where ?? "")), " ", name(own.message)))));
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

const VERDICTS = { valid: "The key is valid.", invalid: "The provider rejected this key. Copy it again.", unreachable: "The provider cannot be reached.", rate_limited: "The provider limits requests now." };
const ORDER = ["server", "upstreams", "models", "providers", "execution", "tools", "limits", "keys", "admin"];
const order = (group) => (ORDER.indexOf(group.split(".")[0]) + 1 || ORDER.length + 1);
const text = (value) => (value == null ? "" : typeof value === "string" ? value : JSON.stringify(value));

// What was typed, as the setting's kind of value. What does not fit is sent as text, and the server says what is wrong.
function typed(shown, { value, default: initial }) {
  const like = value ?? initial;
  if (typeof like === "number" && numberText(shown) !== null) return Number(shown);
  if (Array.isArray(like) || like && typeof like === "object") {
    try {
      return JSON.parse(shown);
    } catch {
      return shown;
    }
  }
  return shown;
}
