// The event feed: one connection per browser if possible, which reconnects by itself and reports its state.

import { Parser } from "./sse.js";
import { signal } from "./store.js";
import { backoff } from "./time.js";
import { adminUrl, request } from "./api.js";

const SILENCE = 40_000;

// {state: "connecting" | "live" | "waiting" | "signed out" | "refused", at: time of the next attempt}
export const connection = signal({ state: "connecting" });

const listeners = new Set();

// Calls `listener(name, data)` for each event. Returns a function that stops this.
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const dispatch = (name, data) => {
  for (const listener of listeners) listener(name, data);
};

// Reads the server-sent events of a response until it ends. `heard` is called for every chunk.
export async function readEvents(response, take, heard = () => {}) {
  const parser = new Parser();
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    for (const event of parser.push(value)) {
      let data;
      try {
        data = JSON.parse(event.data);
      } catch {
        continue;
      }
      take(event.name, data, event.id);
    }
  }
}

let lastId = "";
let attempt = 0;
let running = null;
let wake = () => {};

// One connection. Returns when it ends; throws if it could not be opened.
async function once(abort) {
  const response = await request("GET", adminUrl("events"), { headers: lastId ? { "Last-Event-ID": lastId } : {}, signal: abort.signal });
  const steady = setTimeout(() => (attempt = 0), 30_000);
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => abort.abort(), SILENCE);
  };
  heard();
  say({ state: "live" });
  try {
    await readEvents(response, (name, data, id) => {
      lastId = id;
      relay(name, data);
    }, heard);
  } finally {
    clearTimeout(steady);
    clearTimeout(silence);
  }
}

async function keepReading(run) {
  while (!run.stopped) {
    const abort = new AbortController();
    run.abort = abort;
    let least = 0;
    try {
      await once(abort);
    } catch (error) {
      if (run.stopped) return;
      if (error.status === 401) return say({ state: "signed out" });
      if (error.status === 403) return say({ state: "refused" });
      least = (error.retryAfter ?? 0) * 1000;
    }
    if (run.stopped) return;
    const delay = Math.max(least, backoff(attempt++));
    say({ state: "waiting", at: Date.now() + delay });
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      wake = (spread) => {
        clearTimeout(timer);
        setTimeout(resolve, spread);
      };
    });
  }
}

// Other tabs of this browser receive the events from the one that is connected.
const channel = globalThis.BroadcastChannel && new BroadcastChannel(`toolwire ${adminUrl("events").pathname}`);
let isReader = false;

function relay(name, data) {
  dispatch(name, data);
  channel?.postMessage({ name, data });
}

function say(state) {
  connection.value = state;
  if (isReader) channel?.postMessage({ state });
}

if (channel) {
  channel.onmessage = ({ data: message }) => {
    if (message.ask && isReader) channel.postMessage({ state: connection.peek() });
    else if (message.state && !isReader) connection.value = message.state;
    else if (message.name && !isReader) dispatch(message.name, message.data);
  };
}

export function start() {
  stop();
  const run = { stopped: false, abort: null, release: new AbortController() };
  running = run;
  attempt = 0;
  say({ state: "connecting" });
  const read = async () => {
    isReader = true;
    await keepReading(run);
    isReader = false;
  };
  if (!navigator.locks) return void read();
  channel?.postMessage({ ask: true });
  navigator.locks.request(`toolwire ${adminUrl("events").pathname}`, { signal: run.release.signal }, read).catch(() => {});
}

export function stop() {
  if (!running) return;
  running.stopped = true;
  running.abort?.abort();
  running.release.abort();
  wake(0);
  running = null;
}

// Tries again now.
export const retry = (spread = 0) => wake(spread);

addEventListener("online", () => retry(Math.random() * 500));
document.addEventListener("visibilitychange", () => document.hidden || retry(Math.random() * 500));
