// Observable values. Everything that reads one is run again after it changes, at most once per frame.

const pending = new Set();
let running = null;
const later = globalThis.requestAnimationFrame
  ? (run) => (document.hidden ? setTimeout(run, 250) : requestAnimationFrame(run))
  : (run) => queueMicrotask(run);

function schedule(effect) {
  if (!pending.size) later(flush);
  pending.add(effect);
}

// Runs everything that waits for the next frame now.
export function flush() {
  const effects = [...pending];
  pending.clear();
  for (const effect of effects) if (!effect.stopped) effect.run();
}

export function signal(value) {
  const readers = new Set();
  return {
    get value() {
      if (running) {
        readers.add(running);
        running.sources.add(readers);
      }
      return value;
    },
    set value(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const effect of readers) schedule(effect);
    },
    peek: () => value,
  };
}

// Runs `body` now, and again whenever a value that it read changes. Returns a function that stops this.
export function effect(body) {
  const own = {
    stopped: false,
    sources: new Set(),
    run() {
      for (const readers of own.sources) readers.delete(own);
      own.sources.clear();
      const before = running;
      running = own;
      try {
        body();
      } finally {
        running = before;
      }
    },
  };
  own.run();
  return () => {
    own.stopped = true;
    for (const readers of own.sources) readers.delete(own);
  };
}
