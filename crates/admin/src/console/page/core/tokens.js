// JSON read as text. `JSON.parse` would turn 2.50 into 2.5, round long numbers, and lose duplicate keys.

const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;
const MAX_DEPTH = 500;

// Returns a tree of {kind, raw, entries?: [{key?, node}]}, in which scalars keep their original text.
//
// Throws an error with `at`, the position where the text stops being JSON.
export function read(text) {
  const stack = [];
  let at = 0, root = null;
  const skip = () => match(SPACE);
  function match(pattern) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) return null;
    at += found[0].length;
    return found[0];
  }
  const fail = (what) => {
    throw Object.assign(new Error(`${what} expected at ${at}`), { at });
  };
  const put = (node, key) => {
    if (stack.length) stack.at(-1).entries.push({ key, node });
    else root = node;
  };
  for (;;) {
    const parent = stack.at(-1);
    skip();
    let key;
    if (parent) {
      const close = parent.kind === "object" ? "}" : "]";
      if (text[at] === close && (!parent.entries.length || !parent.wants)) {
        at++;
        stack.pop();
        if (!stack.length) break;
        stack.at(-1).wants = false;
        continue;
      }
      if (parent.entries.length && !parent.wants) {
        if (text[at] !== ",") fail(`"," or "${close}"`);
        at++;
        parent.wants = true;
        continue;
      }
      if (parent.kind === "object") {
        const raw = match(STRING) ?? fail("a key");
        key = JSON.parse(raw);
        skip();
        if (text[at++] !== ":") fail('":"');
        skip();
      }
      parent.wants = false;
    }
    if (text[at] === "{" || text[at] === "[") {
      if (stack.length >= MAX_DEPTH) fail("less depth");
      const node = { kind: text[at] === "{" ? "object" : "array", entries: [], wants: false };
      at++;
      put(node, key);
      stack.push(node);
      continue;
    }
    const begin = at;
    let kind = "string", raw = match(STRING);
    if (raw == null) [kind, raw] = ["number", match(NUMBER)];
    if (raw == null) [kind, raw] = ["word", match(WORD)];
    if (raw == null) {
      at = begin;
      fail("a value");
    }
    put({ kind, raw }, key);
    if (!stack.length) break;
  }
  skip();
  if (at < text.length) fail("the end");
  return root;
}

// Returns the text of a node without white space.
export function compact(node) {
  if (!node.entries) return node.raw;
  const inner = node.entries.map(({ key, node: own }) => (key === undefined ? "" : `${JSON.stringify(key)}:`) + compact(own)).join(",");
  return node.kind === "object" ? `{${inner}}` : `[${inner}]`;
}

// Unescapes one part of a JSON Pointer (RFC 6901, section 3).
export const pointer = (part) => String(part).replaceAll("~", "~0").replaceAll("/", "~1");
