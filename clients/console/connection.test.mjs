// The page's connection: several tabs, a server that crashes, a session that expires, and plain HTTP in a LAN.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { live, open, state } from "./browser.mjs";
import { ask, stand } from "./stand.mjs";

const KEY = "admin-key-that-nobody-may-see";
let browser;

before(async () => {
  browser = await open(chromium);
});

after(() => browser?.close());

async function signIn(page) {
  await page.getByLabel("Admin key").fill(KEY);
  await page.getByRole("button", { name: "Sign in" }).click();
  await live(page);
}

test("seven tabs share one feed, and another takes it over", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const context = await browser.newContext();
  const readers = [];
  context.on("request", (request) => request.url().endsWith("/admin/events") && readers.push(request.frame().page()));
  const pages = [];
  for (let at = 0; at < 7; at++) {
    const page = await context.newPage();
    await page.goto(`${own.url}#/live`);
    await live(page);
    pages.push(page);
  }
  assert.equal(readers.length, 1);
  assert.match(await ask(own, "Hello"), / said:/);
  for (const page of pages) await page.getByRole("row", { name: /echo/ }).waitFor();
  await readers[0].close();
  const rest = pages.filter((page) => page !== readers[0]);
  assert.equal(rest.length, 6);
  for (const page of rest) await live(page);
  assert.match(await ask(own, "Hello"), / said:/);
  for (const page of rest) await page.getByRole("row", { name: /echo/ }).nth(1).waitFor();
  assert.equal(readers.length, 2);
  await context.close();
});

test("a server that died and is back is found again", async (t) => {
  const own = await stand({ prefix: "/a/b" });
  t.after(() => own.close());
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${own.url}#/live`);
  await live(page);
  assert.match(await ask(own, "Hello"), / said:/);
  const row = page.locator(".item").filter({ hasText: "echo" });
  const before = await row.getAttribute("data-id");
  await own.kill();
  await state(page).getByText("Reconnecting").waitFor();
  await own.start();
  await state(page).getByRole("button", { name: "Now" }).click().catch(() => {});
  await live(page);
  assert.match(await ask(own, "Hello"), / said:/);
  // What the server no longer knows is gone.
  await page.waitForFunction((before) => {
    const rows = [...document.querySelectorAll(".item")];
    return rows.length === 1 && rows[0].dataset.id !== before;
  }, before);
  await context.close();
});

test("an expired session is renewed in place, with what was typed", async (t) => {
  const own = await stand({ key: KEY });
  t.after(() => own.close());
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${own.url}#/play`);
  await signIn(page);
  await page.getByLabel("Message", { exact: true }).fill("A question that took long to write");
  await context.clearCookies();
  own.drop();
  await page.getByLabel("Admin key").waitFor({ timeout: 60_000 });
  await state(page).getByText("Signed out").waitFor();
  await signIn(page);
  assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "A question that took long to write");
  await context.close();
});

test("over plain HTTP in a LAN the page works, and copies", async (t) => {
  const own = await stand({ key: KEY });
  t.after(() => own.close());
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${own.url.replace("127.0.0.1", "console.test")}#/live`);
  assert.deepEqual(await page.evaluate(() => [isSecureContext, navigator.clipboard, navigator.locks]), [false, undefined, undefined]);
  await signIn(page);
  await page.getByText("No requests yet").waitFor();
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByText("Copied", { exact: true }).waitFor();
  await page.getByLabel("Filter").focus();
  await page.keyboard.press("Control+V");
  assert.match(await page.getByLabel("Filter").inputValue(), /^curl -N 'http:\/\/console\.test/);
  await context.close();
});
