// Calls of hosted tools, as toolwire counts them for its metrics.

const LINE = /^toolwire_hosted_calls_total\{(.*)\} (\d+)/gm;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

// {calls, failed} by tool, out of the text of GET /metrics.
export function tallied(text) {
  const found = new Map();
  for (const [, labels, value] of text.matchAll(LINE)) {
    const { tool, code } = Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, own]) => [key, own.replace(/\\(.)/g, "$1")]));
    const own = found.get(tool) ?? { calls: 0, failed: 0 };
    found.set(tool, own);
    own.calls += Number(value);
    if (code !== "ok") own.failed += Number(value);
  }
  return found;
}
