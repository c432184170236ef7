// Takes screenshots of all pages, for review: node shoot.mjs FOLDER [PAGE]
// Takes the documentation's screenshots: node shoot.mjs ../../docs/images docs
import { chromium } from "playwright-core";
import { answers, HOSTILE } from "./scripts.mjs";
import { stand } from "./stand.mjs";
import { open } from "./browser.mjs";

const escaped = JSON.stringify(HOSTILE);
const inner = escaped.slice(1, -1);
// The same in JSON within JSON, twice.
const [within, deep] = [JSON.stringify(inner).slice(1, -1), JSON.stringify(JSON.stringify(inner).slice(1, -1)).slice(1, -1)];
const harmless = (text) => text.replaceAll(deep, "Announcing Rust 1.95").replaceAll(within, "Announcing Rust 1.95").replaceAll(`"upstream":${escaped}`, '"upstream":"moonshot"').replaceAll(`"key":${escaped}`, '"key":"team-b"').replaceAll(`:${escaped}`, ':"kimi-k2"').replaceAll(inner, "");

// The scripted responses without hostile texts. The list of formats comes from toolwire itself.
const plain = (own) => Object.fromEntries(Object.entries(own).filter(([path]) => !path.includes("/admin/formats")).map(([path, answer]) => [path, (request, response, body) => {
  const end = response.end.bind(response);
  response.end = (text) => end(typeof text === "string" ? harmless(text) : text);
  return answer(request, response, body);
}]));

const folder = process.argv[2] ?? ".";
const only = process.argv[3];
const isDocs = only === "docs";
const own = await stand({ answers: isDocs ? plain(answers()) : answers() });
const browser = await open(chromium);
const VIEWS = { live: "#/live", exchange: "#/live/ex_7f3a", formats: "#/formats", tools: "#/tools/calc", settings: "#/settings", provider: "#/settings/providers.serper", aligned: "#/live/ex_7f3a?view=aligned", text: "#/live/ex_7f3a?view=text", play: "#/play", parchment: "#/play", measure: "#/measure" };

async function visit(scheme, width, height) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce", timezoneId: "UTC" });
  const page = await context.newPage();
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && console.log(message.text()));
  page.on("pageerror", (error) => console.log(error.stack));
  return { context, page };
}

async function shoot(page, name, file, fullPage) {
  await page.goto(own.url + VIEWS[name]);
  await page.waitForTimeout(1200);
  if (["play", "parchment"].includes(name)) {
    const options = page.getByRole("button", { name: "Options" });
    if (await options.isVisible()) await options.click();
    await page.getByLabel("Theme of the chat").selectOption(name === "play" ? "plain" : name);
    await page.getByLabel("Model", { exact: true }).fill("echo");
    await page.getByLabel("Message", { exact: true }).fill("Find the newest Rust release");
    await page.getByRole("button", { name: "Send" }).click();
    await page.waitForTimeout(900);
  }
  await page.screenshot({ path: `${folder}/${file}.png`, fullPage });
}

if (isDocs) {
  for (const [name, scheme] of [["exchange", "light"], ["formats", "dark"], ["parchment", "light"]]) {
    const { context, page } = await visit(scheme, 1280, 960);
    await shoot(page, name, `console-${name}`, false);
    await context.close();
  }
} else {
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 360]) {
      const { context, page } = await visit(scheme, width, width < 900 ? 740 : 800);
      for (const name of Object.keys(VIEWS)) if (!only || name === only) await shoot(page, name, `${name}-${width}-${scheme}`, ["play", "parchment"].includes(name));
      await context.close();
    }
  }
}
await browser.close();
await own.close();
