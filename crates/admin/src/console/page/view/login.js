// Logins at MCP servers. Their authorization server sends the browser back to this page, with its response in the query.

import { call, consoleUrl, part, session } from "../core/api.js";
import { go, href } from "../core/route.js";
import { effect } from "../core/store.js";
import { failed, toast } from "./note.js";

export async function logIn(provider) {
  const { url } = await call("POST", `providers/${part(provider)}/login`, { redirect: consoleUrl(".").href });
  location.assign(url);
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
    call("POST", "logins", body).then(({ provider }) => {
      toast(`Logged in to ${provider}`);
      go(href("tools", "", { provider }));
    }).catch(failed);
  });
}
