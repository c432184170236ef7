// A text in a link: deflated, then base64url. It is in the fragment, which no server sees.

const LIMIT = 8192;
const MAX_TEXT = 1 << 20;

async function piped(bytes, stream, limit = Infinity) {
  const reader = new Blob([bytes]).stream().pipeThrough(stream).getReader();
  const pieces = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > limit) throw new Error("the link has too much in it");
    pieces.push(value);
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

// `null` if it is too long for a link.
export async function packed(value) {
  const bytes = await piped(new TextEncoder().encode(JSON.stringify({ v: 1, ...value })), new CompressionStream("deflate-raw"));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  const text = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return text.length > LIMIT ? null : text;
}

export async function unpacked(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = await piped(Uint8Array.from(binary, (char) => char.charCodeAt(0)), new DecompressionStream("deflate-raw"), MAX_TEXT);
  const value = JSON.parse(new TextDecoder().decode(bytes));
  if (value?.v !== 1) throw new Error("the link is of another version");
  return value;
}
