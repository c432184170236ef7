// Makes text from untrusted sources safe to read.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// Makes characters visible that are invisible or change the text direction.
export function visible(text) {
  return String(text).replace(HIDDEN, (char) => {
    const code = char.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

// Returns the URL of a link that may be followed, or `null` if it must stay text.
export function safeUrl(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url : null;
  } catch {
    return null;
  }
}

// The same for links from the results of tools, which lead only to the web.
export function webUrl(text) {
  const url = typeof text === "string" ? safeUrl(text) : null;
  return url && url.protocol !== "mailto:" ? url : null;
}

// File names that toolwire gives to images: a time and a random number, which do not occur elsewhere by chance.
const MADE = /^https?:\/\/[^\s?#]+?\/(api\/images\/\d{8}_\d{6}_[\da-f]{32}\.[a-z]{2,5})$/;

// Returns the path of an image that this server generated, relative to the page, or `null` for all others. toolwire writes the URLs of its
// images with the address that it listens on, which differs from the page's behind a proxy. So the host is ignored, and only this server is asked.
export function imagePath(text, origin) {
  let path = String(text);
  if (origin && path.startsWith(`${origin}/`)) path = path.slice(origin.length);
  return MADE.exec(path)?.[1] ?? (/^\/?api\/images\/[\w.-]{1,200}$/.test(path) ? path.replace(/^\//, "") : null);
}

// Whether a text seems to contain a secret.
export const hasSecret = (text) => /\b(sk|pk|ghp|gho|xox[bap]|AKIA|AIza|eyJ)[-_A-Za-z0-9]{12,}|bearer\s+[-\w.]{16,}/i.test(text);

// A model name that may contain `*` as a wildcard.
export function matches(pattern, name) {
  const source = pattern.toLowerCase().split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*");
  return new RegExp(`^${source}$`).test(String(name ?? "").toLowerCase());
}

const encoder = new TextEncoder();
export const utf8 = (text) => encoder.encode(text);
