// Logins at MCP servers. Their authorization server sends the browser back to this page, with its response in the query.

import { call, consoleUrl, get, part, session } from "../core/api.js";
import { fill, h, name, select } from "../core/dom.js";
import { go, href } from "../core/route.js";
import { effect } from "../core/store.js";
import { absolute } from "../core/time.js";
import { failed, toast } from "./note.js";

// The client of the Playground, which is not one of the keys.
const PLAYGROUND = "console";

// The path of a login: that of the client key `key`, or of all clients.
const path = (provider, key) => `providers/${part(provider)}/login${key === undefined ? "" : `?key=${part(key)}`}`;

export async function logIn(provider, key) {
  const { url } = await call("POST", path(provider, key), { redirect: consoleUrl(".").href });
  location.assign(url);
}

export const logOut = (provider, key) => call("DELETE", path(provider, key), {});

// A button that ends a login. `changed` is called afterwards.
export const logOutButton = (provider, changed, key) => h("button", { "aria-label": key && `Log out ${key}`, onclick: async (event) => {
  try {
    await logOut(provider, key);
    // The page is not painted again while something on it has the focus.
    event.target.blur();
    changed();
  } catch (error) {
    failed(error);
  }
} }, "Log out");

const logInButton = (provider, key, props) => h("button.main", { ...props, onclick: () => logIn(provider, key()).catch(failed) }, "Log in");

// The logins of client keys at a server, by the names of the keys, and a form for another one. `changed` is called after a logout.
export function keyLogins(provider, logins, changed) {
  const list = h("div"), another = h("div");
  const paint = (keys) => {
    const row = ([key, login]) => {
      const isIn = login.state === "logged_in", isKnown = !keys || keys.includes(key);
      const state = !isKnown ? "no such key" : isIn ? "logged in" : "needs a login";
      const until = isIn && login.expires_at && `token until ${absolute(login.expires_at * 1000)}${login.refreshable ? ", then refreshed" : ""}`;
      return h("li.row", h("strong", name(key)), h("span", { class: `tag ${isIn && isKnown ? "result" : "error"}` }, state), h("span.faint", until),
        h("span.row.push", !isIn && isKnown && logInButton(provider, () => key, { "aria-label": `Log in ${key}` }), logOutButton(provider, changed, key)));
    };
    const entries = Object.entries(logins);
    fill(list, entries.length ? h("ul.stack", entries.map(row)) : h("p.dim", "No client key is logged in."));
    const left = (keys ?? []).filter((key) => !(key in logins));
    if (!left.length) return fill(another);
    const pick = select(left.map((key) => [key, key === PLAYGROUND ? `${key} (the Playground)` : key]), left[0]);
    fill(another, h("div.row", h("label", "Client key ", pick), logInButton(provider, () => pick.value)));
  };
  paint();
  get("keys").then(({ keys }) => paint([...new Set([...keys.map((key) => key.name), PLAYGROUND])]), failed);
  return h("div.stack", h("h3", "Logins of client keys"), list, another);
}

// Passes on the response that this page was opened with, once a person has signed in.
export function finishLogin() {
  let query = location.search.slice(1);
  const response = new URLSearchParams(query);
  if (!response.has("state") || !(response.has("code") || response.has("error"))) return;
  history.replaceState(null, "", location.pathname + location.hash);
  effect(() => {
    if (!query || !session.value?.signed_in) return;
    const body = { query };
    query = "";
    call("POST", "logins", body).then(({ provider, key }) => {
      toast(`Logged in to ${provider}${key ? ` for the key ${key}` : ""}`);
      go(href("tools", "", { provider }));
    }).catch(failed);
  });
}
