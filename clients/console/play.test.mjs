// The Playground, with a real toolwire and a scripted model.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { live, saved, visit as visitPage } from "./browser.mjs";
import { browser, own } from "./session.mjs";
import { ask, stand } from "./stand.mjs";

async function visit(client, options) {
  const visited = await visitPage(browser, `${own.url}#/play`, options);
  await visited.page.getByText("Begin with a message").waitFor();
  await visited.page.getByLabel("Client dialect").selectOption(client);
  return visited;
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
    // The first half is rendered as Markdown while the model holds back the second.
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
  // After a reload, it is one of the saved chats.
  await page.reload();
  await page.getByRole("listitem").getByText("the second half").waitFor();
  assert.equal(await page.getByRole("navigation", { name: "Chats" }).getByRole("link").count(), 1);
  await page.getByRole("link", { name: "open in Live" }).click();
  await page.locator(".facts").getByText("console", { exact: true }).waitFor();
  await end();
});

// Opens a page in which the models are not listed before `release` is called.
async function visitUnlisted() {
  const visited = await visit("chat");
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  await visited.page.route("**/admin/models", async (route) => {
    await isReleased;
    await route.continue();
  });
  await visited.page.reload();
  return { ...visited, release };
}

test("a message that is sent before the models are listed waits for them", async () => {
  const { page, end, release } = await visitUnlisted();
  await send(page, "Hello");
  // By then, the message would have been sent.
  await page.waitForTimeout(300);
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "Hello");
  release();
  await page.locator(".turn-model strong").getByText("Hello").waitFor();
  await end();
});

test("a name that is typed while the models are listed stays as it is typed", async () => {
  const { page, end, release } = await visitUnlisted();
  const model = page.getByLabel("Model", { exact: true });
  await model.focus();
  release();
  await page.locator("datalist option").first().waitFor({ state: "attached" });
  // By then, a model would have been chosen.
  await page.waitForTimeout(100);
  assert.equal(await model.inputValue(), "");
  await model.fill("fast");
  await model.fill("");
  await page.getByLabel("Message", { exact: true }).focus();
  assert.equal(await model.inputValue(), "echo", "an empty field gets a model that answers");
  await end();
});

test("a browser whose database does not answer keeps no chats, and says so", async (t) => {
  const context = await browser.newContext({ reducedMotion: "reduce" });
  t.after(() => context.close());
  const page = await context.newPage();
  await page.addInitScript(() => (IDBFactory.prototype.open = () => new EventTarget()));
  await page.goto(`${own.url}#/play`);
  const sent = async (text) => {
    await send(page, text);
    await page.locator(".turn-model strong").getByText(text).waitFor();
    await page.getByRole("link", { name: "open in Live" }).last().waitFor();
  };
  await sent("Hello");
  const toast = (text) => page.locator(".toasts").getByText(text);
  await toast("The chats of this browser cannot be read").waitFor();
  await toast("The chat cannot be kept in this browser").waitFor();
  await sent("Hi again");
  assert.equal(await page.locator(".turn-model").count(), 2);
  await page.reload();
  await send(page, "And now");
  await toast("This chat is not kept in this browser").waitFor();
  await page.locator(".turn-model strong").getByText("And now").waitFor();
  assert.equal(await page.locator(".turn-user").count(), 1);
  await page.getByRole("link", { name: "open in Live" }).waitFor();
});

test("a double click sends a message once, and does not stop it", async () => {
  const { page, end } = await visit("chat");
  await page.getByLabel("Message", { exact: true }).fill("only once");
  await page.getByRole("button", { name: "Send" }).dblclick();
  await page.locator(".turn-model strong").getByText("only once").waitFor();
  await page.getByRole("link", { name: "open in Live" }).waitFor();
  assert.equal(await page.locator(".turn-user").count(), 1);
  assert.equal(await page.locator(".compose .wrong").isVisible(), false);
  await end();
});

