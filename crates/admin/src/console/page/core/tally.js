// Numbers of hosted tool calls, from toolwire's metrics.

const LINE = /^toolwire_hosted_calls_total\{(.*)\} (\d+)/gm;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

// Reads {calls, failed} by tool from the text of GET /metrics.
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
