// The page with a real toolwire as the server: signing in, tools, settings, questions, path prefixes, and lost connections.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { authorization } from "./authorization.mjs";
import { live, open, saved, state, visit as visitPage } from "./browser.mjs";
import { ask, stand } from "./stand.mjs";

const KEY = "admin-key-that-nobody-may-see";
let browser;

before(async () => {
  browser = await open(chromium);
});

after(() => browser?.close());

// Console messages that are expected: error statuses and lost connections.
const ALLOWED = /status of 4(0[0149]|22)|ERR_/;
const visit = (own, hash, options) => visitPage(browser, own.url + hash, { allowed: ALLOWED, ...options });

// Answers the open question, once its buttons are enabled.
const answer = (page, name) => page.locator("dialog button:not([aria-disabled])").filter({ hasText: new RegExp(`^${name}$`) }).click();

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
  await live(page);
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
  await page.locator(".setting .wrong:not([hidden])").waitFor();
  await field.fill("7");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Reset providers.serper.max_results" }).waitFor();
  await page.getByRole("button", { name: "Reset to the file…" }).click();
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
  await live(page);
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".question").getByRole("button", { name: "Review" }).click();
  await page.getByRole("dialog").getByText("6*7").waitFor();
  await answer(page, "Allow once");
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
  const upstream = page.getByRole("combobox", { name: "Upstream" });
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
  const command = page.getByRole("region", { name: "Command" });
  await command.getByText('"model":"echo"').waitFor();
  assert.doesNotMatch(await command.textContent(), /TOOLWIRE_API_KEY/, "no key is needed");
  assert.ok((await command.boundingBox()).y < 400, "it is at the top");
  await page.getByRole("button", { name: "Send a sample request" }).click();
  await page.getByRole("button", { name: "‹ Close" }).waitFor();
  await page.getByRole("region", { name: "What the client got" }).getByText("get_weather").waitFor();
  await page.getByRole("row", { name: /sample.*get_weather hermes/ }).first().waitFor();
  await page.getByRole("region", { name: "What the model was sent" }).locator("mark").first().waitFor();
  await page.getByRole("tab", { name: "Aligned" }).click();
  await page.getByText("_call>").first().waitFor();
  await end();
});

test("nothing runs on after a restart", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  own.hold();
  const { page, end } = await visit(own, "#/live");
  await live(page);
  const cut = ask(own, "say it slowly").catch(() => "cut");
  await page.getByRole("row", { name: /running.*echo/ }).waitFor();
  const running = page.locator(".figure").filter({ hasText: "running" });
  await running.filter({ hasText: /^1/ }).waitFor();
  await own.kill();
  await own.start();
  assert.equal(await cut, "cut");
  await page.getByRole("row", { name: /echo/ }).waitFor({ state: "detached" });
  await running.filter({ hasText: /^0/ }).waitFor();
  await page.locator(".rail .badge").waitFor({ state: "detached" });
  await end();
});

test("an exchange with a hosted call is shown, read again and sent again", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  await ask(own, "please calc");
  const { page, end } = await visit(own, "#/live");
  await page.getByRole("row", { name: /echo.*calc/ }).click();
  const calls = page.getByRole("group", { name: "Calls that toolwire ran after hop 1" });
  await calls.getByText("calc", { exact: true }).click();
  await calls.getByText('"6*7"', { exact: true }).waitFor();
  await calls.getByText("42").waitFor();
  await page.getByRole("region", { name: "What it wrote, hop 1" }).getByText('{"expression":"6*7"}').waitFor();
  await page.getByRole("button", { name: "Read again" }).click();
  await page.getByLabel("detect").fill("off");
  await page.getByRole("button", { name: "Read", exact: true }).click();
  await page.getByText("The first hop only").waitFor();
  await page.getByRole("button", { name: "Send again" }).click();
  const field = page.getByRole("textbox", { name: "Request" });
  await field.fill((await field.inputValue()).replace("please calc", "hello again"));
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.waitForURL(/with=ex_/);
  await page.getByRole("region", { name: /^What the client got in hop 1, ex_/ }).last().getByText("hello again").waitFor();
  await end();
});

