// The controls that no other test uses, in both themes, with a real toolwire as the server.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { before, test } from "node:test";
import { live, saved, visit as visitPage } from "./browser.mjs";
import { browser, own } from "./session.mjs";
import { ask, stand } from "./stand.mjs";

before(async () => {
  await ask(own, "please calc");
});

const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText());
const button = (page, name, options) => page.getByRole("button", { name, ...options });
const isDark = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor === "rgb(18, 21, 24)");

for (const colorScheme of ["light", "dark"]) {
  const visit = (hash, options) => visitPage(browser, own.url + hash, { colorScheme, ...options });

  test(`the rail: pages, themes, keys, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/live");
    for (const name of ["Formats", "Tools", "Settings", "Playground", "Measure", "Live"]) {
      await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).click();
      await page.getByRole("heading", { name, level: 1 }).waitFor();
    }
    const theme = page.getByLabel("Theme", { exact: true });
    for (const [value, expected] of [["Dark theme", true], ["Light theme", false], ["System theme", colorScheme === "dark"]]) {
      await theme.selectOption(value);
      assert.equal(await isDark(page), expected, value);
    }
    await theme.selectOption(colorScheme === "dark" ? "Light theme" : "Dark theme");
    await page.reload();
    assert.equal(await isDark(page), colorScheme !== "dark", "the choice is kept");
    await theme.selectOption("System theme");
    await button(page, "Shortcuts ?").click();
    const letters = page.getByLabel("Single letters work");
    await letters.uncheck();
    await button(page, "Close").click();
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    await page.keyboard.press("?");
    assert.equal(await page.getByRole("dialog").count(), 0);
    await button(page, "Shortcuts ?").click();
    await letters.check();
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("m");
    await page.getByRole("heading", { name: "Measure", level: 1 }).waitFor();
    await end();
  });

  test(`the menu of a small screen, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/live", { viewport: { width: 360, height: 740 }, hasTouch: true });
    const menu = button(page, "Menu");
    assert.equal(await page.getByRole("link", { name: "Formats" }).isVisible(), false);
    await menu.click();
    assert.equal(await menu.getAttribute("aria-expanded"), "true");
    await page.getByRole("link", { name: "Formats" }).click();
    await page.getByRole("heading", { name: "Formats", level: 1 }).waitFor();
    assert.equal(await menu.getAttribute("aria-expanded"), "false");
    await end();
  });

  test(`Live: the table as CSV, the splitter, views and speeds, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/live");
    await page.getByRole("row", { name: /echo/ }).first().click();
    const { name, path } = await saved(page, () => button(page, "CSV").click());
    assert.equal(name, "exchanges.csv");
    assert.match(await readFile(path, "utf8"), /^id,time,key,[^]*,echo,chat,scripted,done,,calc,,2,0,1,/);
    const splitter = page.getByRole("separator", { name: "Size of the list" });
    const size = Number(await splitter.getAttribute("aria-valuenow"));
    await splitter.press("ArrowDown");
    assert.equal(Number(await splitter.getAttribute("aria-valuenow")), size + 5);
    const wire = page.getByRole("table", { name: "Events" });
    await page.getByRole("tab", { name: "Overview" }).press("ArrowRight");
    await wire.waitFor();
    await page.getByRole("tab", { name: "Aligned" }).press("ArrowRight");
    await page.getByText(/\d client calls?, \d hosted, held/).waitFor();
    await page.getByRole("tab", { name: "Raw" }).click();
    await page.getByRole("region", { name: "Upstream" }).getByText("chat.completion.chunk").first().waitFor();
    await page.getByRole("tab", { name: "Aligned" }).click();
    await page.getByLabel("Replay").fill("1");
    await page.getByText(/^event 1\//).waitFor();
    await wire.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.getByText(/^event 3\//).waitFor();
    await page.getByLabel("Speed").selectOption("16×");
    await page.keyboard.press("Space");
    await page.getByText(/^event (\d+)\/\1,/).waitFor();
    await button(page, "‹ Close").click();
    await wire.waitFor({ state: "detached" });
    await end();
  });

  test(`Formats: formats, declared tools, samples and the taught prompt, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/formats");
    await page.getByText("opener of hermes").waitFor();
    await page.getByLabel("Samples").selectOption("pre");
    await page.getByText("opener of pre").waitFor();
    await page.getByRole("combobox", { name: "Format" }).selectOption("pre");
    const tools = page.getByLabel("Tools", { exact: false });
    await tools.fill('[{"type": "function", "function": {"name": "get_weather", "description": "Says <b>how</b> it is", "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}}}]');
    const taught = page.getByRole("region", { name: "Taught prompt" });
    await taught.getByText("Says <b>how</b> it is").waitFor();
    await taught.getByText("town").waitFor();
    await page.getByText(/about \d+ tokens/).waitFor();
    await button(page, "Copy prompt").click();
    await page.getByText("Copied", { exact: true }).waitFor();
    assert.match(await clipboard(page), /get_weather/);
    await tools.fill('[{"type": "function"');
    await page.getByText("Not JSON").waitFor();
    assert.equal(await tools.getAttribute("aria-invalid"), "true");
    await tools.fill("web_search");
    await page.getByText("Not JSON").waitFor({ state: "detached" });
    await page.getByRole("tab", { name: "chat", exact: true }).press("ArrowRight");
    await page.getByRole("tabpanel").getByText("response.output_text.delta").first().waitFor();
    await button(page, "Share").click();
    await page.getByText("Link copied").waitFor();
    assert.equal(await clipboard(page), page.url());
    await end();
  });

  test(`Formats: a text that is not read, and the format that reads it, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/formats");
    const text = page.getByLabel("Model output");
    await text.fill('Action: get_weather\nAction Input: {"city": "Oslo"}');
    await page.getByRole("heading", { name: "It is react" }).waitFor();
    await page.getByText("The request declares no tool get_weather.").waitFor();
    await button(page, "Copy the lines").click();
    assert.match(await clipboard(page), /^detect = \["react"\]$/m);
    await page.getByText(/^Why it is none of \d+ other formats$/).click();
    await page.getByText("hermes: there is no", { exact: false }).waitFor();
    await button(page, "Read it so").click();
    await page.getByText("opener of react").waitFor();
    assert.equal(await page.getByRole("combobox", { name: "Format" }).inputValue(), "react");
    await end();
  });

  test(`Tools: the search, JSON in place of a form, curl, and yes to all, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/tools/calc");
    await page.getByLabel("expression").fill("1+1");
    await button(page, "Edit as JSON").click();
    const text = page.getByLabel("Arguments of calc as JSON");
    assert.match(await text.inputValue(), /"expression": "1\+1"/);
    await text.fill('{"expression": "6*7", "digits": 2}');
    await button(page, "Edit as JSON").click();
    assert.equal(await page.getByLabel("digits").inputValue(), "2");
    await button(page, "Copy as curl").click();
    await page.getByText("Copied", { exact: true }).waitFor();
    assert.match(await clipboard(page), /^curl -X POST '[^']*\/admin\/tools\/calc\/run'[^]*\{"input":\{"expression":"6\*7","digits":2\}\}/);
    await button(page, "Run").click();
    await page.getByText("42", { exact: true }).waitFor();
    await page.getByText("Schema", { exact: true }).click();
    await page.getByRole("tree", { name: "Schema" }).getByText("What to evaluate").waitFor();
    await page.getByRole("link", { name: /^calc on/ }).waitFor();
    await page.getByLabel("Find a tool").fill("echo");
    await page.getByRole("navigation", { name: "Tools" }).getByRole("link", { name: /^calc/ }).first().waitFor({ state: "detached" });
    await page.getByRole("link", { name: /^files__echo/ }).click();
    await page.getByRole("heading", { name: "files__echo" }).waitFor();
    await page.goto(`${own.url}#/tools`);
    // A dialog that closes has no role any more, but still a label.
    const all = page.getByRole("switch", { name: "Answer all questions with yes" });
    await all.click();
    const asked = page.getByRole("dialog", { name: "Answer all questions with yes?" });
    await button(asked, "Keep asking").click();
    await asked.waitFor({ state: "detached" });
    assert.equal(await all.isChecked(), false);
    await all.click();
    await button(asked, "Answer all with yes").click();
    await page.getByText("All questions are answered with yes").waitFor();
    await all.uncheck();
    await page.getByText("Questions are asked again").waitFor();
    await end();
  });

  test(`Settings: groups, the search, and changes that are discarded, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/settings");
    await page.getByRole("link", { name: /^models\.echo/ }).click();
    await page.getByText("upstream", { exact: true }).waitFor();
    await page.getByRole("link", { name: /^upstreams\.scripted/ }).click();
    await page.getByText("dialect", { exact: true }).waitFor();
    await page.getByRole("link", { name: /^execution/ }).click();
    const field = page.getByLabel("max_rounds", { exact: true });
    const before = await field.inputValue();
    await field.fill("3");
    await page.getByText("1 unsaved change").waitFor();
    await button(page, "Discard").click();
    assert.equal(await page.getByLabel("max_rounds", { exact: true }).inputValue(), before);
    await page.getByLabel("Find a setting").fill("max_results");
    await page.getByLabel("providers.serper.max_results").waitFor();
    await end();
  });

  test(`Measure: windows, rows and copies, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/measure");
    await page.getByRole("rowheader", { name: "echo" }).waitFor();
    await page.getByLabel("Window").selectOption("last 15 minutes");
    await page.waitForURL(/window=15m/);
    await page.getByRole("combobox", { name: "by", exact: true }).selectOption("upstream");
    await page.getByRole("rowheader", { name: "scripted" }).waitFor();
    await button(page, "Copy as JSON").click();
    await page.getByText("Copied", { exact: true }).waitFor();
    assert.equal(JSON.parse(await clipboard(page)).by, "upstream");
    const { name, path } = await saved(page, () => button(page, "CSV").click());
    assert.equal(name, "measure.csv");
    assert.match(await readFile(path, "utf8"), /^upstream,Requests,[^]*\r\nscripted,/);
    await page.getByRole("rowheader", { name: "scripted" }).getByRole("link").click();
    await page.waitForURL(/#\/live\?q=upstream%3Ascripted/);
    await page.getByRole("row", { name: /echo/ }).first().waitFor();
    await end();
  });

  test(`Playground: the end of a long answer, and a chat anew, ${colorScheme}`, async () => {
    const { page, end } = await visit("#/play");
    await live(page);
    await page.getByLabel("Theme of the chat").selectOption("dark");
    assert.equal(await page.locator(".column").evaluate((column) => getComputedStyle(column).backgroundColor), "rgb(18, 21, 24)");
    await page.getByLabel("Theme of the chat").selectOption("plain");
    await page.getByLabel("Message", { exact: true }).fill(`a long one\n\n${"and a paragraph\n\n".repeat(60)}`);
    await button(page, "Send").click();
    await page.getByRole("link", { name: "open in Live" }).waitFor();
    await page.mouse.wheel(0, -100_000);
    const down = button(page, "Go to the end");
    await down.waitFor();
    await down.click();
    await down.waitFor({ state: "hidden" });
    await page.waitForFunction(() => innerHeight + scrollY >= document.documentElement.scrollHeight - 24);
    await button(page, "New chat").click();
    await page.getByText("Begin with a message").waitFor();
    await page.getByRole("link", { name: /^a long one/ }).click();
    await page.getByRole("link", { name: "open in Live" }).waitFor();
    await end();
  });
}
