// Results of tools by what they are: found pages, images, tables, formatted text, other text, or JSON.

import { fill, h, name, region } from "../core/dom.js";
import { imagePath, visible, webUrl } from "../core/text.js";
import { carousel } from "./carousel.js";
import { json } from "./json.js";
import { prose } from "./markdown.js";

const MAX_TEXT = 100_000;
const MAX_ROWS = 100;
const MAX_COLUMNS = 12;
const TABLE = /^ {0,3}\|.*\n {0,3}\|?[ \t]*:?-+:?[ \t]*\|/m;

// `details` is what toolwire knows of the result besides its text.
export function result(value, details) {
  const known = parsed(value);
  const shown = view(known) ?? (details && typeof details === "object" ? view(details) : null);
  if (shown) return h("div.stack", shown, typeof known === "object" && folded("As JSON", known));
  if (typeof known === "object" && known) return json(typeof value === "string" ? value.trim() : known, "Result", 2);
  const text = String(value);
  if (text.length < MAX_TEXT && TABLE.test(text)) return h("div.result", prose(text));
  return region("pre.code", "Result", visible(text.slice(0, MAX_TEXT)));
}

function parsed(value) {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    // The text only starts like JSON.
    return value;
  }
}

function view(value) {
  if (!value || typeof value !== "object") return null;
  const paths = images(value);
  if (paths.length) return carousel(paths, value.data?.prompt ?? value.prompt ?? "");
  const lists = [value, value.results, value.data?.results, value.data, value.rows].filter(Array.isArray);
  for (const list of lists) {
    const shown = pages(list, value) ?? table(list);
    if (shown) return shown;
  }
  return null;
}

// JSON that is made when it is opened.
export function folded(label, value) {
  const body = h("div");
  const element = h("details.fold", h("summary", label), body);
  element.addEventListener("toggle", () => element.open && !body.firstChild && fill(body, json(value, label, 2)));
  return element;
}

// Found pages: titles with links. Only addresses of the web become links.
function pages(list, { summary, answer } = {}) {
  const found = list.filter((own) => own && typeof own.title === "string" && ["url", "link"].some((key) => typeof own[key] === "string"));
  if (!found.length || found.length < list.length / 2) return null;
  const direct = [summary, answer].find((own) => typeof own === "string" && own);
  return h("div.stack", direct && h("p", name(direct.slice(0, 2000))), h("ol.pages", found.slice(0, MAX_ROWS).map((own) => {
    const written = [own.url, own.link].find((url) => typeof url === "string");
    const [address, text] = [webUrl(written), own.snippet ?? own.description ?? own.content];
    return h("li",
      address ? h("a", { href: address.href, target: "_blank", rel: "noopener noreferrer" }, name(own.title || address.host)) : name(own.title),
      h("span.small.faint", " ", name([address ? address.host : written, typeof own.date === "string" && own.date].filter(Boolean).join(", "))),
      typeof text === "string" && h("p.small.dim.clamp", name(text.slice(0, 500))));
  })));
}

// Objects with the same simple members: a row for each.
function table(list) {
  const isFlat = (own) => own && typeof own === "object" && !Array.isArray(own) && Object.values(own).every((value) => value === null || typeof value !== "object");
  if (list.length < 2 || !list.every(isFlat)) return null;
  const columns = [...new Set(list.slice(0, MAX_ROWS).flatMap(Object.keys))];
  if (!columns.length || columns.length > MAX_COLUMNS) return null;
  return h("div", region("div.wide-table", "Result", h("table.plain",
    h("thead", h("tr", columns.map((key) => h("th", { scope: "col" }, name(key))))),
    h("tbody", list.slice(0, MAX_ROWS).map((row) => h("tr", columns.map((key) => h("td", { class: typeof row[key] === "number" ? "num" : null }, name(row[key] == null ? "" : String(row[key]).slice(0, 500))))))))),
    list.length > MAX_ROWS && h("p.small.dim", `The first ${MAX_ROWS} of ${list.length} rows.`));
}

function images(value) {
  const list = value.data?.image_urls ?? value.image_urls ?? (Array.isArray(value.images) ? value.images.map((own) => own?.url ?? own) : []);
  return Array.isArray(list) ? list.map((own) => imagePath(own, location.origin)).filter(Boolean) : [];
}