test("requests appear while they run, and the page comes back after the server", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/live");
  await page.getByText("No requests yet").waitFor();
  await live(page);
  assert.match(await ask(own, "please calc"), /42/);
  const row = page.getByRole("row", { name: /echo/ });
  await row.waitFor();
  await row.click();
  await page.getByRole("button", { name: "‹ Close" }).waitFor();
  own.state.isDown = true;
  own.drop();
  await state(page).getByText("Reconnecting").waitFor();
  own.state.isDown = false;
  await live(page);
  await end();
});

test("an exchange is watched while it runs, event by event", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const release = own.hold();
  const { page, end } = await visit(own, "#/live", { colorScheme: "dark" });
  await live(page);
  const answered = ask(own, "say it slowly");
  await page.getByRole("row", { name: /echo.*chat < chat/ }).click();
  await page.getByRole("region", { name: "What the client got" }).getByText("**say").waitFor();
  await page.getByRole("region", { name: "What the model was sent" }).getByText("say it slowly").waitFor();
  await page.getByRole("tab", { name: "Aligned" }).click();
  const wire = page.getByRole("table", { name: "Events" });
  const facts = page.locator(".facts");
  await facts.getByText("running", { exact: true }).waitFor();
  // toolwire holds back the newest piece until it cannot be the start of a secret.
  await wire.getByText("**say").first().waitFor();
  assert.equal(await wire.getByText("second half").count(), 0, "the model waits");
  const seen = await page.getByLabel("Replay").getAttribute("max");
  const before = await page.locator("tw-list .wide.num").last().innerText();
  await page.waitForFunction((time) => [...document.querySelectorAll("tw-list .wide.num")].at(-1).innerText !== time, before);
  release();
  await wire.getByText("second half").first().waitFor();
  assert.match(await answered, /second half/);
  await facts.getByText("complete", { exact: true }).waitFor();
  await facts.getByText("stop", { exact: true }).waitFor();
  assert.ok(Number(await page.getByLabel("Replay").getAttribute("max")) > Number(seen));
  await end();
});

test("a paused list stays as it is", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/live");
  await live(page);
  await ask(own, "one");
  await page.getByRole("row", { name: /echo/ }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await ask(own, "two");
  await page.getByRole("button", { name: "Paused: show 1 new" }).waitFor();
  assert.equal(await page.getByRole("row", { name: /echo/ }).count(), 1);
  await page.getByRole("button", { name: "Paused: show 1 new" }).click();
  await page.getByRole("row", { name: /echo/ }).nth(1).waitFor();
  await end();
});

test("a key is tested before it is saved: a wrong one, a right one, and no server", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/settings/providers.serper");
  const field = page.getByLabel("api_key", { exact: true });
  const setting = page.locator(".setting").filter({ has: field });
  await field.fill("wrong-key");
  await setting.getByRole("button", { name: "Test" }).click();
  await setting.getByText("The provider rejected this key. Copy it again.").waitFor();
  await field.fill("right-key");
  await setting.getByRole("button", { name: "Test" }).click();
  await setting.getByText("The key is valid.").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Reset providers.serper.api_key" }).waitFor();
  assert.equal(await field.inputValue(), "", "what was saved is not shown");
  assert.ok(!(await page.content()).includes("right-key"));
  own.closeUpstream();
  await setting.getByRole("button", { name: "Test" }).click();
  await page.getByText("The provider cannot be reached.").waitFor();
  await end();
});

test("a provider is switched off, and its limits are said at the field", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/settings/providers.serper", { colorScheme: "dark" });
  for (const [label, wrong, right, limits] of [["max_results", "21", "20", "It can be 1 to 20"], ["timeout", "121", "120", "It can be 5s to"]]) {
    const field = page.getByLabel(label, { exact: true });
    await field.fill(wrong);
    await page.getByText(limits).waitFor();
    assert.equal(await field.getAttribute("aria-invalid"), "true");
    await field.fill(right);
    await page.getByText(limits).waitFor({ state: "hidden" });
  }
  await page.getByRole("switch", { name: "On" }).uncheck();
  await page.getByText("3 unsaved changes").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("button", { name: "Reset providers.serper.deny" }).waitFor();
  const offered = async () => (await (await fetch(`${own.direct}/admin/tools`)).json()).tools.map(({ name }) => name);
  assert.ok(!(await offered()).includes("web_search"));
  // The setting survives a restart, and the file has not changed.
  await own.kill();
  await own.start();
  assert.ok(!(await offered()).includes("web_search"));
  await page.reload();
  const on = page.getByRole("switch", { name: "On" });
  await on.waitFor();
  assert.equal(await on.isChecked(), false);
  await on.check();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("No change is saved").or(page.locator(".foot[hidden]")).first().waitFor({ state: "attached" });
  assert.ok((await offered()).includes("web_search"));
  await end();
});

