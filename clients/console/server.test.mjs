// The page with toolwire itself behind it: signing in, tools, settings, questions, prefixes, and a server that goes away.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { open } from "./browser.mjs";
import { stand } from "./stand.mjs";

const KEY = "admin-key-that-nobody-may-see";
let browser;

before(async () => {
  browser = await open(chromium);
});

after(() => browser?.close());

async function visit(own, hash) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce" });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => message.type() === "error" && !/status of 4(0[14]|22)|ERR_/.test(message.text()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.stack));
  await page.goto(own.url + hash);
  return {
    page,
    context,
    async end() {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}

test("a session begins and ends in place, behind a prefix that is stripped", async (t) => {
  const own = await stand({ key: KEY, prefix: "/tools/x" });
  t.after(() => own.close());
  const { page, context, end } = await visit(own, "#/settings/providers.serper");
  const field = page.getByLabel("Admin key");
  await field.fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("The key is not valid.").waitFor();
  await field.fill(KEY);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("api_key").waitFor();
  await page.locator(".rail .end .state").getByText("Live").waitFor();
  const cookies = await context.cookies();
  assert.ok(cookies.every(({ name, httpOnly, sameSite, path }) => name.startsWith("toolwire_") && httpOnly && sameSite === "Strict" && path.startsWith("/tools/x/")), JSON.stringify(cookies));
  assert.ok(!(await page.content()).includes(KEY), "the key of the provider is the admin key here");
  assert.equal(await page.getByLabel("api_key").inputValue(), "");
  await page.getByLabel("max_results").fill("7");
  await page.getByRole("button", { name: "Sign out" }).click();
  await field.waitFor();
  await field.fill(KEY);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("1 unsaved change").waitFor();
  assert.equal(await page.getByLabel("max_results").inputValue(), "7", "a draft outlives the session");
  await end();
});

test("settings are saved, refused and reset", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/settings/providers.serper");
  const field = page.getByLabel("max_results");
  await field.fill("700");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.locator(".setting .wrong").waitFor();
  await field.fill("7");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Reset providers.serper.max_results" }).waitFor();
  await page.getByRole("button", { name: "Reset to defaults" }).click();
  await page.getByRole("button", { name: "Forget them" }).click();
  await page.getByText("Nothing is saved here").waitFor();
  await page.getByRole("button", { name: "Test" }).click();
  await page.getByText(/cannot be reached|is valid|rejected/).waitFor();
  await page.getByRole("button", { name: "Reload the file" }).click();
  await page.getByText("The file was loaded").waitFor();
  await end();
});

test("a tool is switched, tried, and asked for", async (t) => {
  const own = await stand({ permission: "ask" });
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/tools/calc");
  await page.getByLabel("expression").fill("6*7");
  await page.getByLabel("digits").fill("many");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("A whole number").waitFor();
  await page.getByLabel("digits").fill("");
  await page.locator(".rail .end .state").getByText("Live").waitFor();
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".question").getByRole("button", { name: "Review" }).click();
  await page.getByText("6*7").waitFor();
  await page.waitForTimeout(600);
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.getByText("42").waitFor();
  const on = page.getByRole("switch", { name: "On" });
  await on.uncheck();
  await page.getByRole("link", { name: "calc off" }).waitFor();
  await end();
});

test("an upstream is measured from the page", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/measure");
  const upstream = page.locator("input[list]");
  await upstream.fill("nobody");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("it has scripted").waitFor();
  await upstream.fill("scripted");
  await page.getByLabel("Streams").fill("3");
  await page.getByLabel("Tokens").fill("20");
  await page.getByText("about 60 tokens").waitFor();
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("3 of 3 streams are complete").waitFor();
  await page.reload();
  await page.getByText("3 of 3 streams are complete").waitFor();
  await page.getByText("Last report").click();
  await page.getByText(/^"?targets"?/).first().waitFor();
  await end();
});

test("the sample of an empty list is shown event by event", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/live");
  await page.getByText("No requests yet").waitFor();
  await page.getByRole("button", { name: "Send a sample request" }).click();
  await page.getByRole("button", { name: "‹ Close" }).waitFor();
  await page.getByText("get_weather").first().waitFor();
  await page.getByRole("row", { name: /sample/ }).first().waitFor();
  await page.getByText("_call>").first().waitFor();
  await end();
});

test("requests appear while they run, and the page comes back after the server", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/live");
  await page.getByText("No requests yet").waitFor();
  await page.locator(".rail .end .state").getByText("Live").waitFor();
  const ask = () => fetch(`${own.direct}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ model: "echo", stream: true, messages: [{ role: "user", content: "please calc" }] }) }).then((response) => response.text());
  assert.match(await ask(), /42/);
  const row = page.getByRole("row", { name: /echo/ });
  await row.waitFor();
  await row.click();
  await page.getByRole("button", { name: "‹ Close" }).waitFor();
  own.state.isDown = true;
  own.drop();
  await page.locator(".rail .end .state").getByText("Reconnecting").waitFor();
  own.state.isDown = false;
  await page.locator(".rail .end .state").getByText("Live", { exact: true }).waitFor();
  await end();
});
