// The current location: `#/page/rest?key=value`. Fragments reach no server and no log, and path prefixes cannot break them.

export const PAGES = ["live", "formats", "tools", "settings", "play", "measure"];

export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page, ...rest] = path.split("/").map(decoded);
  return { page: PAGES.includes(page) || page === "login" ? page : "live", id: rest.join("/"), query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(page, id = "", query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value != null && value !== "");
  const tail = pairs.length ? `?${new URLSearchParams(pairs)}` : "";
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ""}${tail}`;
}

// Navigates to a location; `replace` adds no entry to the history.
export function go(target, { replace = false } = {}) {
  if (location.hash === target) return;
  if (replace) {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = target;
}