test("the time of a running call runs, and Stop ends it", async (t) => {
  const slow = await stand({ seconds: 60 });
  t.after(() => slow.close());
  const { page, end } = await visitPage(browser, `${slow.url}#/play`, { reducedMotion: "no-preference" });
  await send(page, "please calc");
  const card = page.locator("details.card");
  await card.getByText("running", { exact: true }).waitFor();
  const time = card.locator("summary .push");
  const first = await time.textContent();
  await page.waitForFunction((before) => document.querySelector("details.card summary .push").textContent !== before, first);
  assert.equal(await card.locator(".glyph").evaluate((glyph) => glyph.getAnimations().length), 1);
  await page.getByRole("button", { name: "Stop" }).click();
  await card.getByText("stopped", { exact: true }).waitFor();
  await end();
});

test("arguments of a hosted call are shown as they are written", async () => {
  const release = own.hold();
  const { page, end } = await visit("messages", { reducedMotion: "no-preference" });
  await send(page, "calc slowly");
  const card = page.locator(".called");
  await card.getByText("arguments arrive", { exact: true }).waitFor();
  assert.equal(await card.locator(".tail").textContent(), '{"expression":');
  assert.equal(await card.getByRole("button", { name: "Cancel", includeHidden: true }).isVisible(), false, "it does not run yet");
  await card.locator("summary").click();
  assert.equal(await card.getByRole("region", { name: "Arguments" }).textContent(), '{"expression":');
  release();
  await card.getByText("ok", { exact: true }).waitFor();
  assert.match(await card.textContent(), /calc.*\{"expression":"6\*7"\}/s);
  assert.equal(await card.count(), 1);
  await page.getByRole("link", { name: "open in Live" }).waitFor();
  await end();
});

test("a model of a wildcard is chosen, and any other name can be typed", async (t) => {
  const any = await stand({ models: '[[models]]\nname = "*"\nupstream = "scripted"\n' });
  t.after(() => any.close());
  const { page, end } = await visitPage(browser, `${any.url}#/play`);
  const model = page.getByLabel("Model", { exact: true });
  await page.waitForFunction(() => document.querySelector("input[list]")?.value === "fast");
  assert.deepEqual(await page.locator("datalist option").evaluateAll((all) => all.map(({ value, label }) => [value, label])), [["fast", "scripted"], ["echo", "scripted"]]);
  // What has answered comes first.
  await ask(any, "Hello");
  await page.reload();
  await page.waitForFunction(() => document.querySelector("input[list]").value === "echo");
  await model.fill("of no list");
  await page.getByLabel("Message", { exact: true }).fill("Hi");
  await page.keyboard.press("Enter");
  await page.locator(".turn-model strong").getByText("Hi").waitFor();
  await end();
});

test("a model whose upstream is dead is not chosen", async (t) => {
  const dead = '[[upstreams]]\nname = "dead"\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n[[models]]\nname = "aaa"\nupstream = "dead"\n';
  const half = await stand({ models: `${dead}[[models]]\nname = "echo"\nupstream = "scripted"\n` });
  t.after(() => half.close());
  const { page, end } = await visitPage(browser, `${half.url}#/play`);
  await page.waitForFunction(() => document.querySelector("input[list]").value === "echo");
  assert.deepEqual(await page.locator("datalist option").evaluateAll((all) => all.map(({ label }) => label)), ["dead does not answer", "scripted"]);
  await end();
});

