// Requests to the admin API. All URLs are relative to the page, so that it works below any path prefix.

import { signal } from "./store.js";

// The current session: null until it is known, then the response of GET /admin/session.
export const session = signal(null);

const base = new URL("../", document.baseURI);
export const adminUrl = (path) => new URL(`admin/${path}`, base);
export const consoleUrl = (path) => new URL(path, document.baseURI);
export const serverUrl = (path = "") => new URL(path, base);

export class ApiError extends Error {
  constructor(status, error = {}) {
    super(error.message ?? (status ? `toolwire answered with status ${status}` : "toolwire does not answer"));
    Object.assign(this, { status, code: error.code ?? (status ? `http_${status}` : "unreachable"), path: error.path, retryAfter: error.retry_after_s, problems: error.problems, winner: error.winner, since: error.since });
  }
}

// The difference between the server's clock and this one.
let skew = 0;
export const serverNow = () => Date.now() + skew;

// Fetches the session again without re-rendering the page. Only the token has changed, if toolwire was restarted.
export async function renew() {
  const before = session.peek()?.version;
  const now = await get("session");
  if (session.peek()?.signed_in === now.signed_in) Object.assign(session.peek(), now);
  else began(now);
  return now.version !== before;
}

export async function request(method, url, { body, headers, signal: abort } = {}, isAgain = false) {
  const changes = method !== "GET";
  let response;
  try {
    response = await fetch(url, {
      method,
      cache: "no-store",
      signal: abort,
      headers: { ...(changes && { "Content-Type": "application/json", "X-Toolwire-CSRF": session.peek()?.csrf ?? "" }), ...headers },
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0);
  }
  if (response.ok) return response;
  let error;
  try {
    ({ error } = await response.json());
  } catch {
    // The response came from a proxy, not from toolwire.
  }
  // The request had no effect, because its token was issued before toolwire was restarted.
  if (error?.code === "csrf" && !isAgain) {
    await renew();
    return request(method, url, { body, headers, signal: abort }, true);
  }
  if (response.status === 401 && session.peek()?.signed_in) session.value = { signed_in: false };
  throw new ApiError(response.status, error);
}

export async function call(method, path, body, options) {
  const response = await request(method, adminUrl(path), { body, ...options });
  const value = response.status === 204 ? null : await response.json();
  const tag = response.headers.get("etag");
  if (tag && value) Object.defineProperty(value, "etag", { value: tag });
  return value;
}

export const get = (path, options) => call("GET", path, undefined, options);
export const part = encodeURIComponent;

// The names of the entries of a configuration table.
export async function namesOf(table) {
  const { settings } = session.peek()?.signed_in ? await get("settings").catch(() => ({ settings: [] })) : { settings: [] };
  const pattern = new RegExp(`^${table}\\.("(?:[^"\\\\]|\\\\.)*"|[^.]+)\\.`);
  const found = settings.map((own) => pattern.exec(own.path)?.[1]).filter(Boolean);
  return [...new Set(found)].map((own) => own.replace(/^"|"$/g, ""));
}

function began(state) {
  if (state.server_time) skew = state.server_time - Date.now();
  session.value = state;
  return state;
}

export const resume = async () => began(await get("session"));
export const signIn = async (shown) =>
  began(await call("POST", "session", { ...shown, base: base.pathname, secure: location.protocol === "https:" }));

export async function signOut() {
  await call("DELETE", "session");
  session.value = { signed_in: false };
}