test("a remembered answer is a rule, and a click revokes it", async (t) => {
  const own = await stand({ permission: "ask" });
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/tools");
  await live(page);
  const first = ask(own, "please calc");
  await page.locator(".question").getByRole("button", { name: "Review" }).click();
  await page.getByRole("dialog").getByText(/\d+ s left/).waitFor();
  await answer(page, "Always");
  assert.match(await first, /42/);
  await page.getByText("allowed", { exact: true }).waitFor();
  assert.match(await ask(own, "please calc"), /42/, "nobody is asked");
  await page.getByRole("button", { name: "Forget the rule for calc" }).click();
  await page.getByText("No rules are remembered.").waitFor();
  const second = ask(own, "please calc");
  await page.locator(".question").getByRole("button", { name: "Review" }).click();
  await answer(page, "Deny");
  assert.doesNotMatch(await second, /42/);
  await page.getByRole("link", { name: /calc.*1 failed of 3/ }).waitFor();
  await end();
});

test("an MCP server shows its state and its log, and starts again", async (t) => {
  const own = await stand();
  t.after(() => own.close());
  const { page, end } = await visit(own, "#/tools?provider=files");
  const shown = page.getByRole("region", { name: "Tool", exact: true });
  await shown.getByText("ready").waitFor();
  await shown.getByRole("link", { name: "files__echo" }).waitFor();
  await shown.getByText(/^started .\[31mred.\[0m <b>bold<\/b>/).waitFor();
  await shown.getByRole("button", { name: "Test" }).click();
  await shown.getByText("The provider can be used.").waitFor();
  await shown.getByRole("button", { name: "Restart" }).click();
  await shown.getByText("files is restarted").waitFor();
  await shown.getByText("ready").waitFor();
  await end();
});

test("client keys are logged in at an MCP server, each by its name", async (t) => {
  const server = await authorization();
  t.after(() => server.close());
  const key = (name) => `[[keys]]\nname = "${name}"\nkey = "key-of-${name}"\n`;
  const provider = `[[providers]]\nname = "crm"\nkind = "mcp"\nurl = "${server.url}"\noauth_login_per = "key"\n`;
  const own = await stand({ models: `[[models]]\nname = "echo"\nupstream = "scripted"\n${key("ann")}${key("bob@co.example")}${provider}` });
  t.after(() => own.close());
  const { page, context } = await visit(own, "#/tools?provider=crm");
  const shown = page.getByRole("region", { name: "Tool", exact: true });
  await shown.getByText("No client key is logged in.").waitFor();
  const pick = shown.getByLabel("Client key");
  await pick.waitFor();
  assert.deepEqual(await pick.locator("option").allTextContents(), ["ann", "bob@co.example", "console (the Playground)"]);
  for (const name of ["bob@co.example", "ann"]) {
    await pick.selectOption(name);
    await shown.getByRole("button", { name: "Log in", exact: true }).click();
    await page.getByText(`Logged in to crm for the key ${name}`).waitFor();
    await shown.getByRole("listitem").filter({ hasText: new RegExp(`^${name}logged in.*, then refreshed`) }).waitFor();
  }
  assert.deepEqual(await pick.locator("option").allTextContents(), ["console (the Playground)"]);
  await shown.getByRole("button", { name: "Log out ann" }).click();
  await shown.getByRole("listitem").filter({ hasText: /^ann/ }).waitFor({ state: "detached" });
  await shown.getByRole("listitem").filter({ hasText: /^bob@co\.examplelogged in/ }).waitFor();
  assert.equal(server.requests.filter((request) => request === "POST /revoke").length > 0, true);
  await context.close();
});