test("why no model is listed is said before the first message", async (t) => {
  const dead = '[[upstreams]]\nname = "dead"\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n[[models]]\nname = "*"\nupstream = "dead"\n';
  const none = await stand({ models: dead });
  t.after(() => none.close());
  const { page, end } = await visitPage(browser, `${none.url}#/play`);
  await page.getByText(/^upstream `dead` does not list its models: .*refused.*\. Type a model's name above\.$/).waitFor();
  await end();
});

test("Enter is always answered", async () => {
  const release = own.hold();
  const { page, end } = await visit("chat");
  const [model, message] = [page.getByLabel("Model", { exact: true }), page.getByLabel("Message", { exact: true })];
  const hint = (text) => page.locator(".compose").getByText(text).waitFor();
  await message.press("Enter");
  await hint("Write a message first.");
  await model.fill("");
  await message.fill("say it slowly");
  await message.press("Enter");
  await hint("Choose a model first.");
  assert.equal(await model.evaluate((field) => field === document.activeElement), true);
  assert.equal(await model.getAttribute("aria-invalid"), "true");
  await model.fill("gpt-typo");
  await message.press("Enter");
  await hint("There is no model of this name");
  await model.fill("echo");
  assert.equal(await page.locator(".compose .wrong").isVisible(), false);
  await message.press("Enter");
  await page.locator(".turn-model strong").getByText("say it slowly").waitFor();
  await message.fill("more");
  await message.press("Enter");
  await hint("The answer is not complete yet");
  assert.equal(await message.inputValue(), "more");
  release();
  await page.getByRole("link", { name: "open in Live" }).waitFor();
  await end();
});

test("it moves while a model thinks", async () => {
  const release = own.hold();
  const { page, end } = await visit("chat", { reducedMotion: "no-preference" });
  await send(page, "be late");
  const wait = page.locator(".turn-model .pulse");
  await wait.getByText("Waiting for echo").waitFor();
  assert.equal(await wait.locator(".glyph").evaluate((glyph) => glyph.getAnimations().length), 1);
  const first = await wait.textContent();
  await page.waitForFunction((before) => document.querySelector(".pulse")?.textContent !== before, first);
  release();
  await page.locator(".turn-model strong").getByText("be late").waitFor();
  await page.getByRole("link", { name: "open in Live" }).waitFor();
  assert.equal(await wait.count(), 0);
  await end();
});

test("found pages are titles with links", async () => {
  const { page, end } = await visit("chat");
  await send(page, "find it");
  const card = page.locator("details.card");
  await card.getByText("ok", { exact: true }).waitFor();
  await card.locator("summary").click();
  const link = card.getByRole("link", { name: "Rust <b>1.95</b>" });
  assert.equal(await link.getAttribute("href"), "https://rust.example/");
  assert.equal(await link.getAttribute("rel"), "noopener noreferrer");
  await card.getByText("As JSON").click();
  await card.getByRole("tree", { name: "As JSON" }).getByText("results", { exact: true }).waitFor();
  await end();
});

test("a limit says when it ends, and a failure its status", async () => {
  const { page, end } = await visit("chat");
  await send(page, "limit");
  const again = page.locator(".note").getByRole("button");
  await again.getByText(/^Try again in [67] s$/).waitFor();
  assert.equal(await again.isDisabled(), true);
  await again.getByText(/^Try again in [1-5] s$/).waitFor();
  await page.getByText("Wait a moment.", { exact: false }).waitFor();
  await again.getByText("Try again", { exact: true }).waitFor();
  assert.equal(await again.isDisabled(), false);
  await send(page, "crash");
  const note = page.locator(".note").last();
  await note.getByText("The upstream answered with an error.").waitFor();
  await note.getByText("CUDA out of memory").waitFor();
  await note.getByText("status 500").waitFor();
  assert.match(await note.getByRole("link", { name: "See what was sent" }).getAttribute("href"), /^#\/live\/ex_/);
  await end();
});

test("a running call is cancelled, and the model goes on", async (t) => {
  const slow = await stand({ seconds: 60 });
  t.after(() => slow.close());
  const { page, end } = await visitPage(browser, `${slow.url}#/play`);
  await send(page, "please calc");
  const card = page.locator(".called");
  await card.getByText("running", { exact: true }).waitFor();
  await card.getByRole("button", { name: "Cancel" }).click();
  await card.getByText("cancelled", { exact: true }).waitFor();
  await page.locator(".turn-model strong").getByText("A person cancelled the call.").waitFor();
  await page.getByRole("link", { name: "open in Live" }).waitFor();
  assert.equal(await card.getByRole("button", { name: "Cancel" }).isVisible(), false);
  // The same in Tools.
  await page.goto(`${slow.url}#/tools/calc`);
  await page.getByLabel("expression").fill("1+1");
  await page.getByRole("button", { name: "Run" }).click();
  const run = page.locator(".called");
  await run.getByText("running", { exact: true }).waitFor();
  const time = await run.locator("summary .push").textContent();
  await page.waitForFunction((before) => document.querySelector(".called summary .push").textContent !== before, time);
  await run.getByRole("button", { name: "Cancel" }).click();
  await run.getByText("stopped", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Run" }).isEnabled(), true);
  await end();
});

test("an answer that is stopped ends at once", async () => {
  const release = own.hold();
  const { page, end } = await visit("chat");
  await send(page, "say it slowly");
  await page.locator(".turn-model strong").getByText("say it slowly").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("You stopped it.").waitFor();
  assert.equal(await page.locator(".note, [role=alert]").count(), 0, "the user's own wish is no error");
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
  const { page, end } = await visit("messages", { colorScheme: "dark" });
  await send(page, "please calc");
  await page.locator(".turn-model strong").getByText("42").waitFor();
  await page.getByRole("link", { name: "open in Live" }).waitFor();
  const exported = async (kind) => {
    const { name, path } = await saved(page, () => page.getByLabel("Export", { exact: true }).selectOption(kind));
    return { name, bytes: await readFile(path), text: await readFile(path, "utf8") };
  };
  assert.match((await exported("Markdown")).text, /^# please calc\n\n## You\n\nplease calc\n\n## echo\n[^]*Tool `calc`[^]*You said: \*\*42\*\*/);
  const { turns } = JSON.parse((await exported("JSON")).text);
  assert.deepEqual(turns.map(({ role }) => role), ["user", "model"]);
  const table = await exported("CSV");
  assert.match(table.name, /^c_.*\.csv$/);
  assert.match(table.text, /^turn,role,model,kind,.*\r\n1,user,,text,,please calc,.*\r\n2,model,echo,call,calc,"\{""expression"":""6\*7""\}",42,/);
  const fixture = await exported("Fixture");
  assert.match(fixture.name, /^ex_.*\.tar$/);
  assert.equal(fixture.bytes.subarray(257, 262).toString(), "ustar");
  for (const [language, expected] of [["curl", /^curl -N '[^']*\/v1\/messages'[^]*Bearer \$TOOLWIRE_API_KEY/], ["Python", /^import os\nfrom anthropic/], ["TypeScript", /^import Anthropic from[^]*process\.env\.TOOLWIRE_API_KEY/]]) {
    await page.getByRole("combobox", { name: "Code", exact: true }).selectOption(language);
    const dialog = page.getByRole("dialog", { name: "The same request" });
    await dialog.getByLabel("Base URL").fill("https://ai.example");
    await dialog.getByRole("button", { name: "Copy" }).click();
    await page.getByText("Copied", { exact: true }).first().waitFor();
    const code = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(code, expected);
    assert.match(code, /https:\/\/ai\.example/);
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "detached" });
  }
  await end();
});

test("images are made by a command, and paged through", async () => {
  const { page, end } = await visit("chat");
  await send(page, "/generate-image a red crab");
  const carousel = page.locator("tw-carousel");
  await carousel.getByText("1 / 2").waitFor();
  const shown = () => carousel.locator(".slide.shown img");
  const first = await shown().getAttribute("src");
  await shown().evaluate((image) => image.decode());
  assert.match(first, /\/api\/images\/[\w.-]+\.png$/);
  await carousel.getByRole("button", { name: "Next image" }).click();
  await carousel.getByText("2 / 2").waitFor();
  const second = await shown().getAttribute("src");
  assert.notEqual(second, first);
  const { path } = await saved(page, () => carousel.getByRole("link", { name: "Download" }).click());
  assert.equal((await readFile(path)).subarray(1, 4).toString(), "PNG");
  // The carousel wraps around at both ends, with buttons and with keys.
  await carousel.getByRole("button", { name: "Next image" }).click();
  await carousel.getByText("1 / 2").waitFor();
  await page.keyboard.press("ArrowLeft");
  await carousel.getByText("2 / 2").waitFor();
  await page.getByLabel("Theme of the chat").selectOption("parchment");
  const seal = carousel.getByRole("button", { name: "Next image" });
  assert.deepEqual(await seal.evaluate((button) => { const { borderRadius, backgroundImage, width } = getComputedStyle(button); return [borderRadius, backgroundImage.split("(")[0], width]; }), ["50%", "radial-gradient", "44px"]);
  assert.deepEqual(await page.locator(".parchment .chat").evaluate((chat) => { const { border, backgroundImage, width } = getComputedStyle(chat); return [border, backgroundImage, parseFloat(width) <= 600]; }), ["4px double rgb(125, 90, 61)", "linear-gradient(135deg, rgb(245, 238, 225), rgb(235, 225, 210))", true]);
  await page.reload();
  await page.locator("tw-carousel").getByText("1 / 2").waitFor();
  await page.getByLabel("Theme of the chat").selectOption("plain");
  await end();
});

test("a single image has no arrows, and one that is gone says so", async () => {
  const { page, end } = await visit("chat", { allowed: /status of 404/ });
  await send(page, "one\n\n![alone](/api/images/20261123_081500_0123456789abcdef0123456789abcdef.png)\n\nof them");
  await page.locator("tw-carousel").getByText("This image has expired.").waitFor();
  assert.equal(await page.locator("tw-carousel button").count(), 0);
  await end();
});

test("a question of a chat is answered in place", async (t) => {
  const asking = await stand({ permission: "ask" });
  t.after(() => asking.close());
  for (const [colorScheme, given, result] of [["light", "Allow once", "42"], ["dark", "Deny", "denied"]]) {
    const { page, end } = await visitPage(browser, `${asking.url}#/play`, { colorScheme });
    await live(page);
    await send(page, "please calc");
    const card = page.locator("details.card");
    await card.getByText("waits for permission").waitFor();
    await page.locator(".question").getByRole("button", { name: "Review" }).click();
    await page.locator("dialog button:not([aria-disabled])").filter({ hasText: given }).click();
    await page.getByRole("link", { name: "open in Live" }).waitFor();
    await card.getByText(result === "42" ? "ok" : "denied", { exact: true }).waitFor();
    if (result === "42") await page.locator(".turn-model strong").getByText("42").waitFor();
    await end();
  }
});

test("a server's question during a call is answered in place", async () => {
  for (const [given, said, result] of [["Send", "ok", "accept seven"], ["Decline", "ok", "decline undefined"]]) {
    const { page, end } = await visitPage(browser, `${own.url}#/play`);
    await live(page);
    await send(page, "please enquire");
    const card = page.locator("details.card");
    await card.getByText("waits for an answer").waitFor();
    await page.locator(".question").getByRole("button", { name: "Review" }).click();
    const dialog = page.getByRole("dialog");
    assert.ok((await dialog.textContent()).includes("Which <b>one</b>?"));
    await dialog.getByLabel(/^name/).fill("seven");
    await page.locator("dialog button:not([aria-disabled])").filter({ hasText: given }).click();
    await card.getByText(said, { exact: true }).waitFor();
    await page.locator(".turn-model strong").getByText(result).waitFor();
    await end();
  }
});

test("a server's prompt is filled in, and becomes the message", async () => {
  const { page, end } = await visitPage(browser, `${own.url}#/play`);
  await page.getByRole("button", { name: "Prompts" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Prompt").selectOption({ label: "files: Greet <b>somebody</b>" });
  await dialog.getByRole("button", { name: "Use" }).click();
  await dialog.getByText("This is required").waitFor();
  await dialog.getByLabel(/^who/).fill("the \"crabs\"");
  await dialog.getByRole("button", { name: "Use" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), 'Say hello to the "crabs"');
  await page.getByRole("button", { name: "Prompts" }).click();
  await page.getByRole("dialog").getByLabel("Prompt").selectOption({ label: "files: plain" });
  await page.getByRole("dialog").getByRole("button", { name: "Use" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "plain text");
  await end();
});

test("a question that arrives while the list of questions is on its way is not lost", async (t) => {
  const asking = await stand({ permission: "ask" });
  t.after(() => asking.close());
  const { page, end } = await visitPage(browser, `${asking.url}#/play`);
  let release;
  const isReleased = new Promise((resolve) => (release = resolve));
  const list = new Promise((resolve) => page.route("**/admin/permissions", async (route) => {
    const response = await route.fetch();
    await isReleased;
    await route.fulfill({ response });
    resolve();
  }, { times: 1 }));
  await page.reload();
  await live(page);
  await send(page, "please calc");
  await page.locator(".question").getByRole("button", { name: "Review" }).waitFor();
  release();
  await list;
  // By then, the outdated list would have been shown.
  await page.waitForTimeout(300);
  await page.locator(".question").getByRole("button", { name: "Review" }).click({ timeout: 5000 });
  await page.locator("dialog button:not([aria-disabled])").filter({ hasText: "Allow once" }).click();
  await page.locator("details.card").getByText("ok", { exact: true }).waitFor();
  await end();
});
