// The frame around every page: navigation, connection state, questions, sign-in, theme and keys.

import { renew, resume, session, signIn, signOut } from "./core/api.js";
import { announce, dialog, fill, glyph, h, pref, select, setPref, svg } from "./core/dom.js";
import { connection, listen, retry, start, stop } from "./core/feed.js";
import { enable, enabled, install, LIST } from "./core/keys.js";
import { href, parse } from "./core/route.js";
import { effect, signal } from "./core/store.js";
import { zone } from "./core/time.js";
import formats from "./page/formats.js";
import live from "./page/live.js";
import measure from "./page/measure.js";
import play from "./page/play.js";
import settings from "./page/settings.js";
import tools from "./page/tools.js";
import { isSaid, note, toast } from "./view/note.js";
import { bar, openFirst, questions, refresh } from "./view/permission.js";

const NAMES = { live: "Live", formats: "Formats", tools: "Tools", settings: "Settings", play: "Playground", measure: "Measure" };
const PAGES = { live, formats, tools, settings, play, measure };

// Number of items waiting for the user, by page.
export const badges = signal({});

const main = h("main", { id: "main", tabindex: -1 });
const login = h("div");
const page = h("div.stack");
let rail, links, current = {};
const scrolls = new Map();

export function begin() {
  const wire = svg("svg", { viewBox: "0 0 28 16", "aria-hidden": "true" }, svg("path", { d: "M0 8h6l3-6 6 12 3-6h10", fill: "none", stroke: "currentColor", "stroke-width": 2.5, "stroke-linecap": "round", "stroke-linejoin": "round" }));
  links = Object.fromEntries(Object.entries(NAMES).map(([key, label]) => [key, h("a", { href: href(key) }, label)]));
  const toggle = h("button.menu", { "aria-expanded": "false", "aria-controls": "nav", onclick: () => menu(!rail.classList.contains("open")) }, "Menu");
  const theme = select([["auto", "System theme"], ["light", "Light theme"], ["dark", "Dark theme"]], pref("theme", "auto"), { "aria-label": "Theme", onchange: () => {
    const root = document.documentElement;
    if (theme.value === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme.value;
    setPref("theme", theme.value);
  } });
  zone.utc = pref("utc", "") === "on";
  const utc = h("input", { type: "checkbox", checked: zone.utc, onchange: () => {
    zone.utc = utc.checked;
    setPref("utc", utc.checked ? "on" : "");
    // Re-renders every time on the page.
    show(true);
  } });
  const states = [h("div.state"), h("div.state.short")];
  const version = h("div.faint");
  const leave = h("button.plain", { hidden: true, onclick: () => signOut().catch((error) => toast(error.message, "failed")) }, "Sign out");
  const keys = h("button.plain", { onclick: help }, "Shortcuts ?");
  rail = h("header.rail",
    toggle,
    h("div.brand", wire, "toolwire"),
    states[1],
    h("nav", { id: "nav", "aria-label": "Pages" }, Object.values(links)),
    h("div.end", states[0], theme, h("label", utc, "Times in UTC"), h("div.row", keys, leave), version));
  main.append(login, page);
  document.body.append(h("a.skip", { href: "#main", onclick: (event) => {
    event.preventDefault();
    main.focus();
  } }, "Skip to the page"), h("div.app", rail, h("div", bar(), main)));
  document.body.dataset.settled = "";
  install({ help, question: openFirst });
  effect(() => states.forEach((element) => fill(element, connectionLine(connection.value))));
  setInterval(() => connection.peek().state === "waiting" && states.forEach((element) => fill(element, connectionLine(connection.peek()))), 1000);
  effect(() => {
    paintBadges({ ...badges.value, tools: questions.value.length });
    title(parse(location.hash));
  });
  effect(() => {
    const known = session.value;
    leave.hidden = !known?.signed_in || known.expires_at == null;
    version.textContent = known?.version ? `toolwire ${known.version}` : "";
    if (!known) return;
    if (known.signed_in) {
      fill(login);
      start();
      refresh().catch(() => {});
    } else {
      stop();
      // A reason that is shown stays.
      if (!login.firstChild) showLogin();
    }
    page.hidden = !known.signed_in;
    show();
  });
  listen((kind, data) => {
    if (kind === "metrics") {
      if (data.running !== (badges.peek().live ?? 0)) badges.value = { ...badges.peek(), live: data.running };
    } else if (kind === "reset") {
      if (data.reason === "restarted") renew().then((isUpdated) => isUpdated && toast("toolwire was updated. Reload the page.", "failed")).catch(() => {});
    }
    else if (kind === "config_loaded") {
      badges.value = { ...badges.peek(), settings: data.ok ? 0 : data.errors.length };
      if (!data.ok || !isSaid()) toast(data.ok ? "The configuration was loaded" : "The configuration has errors; the one before holds", data.ok ? "done" : "failed");
    }
  });
  addEventListener("hashchange", show);
  addEventListener("scroll", () => current.page && scrolls.set(current.hash, scrollY), { passive: true });
}

function menu(open) {
  rail.classList.toggle("open", open);
  rail.querySelector(".menu").setAttribute("aria-expanded", open);
}

const BADGES = { live: "running", tools: "waiting", settings: "invalid" };

function paintBadges(counts) {
  for (const [key, link] of Object.entries(links)) {
    const count = counts[key];
    fill(link, NAMES[key], count ? h("span.badge", String(count), h("span.only-read", ` ${BADGES[key] ?? ""}`)) : null);
  }
}

function connectionLine({ state, at }) {
  switch (state) {
    case "live":
      return [glyph("live"), h("span", "Connected")];
    case "waiting":
      return [glyph("error"), h("span", `Reconnecting in ${Math.max(0, Math.ceil((at - Date.now()) / 1000))} s`), h("button.plain", { onclick: () => retry() }, "Now")];
    case "signed out":
      return [glyph("waiting"), h("span", "Signed out")];
    case "refused":
      return [glyph("error"), h("span", "Not allowed here")];
    default:
      return [glyph("waiting"), h("span", "Connecting")];
  }
}

// Shows the sign-in panel. The current page stays in place.
export function showLogin(error) {
  const field = h("input.grow", { type: "password", autocomplete: "current-password", required: "", id: "admin-key" });
  const problem = h("div");
  if (error && error.status !== 401 || error?.code && error.message?.includes("code")) fill(problem, note(error));
  if (error && error.status !== 401 && error.status !== 429) {
    fill(login, h("div.stack", problem, h("div", h("button", { onclick: () => resume().catch(showLogin) }, "Try again"))));
    return;
  }
  const submit = h("button.main", "Sign in");
  const form = h("form.box.stack", { onsubmit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      await signIn({ key: field.value });
      announce("Signed in");
    } catch (failure) {
      fill(problem, note({ ...failure, code: failure.status === 401 ? "invalid_key" : failure.code, message: failure.message, retryAfter: failure.retryAfter }));
      submit.disabled = false;
      field.focus();
    }
    field.value = "";
  } },
    h("h1.only-read", "toolwire"), h("h2", "Sign in"),
    h("p.dim", "An admin key is needed: one of ", h("code", "api_keys"), " in the table ", h("code", "[admin]"), " of the configuration."),
    h("div.row", h("label", { for: "admin-key" }, "Admin key"), field, submit),
    problem);
  fill(login, form);
}

