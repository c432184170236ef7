// Times, durations and sizes in readable form.

const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

// The time since then in one unit: "4s", "12m".
export function ago(t, now) {
  const seconds = Math.max(0, Math.floor((now - t) / 1000));
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? UNITS[3];
  return `${Math.floor(seconds / size)}${unit}`;
}

const two = (number) => String(number).padStart(2, "0");

// Whether times are shown in UTC instead of this machine's time zone.
export const zone = { utc: false };

// Date and time with the time zone.
export function absolute(t, utc = zone.utc) {
  const date = new Date(t);
  const get = (part) => date[`get${utc ? "UTC" : ""}${part}`]();
  const offset = -date.getTimezoneOffset();
  const zone = utc ? "UTC" : `UTC${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${get("FullYear")}-${two(get("Month") + 1)}-${two(get("Date"))} ${two(get("Hours"))}:${two(get("Minutes"))}:${two(get("Seconds"))} ${zone}`;
}

// A duration with three digits.
export function duration(ms) {
  if (ms == null || !Number.isFinite(ms)) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const [unit, size, label] = ms < 3_600_000 ? [60_000, 1000, "min"] : [3_600_000, 60_000, "h"];
  const rest = Math.floor(ms / size) % 60;
  return `${Math.floor(ms / unit)}${rest ? `:${two(rest)}` : ""} ${label}`;
}

const LONG = [[86400, "d"], [3600, "h"], [60, "m"]];
const LARGE = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

// A duration, rate or size of the configuration as people write it: 7d for 604800s, 60/1m for 60/60s, 100 kB for 100000B.
export function readable(text) {
  const [, before, number, unit] = /^(\d+\/)?(\d+)(s|B|[kKMGT]i?B)$/.exec(text) ?? [];
  if (!unit) return text;
  const [size, name] = (unit === "s" ? LONG : unit === "B" ? LARGE : []).find(([size]) => number > 0 && number % size === 0) ?? [1, unit];
  return `${before ?? ""}${number / size}${unit === "s" ? "" : " "}${name}`;
}

export function bytes(count) {
  if (count == null) return "–";
  if (count < 1024) return `${count} B`;
  if (count < 1 << 20) return `${(count / 1024).toFixed(1)} KB`;
  return `${(count / (1 << 20)).toFixed(1)} MB`;
}

// A count: 1,204, or 1.9 M from a hundred thousand on.
export function count(number) {
  if (number == null || !Number.isFinite(number)) return "–";
  if (number >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  if (number >= 1e5) return `${Math.round(number / 1e3)} k`;
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function percent(share) {
  if (share == null || !Number.isFinite(share)) return "–";
  return `${(share * 100).toFixed(share && share < 0.1 ? 1 : 0)} %`;
}

// A rate or another small number, with one decimal.
export const tenth = (number) => (number == null || !Number.isFinite(number) ? "–" : number.toFixed(1));

// The delay before reconnection attempt `n`: it doubles up to 30 s, with jitter so that tabs do not reconnect at once.
export function backoff(n, random = Math.random()) {
  return Math.min(30_000, 500 * 2 ** Math.min(n, 16)) * (0.5 + random);
}
