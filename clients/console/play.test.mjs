// The Playground with toolwire itself and a scripted model behind it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { open } from "./browser.mjs";
import { stand } from "./stand.mjs";

let browser, own;

before(async () => {
  browser = await open(chromium);
  own = await stand();
});

after(async () => {
  await browser?.close();
  await own?.close();
});

async function visit(client) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"] });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.stack));
  await page.goto(`${own.url}#/play`);
  await page.getByText("Begin with a message").waitFor();
  await page.getByLabel("Client dialect").selectOption(client);
  return {
    page,
    async end() {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}

async function send(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

for (const client of ["chat", "responses", "messages"]) {
  test(`an answer streams, with reasoning and a call, as ${client}`, async () => {
    const release = own.hold();
    const { page, end } = await visit(client);
    await send(page, "think, and say it slowly");
    // The first half is there as Markdown while the second waits.
    await page.locator(".turn-model strong").getByText("think, and say it slowly").waitFor();
    assert.equal(await page.locator(".turn-model li").count(), 0);
    const reasoning = page.locator("details.reasoning");
    assert.equal(await reasoning.evaluate((details) => details.open), false, "reasoning is folded");
    await reasoning.locator("summary").click();
    await reasoning.getByText("First I weigh it.").waitFor();
    release();
    await page.getByRole("listitem").getByText("the second half").waitFor();
    await page.getByRole("link", { name: "open in Live" }).waitFor();
    await send(page, "please calc");
    const card = page.locator("details.card");
    await card.getByText("ok", { exact: true }).waitFor();
    assert.match(await card.textContent(), /calc.*\{"expression":"6\*7"\}/s);
    await card.locator("summary").click();
    await card.getByRole("region", { name: "Result" }).getByText("42").waitFor();
    await page.locator(".turn-model strong").getByText("42").waitFor();
    await end();
  });
}

test("a page that is loaded again in the middle goes on with its answer", async () => {
  const release = own.hold();
  const { page, end } = await visit("chat");
  await send(page, "say it slowly");
  await page.locator(".turn-model strong").getByText("say it slowly").waitFor();
  await page.reload();
  await page.locator(".turn-model strong").getByText("say it slowly").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  release();
  await page.getByRole("listitem").getByText("the second half").waitFor();
  await page.getByRole("link", { name: "open in Live" }).waitFor();
  assert.equal(await page.locator(".turn-model").count(), 1);
  await page.getByRole("button", { name: "Send" }).waitFor();
  // Afterwards it is one of the chats that are kept.
  await page.reload();
  await page.getByRole("listitem").getByText("the second half").waitFor();
  assert.equal(await page.getByRole("navigation", { name: "Chats" }).getByRole("link").count(), 1);
  await page.getByRole("link", { name: "open in Live" }).click();
  await page.locator(".facts").getByText("console", { exact: true }).waitFor();
  await end();
});

test("an answer that is stopped ends at once", async () => {
  const release = own.hold();
  const { page, end } = await visit("chat");
  await send(page, "say it slowly");
  await page.locator(".turn-model strong").getByText("say it slowly").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("You stopped it.").waitFor();
  await page.getByRole("link", { name: "open in Live" }).click();
  await page.locator(".facts").getByText("Cancelled", { exact: false }).first().waitFor();
  release();
  await end();
});

test("an error of the model is a card", async () => {
  const { page, end } = await visit("chat");
  await send(page, "fail");
  await page.locator(".turn-model .note").getByText("<b>really</b>").waitFor();
  await send(page, "Hello");
  await page.locator(".turn-model strong").getByText("Hello").waitFor();
  await end();
});

test("a chat is exported, and its code copied", async () => {
  const { page, end } = await visit("messages");
  await send(page, "please calc");
  await page.locator(".turn-model strong").getByText("42").waitFor();
  await page.getByRole("link", { name: "open in Live" }).waitFor();
  const exported = async (kind) => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByLabel("Export", { exact: true }).selectOption(kind)]);
    return readFile(await download.path(), "utf8");
  };
  assert.match(await exported("Markdown"), /^# please calc\n\n## You\n\nplease calc\n\n## echo\n[^]*Tool `calc`[^]*You said: \*\*42\*\*/);
  const { turns } = JSON.parse(await exported("JSON"));
  assert.deepEqual(turns.map(({ role }) => role), ["user", "model"]);
  await page.getByLabel("Code", { exact: true }).selectOption("curl");
  await page.getByRole("dialog").getByRole("button", { name: "Copy" }).click();
  await page.getByText("Copied", { exact: true }).waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /^curl -N '[^']*\/v1\/messages'/);
  assert.match(copied, /Bearer \$TOOLWIRE_API_KEY/);
  await end();
});