// Shows the page that the URL names.
function show(isAnew) {
  const route = parse(location.hash);
  if (!session.peek()) return;
  if (route.page === "login") return;
  menu(false);
  for (const [key, link] of Object.entries(links)) {
    if (key === route.page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (isAnew !== true && current.page === route.page && current.signedIn === session.peek().signed_in) {
    current.hash = location.hash;
    current.view?.route?.(route);
    title(route);
    return;
  }
  const isFirst = !current.page;
  current.view?.leave?.();
  current = { page: route.page, hash: location.hash, signedIn: session.peek().signed_in };
  fill(page);
  title(route);
  const heading = h("h1", { tabindex: -1 }, NAMES[route.page]);
  current.view = PAGES[route.page]({ place: page, heading, route });
  if (!isFirst && isAnew !== true) heading.focus({ preventScroll: true });
  scrollTo(0, scrolls.get(location.hash) ?? 0);
}

function title({ page: key, id }) {
  if (!NAMES[key]) return;
  const waits = questions.peek().length ? `(${questions.peek().length}) ` : "";
  document.title = `${waits}${id ? `${id} - ` : ""}${NAMES[key]} - toolwire`;
}

function help() {
  const on = h("input", { type: "checkbox", checked: enabled(), onchange: () => enable(on.checked) });
  dialog("Keyboard shortcuts", (close) => [
    h("dl", LIST.map(([key, what]) => h("div.field", h("dt", h("kbd", key)), h("dd", what)))),
    h("label", on, "Single letters work"),
    h("div", h("button", { onclick: close }, "Close"))]);
}
