// Text from outside, made safe to read.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// Shows characters that are invisible or change the direction of what follows.
export function visible(text) {
  return String(text).replace(HIDDEN, (char) => {
    const code = char.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

// The address of a link that may be followed. `null`: it is only text.
export function safeUrl(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

// The names that images get from toolwire: a time and a random number, which nobody else makes by chance.
const MADE = /^https?:\/\/[^\s?#]+?\/(api\/images\/\d{8}_\d{6}_[\da-f]{32}\.[a-z]{2,5})$/;

// The path of a generated image of this server, relative to the page. `null`: it is from elsewhere. toolwire writes the URLs of its images
// with the address at which it listens, which is another than the page's behind a proxy. Whatever the host, only this server is asked.
export function imagePath(text, origin) {
  let path = String(text);
  if (origin && path.startsWith(`${origin}/`)) path = path.slice(origin.length);
  return MADE.exec(path)?.[1] ?? (/^\/?api\/images\/[\w.-]{1,200}$/.test(path) ? path.replace(/^\//, "") : null);
}

// Whether a text looks as if it had a secret in it.
export const hasSecret = (text) => /\b(sk|pk|ghp|gho|xox[bap]|AKIA|AIza|eyJ)[-_A-Za-z0-9]{12,}|bearer\s+[-\w.]{16,}/i.test(text);

// A model's name that may be matched by a pattern with `*`.
export function matches(pattern, name) {
  const source = pattern.toLowerCase().split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*");
  return new RegExp(`^${source}$`).test(String(name ?? "").toLowerCase());
}

const encoder = new TextEncoder();
export const utf8 = (text) => encoder.encode(text);
