// The states of the Playground and of Settings, each in three sizes and both themes: they fit, and axe finds nothing.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { test } from "node:test";
import { visit as visitPage } from "./browser.mjs";
import { HOSTILE, sse } from "./scripts.mjs";
import { browser, own } from "./session.mjs";
import { stand } from "./stand.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SIZES = [[1440, 900], [768, 1024], [390, 844]];
const START = ["message_start", { exchange: "ex_chat", hop: 1, model: "echo", client: "chat" }];
const call = (more = {}) => ["tool_use", { exchange: "ex_chat", hop: 1, toolCall: { id: "call_1", name: "web_search", input: { query: "rust" } }, ...more }];
const result = (value, more = {}) => ["tool_result", { exchange: "ex_chat", hop: 1, toolCall: { id: "call_1", name: "web_search" }, ok: true, ms: 640, result: typeof value === "string" ? value : JSON.stringify(value), ...more }];
const END = ["message_complete", { exchange: "ex_chat", hop: 1, finish: "stop", usage: { input_tokens: 12, output_tokens: 3 }, ms: 2940, ttft_ms: 212 }];

const PAGES = { ok: true, summary: HOSTILE, results: [
  { title: "Rust 1.95", url: "https://rust.example/news", snippet: HOSTILE, date: "2 days ago" },
  { title: HOSTILE, url: "javascript:alert(1)", snippet: "Not a page of the web." },
  { title: "A file", url: "data:text/html,<script>alert(1)</script>" },
  { title: "Mail", link: "mailto:x@y.example" },
  { title: "Nothing", url: 7, link: "http://plain.example" },
] };
const ROWS = Array.from({ length: 120 }, (_, at) => ({ city: at ? `Oslo ${at}` : HOSTILE, degrees: at, wet: at % 2 === 0, note: null }));

// What the server sends, whether the response ends, and what the page then shows.
const STATES = {
  waiting: { events: [START], open: true, ready: (page) => page.locator(".pulse").getByText("Waiting for echo").waitFor() },
  writing: { events: [START, ["tool_use", { exchange: "ex_chat", toolCall: { id: "call_1", name: "web_search" }, input_text: `{"query":"${"x".repeat(300)}${HOSTILE} the end` }]], open: true, ready: (page) => page.locator(".writes").getByText("the end").waitFor() },
  running: { events: [START, call({ provider: "serper", progress: `Searching for: ${HOSTILE}` }), ["tool_progress", { exchange: "ex_chat", toolCall: { id: "call_1", name: "web_search" }, done: 3, total: 10 }]], open: true, ready: async (page) => {
    await page.getByRole("progressbar", { name: "Progress" }).waitFor();
    await page.getByRole("button", { name: "Cancel" }).waitFor();
  } },
  stopped: { events: [START, call()], open: true, ready: async (page) => {
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText("You stopped it.").waitFor();
    assert.equal(await page.locator("[role=alert]").count(), 0);
  } },
  pages: { events: [START, call(), result(PAGES), END], ready: async (page) => {
    await page.locator("summary").first().click();
    const links = await page.locator(".pages a").evaluateAll((all) => all.map((link) => link.href));
    assert.deepEqual(links, ["https://rust.example/news", "http://plain.example/"]);
    assert.equal(await page.locator(".pages li").count(), 5);
  } },
  table: { events: [START, call(), result(ROWS), END], ready: async (page) => {
    await page.locator("summary").first().click();
    await page.getByRole("columnheader", { name: "degrees" }).waitFor();
    assert.equal(await page.locator(".called tbody tr").count(), 100);
    await page.getByText("The first 100 of 120 rows.").waitFor();
  } },
  markdown: { events: [START, call(), result(`| a | b |\n|---|---|\n| 1 | [x](javascript:alert(1)) |\n`), END], ready: async (page) => {
    await page.locator("summary").first().click();
    await page.locator(".called table").waitFor();
    assert.equal(await page.locator(".called table a").count(), 0);
  } },
  limited: { events: [START, ["error", { exchange: "ex_chat", error: { code: "rate_limit_exceeded", message: HOSTILE, retryable: true, status: 429, retry_after_s: 600 } }]], ready: (page) => page.getByRole("button", { name: /^Try again in \d+ s$/ }).waitFor() },
  failed: { events: [START, ["error", { exchange: "ex_chat", error: { code: HOSTILE, message: HOSTILE, retryable: false, status: 418 } }]], ready: (page) => page.getByRole("link", { name: "See what was sent" }).waitFor() },
  refused: { events: [START, call(), result("It took too long.", { ok: false, code: "timeout" }), END], ready: (page) => page.getByRole("link", { name: "Open the timeouts" }).waitFor() },
};

const SETTINGS = {
  "#/settings/execution": async (page) => {
    await page.getByText("how often the model may call hosted tools", { exact: false }).waitFor();
    assert.deepEqual(await page.getByLabel("clash", { exact: true }).locator("option").allTextContents(), ["client_wins", "server_wins", "prefix"]);
    assert.match(await page.getByLabel("max_result", { exact: true }).inputValue(), /^\d+ ([kM]B|[KM]iB)$/);
  },
  "#/settings/providers.calc": async (page) => {
    const schema = page.getByLabel("parameters", { exact: true });
    assert.deepEqual(Object.keys(JSON.parse(await schema.inputValue())), ["type", "properties", "required"]);
    assert.equal(await page.getByText("parameters.properties", { exact: false }).count(), 0);
    await schema.fill("{");
    await page.getByText("It is not JSON").waitFor();
    await page.getByRole("button", { name: "Discard" }).click();
    assert.equal(await page.locator(".setting").filter({ has: page.getByText("name", { exact: true }) }).getByText("default").count(), 0);
  },
  "#/settings/providers.serper": async (page) => {
    const list = page.getByLabel("deny", { exact: true });
    await list.fill("scrape\n\n news_search \n");
    await page.getByText("1 unsaved change").waitFor();
    await page.getByRole("button", { name: "Discard" }).click();
    assert.equal(await page.getByLabel("deny", { exact: true }).inputValue(), "");
  },
  "#/settings/limits": (page) => page.getByText("a client's request body", { exact: false }).waitFor(),
  "#/settings/admin": (page) => page.getByText("12h", { exact: true }).first().waitFor(),
};

async function check(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"], preload: false }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)} ${node.any[0]?.message ?? ""}`).join(" | ")}`), [], where);
  const found = await page.evaluate(() => ({
    elements: document.querySelectorAll("img[src='x'], svg[onload], main script, [onerror]").length,
    links: [...document.querySelectorAll("a[href]")].filter((link) => !/^(https?|blob):/.test(link.href)).length,
    unseen: /[\u0000-\u0008\u001b\u200b\u202e\ufeff]/.exec(document.body.textContent)?.index ?? null,
    wide: Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth),
  }));
  assert.deepEqual(found, { elements: 0, links: 0, unseen: null, wide: 0 }, where);
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${where.replaceAll(/[^\w]+/g, "-")}.png` });
}

for (const colorScheme of ["light", "dark"]) {
  for (const [width, height] of SIZES) {
    const options = { colorScheme, viewport: { width, height }, hasTouch: width < 900 };

    test(`states of the Playground, ${colorScheme}, ${width} px`, async () => {
      const { page, end } = await visitPage(browser, own.url, options);
      for (const [name, { events, open: isOpen, ready }] of Object.entries(STATES)) {
        own.state.answers = {
          "DELETE /console/api/chat/ex_chat": (_, response) => response.writeHead(204).end(),
          "POST /console/api/chat": (_, response) => {
            response.writeHead(200, { "content-type": "text/event-stream" });
            isOpen ? response.write(sse(events)) : response.end(sse(events));
          },
        };
        await page.goto("about:blank");
        await page.goto(`${own.url}#/play`);
        await page.getByText("Begin with a message").waitFor();
        await page.getByLabel("Message", { exact: true }).fill("Go");
        await page.getByLabel("Message", { exact: true }).press("Enter");
        await ready(page);
        await check(page, `${name} ${colorScheme} ${width}`);
        // The message is written at the bottom.
        const bottom = await page.locator(".compose").evaluate((own) => innerHeight - own.getBoundingClientRect().bottom);
        assert.ok(bottom >= -1 && bottom < 2, `${name}: the composer ends ${bottom} px above the bottom`);
      }
      own.state.answers = {};
      await end();
    });

    test(`states of Settings, ${colorScheme}, ${width} px`, async () => {
      const { page, end } = await visitPage(browser, own.url, options);
      for (const [hash, ready] of Object.entries(SETTINGS)) {
        await page.goto("about:blank");
        await page.goto(own.url + hash);
        await page.locator(".setting").first().waitFor();
        await ready(page);
        await check(page, `${hash} ${colorScheme} ${width}`);
      }
      await end();
    });
  }
}

test("the chats and options of a small screen are behind buttons", async () => {
  const { page, end } = await visitPage(browser, `${own.url}#/play`, { viewport: { width: 390, height: 844 }, hasTouch: true });
  await page.getByText("Begin with a message").waitFor();
  const head = await page.locator(".play-head").boundingBox();
  assert.ok(head.height <= 100, `the controls take ${head.height} px`);
  for (const [name, inside] of [["Options", page.getByLabel("Theme of the chat")], ["Chats", page.getByRole("navigation", { name: "Chats" })]]) {
    const button = page.getByRole("button", { name, exact: true });
    assert.equal(await inside.isVisible(), false);
    await button.click();
    assert.equal(await button.getAttribute("aria-expanded"), "true");
    if (name === "Options") assert.equal(await inside.isVisible(), true);
    await button.click();
    assert.equal(await inside.isVisible(), false);
  }
  await end();
});

test("one link of the rail is marked with forced colors", async () => {
  const { page, end } = await visitPage(browser, `${own.url}#/settings`, { forcedColors: "active" });
  await page.locator(".setting").first().waitFor();
  const colors = await page.locator(".rail nav a").evaluateAll((links) => links.map((link) => [link.textContent, getComputedStyle(link).borderLeftColor]));
  const marked = colors.filter(([, color]) => color !== colors.find(([name]) => name === "Live")[1]).map(([name]) => name);
  assert.deepEqual(marked, ["Settings"], JSON.stringify(colors));
  await end();
});

test("the title counts questions while another page is shown", async (t) => {
  const asking = await stand({ permission: "ask" });
  t.after(() => asking.close());
  const { page, end } = await visitPage(browser, `${asking.url}#/play`);
  await page.getByText("Begin with a message").waitFor();
  await page.getByLabel("Message", { exact: true }).fill("please calc");
  await page.getByLabel("Message", { exact: true }).press("Enter");
  await page.waitForFunction(() => document.title.startsWith("(1) "));
  await page.locator(".question").getByRole("button", { name: "Review" }).click();
  await page.locator("dialog button:not([aria-disabled])").filter({ hasText: "Deny" }).click();
  await page.waitForFunction(() => !document.title.startsWith("("));
  await end();
});

test("a refused sign-in says when it can be tried again, and a used link why it is refused", async (t) => {
  const KEY = "admin-key-of-a-test";
  const locked = await stand({ key: KEY });
  t.after(() => locked.close());
  const { page, end } = await visitPage(browser, `${locked.url}#/login?code=used`, { allowed: /status of 4(01|29)/ });
  await page.getByText("a code works once", { exact: false }).waitFor();
  // The form is alone.
  assert.deepEqual(await page.getByRole("heading").allTextContents(), ["toolwire", "Sign in", "You are not signed in."]);
  const field = page.getByLabel("Admin key");
  assert.ok((await field.boundingBox()).width < 520);
  const countdown = page.getByText(/^Possible again in \d+ s$/);
  for (let tries = 0; tries < 8 && !(await countdown.count()); tries++) {
    await field.fill("wrong");
    await Promise.all([page.waitForResponse("**/admin/session"), page.getByRole("button", { name: "Sign in" }).click()]);
  }
  await countdown.waitFor();
  await check(page, "refused sign-in");
  await end();
});

test("a change of settings is told once", async () => {
  const { page, end } = await visitPage(browser, `${own.url}#/settings/execution`);
  await page.getByLabel("clash", { exact: true }).selectOption("prefix");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("1 saved here", { exact: false }).waitFor();
  await page.locator(".toasts").getByText("Saved", { exact: true }).waitFor();
  // By then, the feed has told of the reload.
  await page.waitForTimeout(500);
  assert.equal(await page.locator(".toasts [role=status] > div").count(), 1);
  await page.getByRole("button", { name: "Reset to the file…" }).click();
  await page.getByRole("dialog", { name: "Forget 1 saved value?" }).getByRole("button", { name: "Forget them" }).click();
  await page.getByText("Nothing is saved here").waitFor();
  await end();
});

test("the bench says why no stream was complete", async (t) => {
  const gone = await stand({ models: '[[models]]\nname = "*"\nupstream = "scripted"\n' });
  t.after(() => gone.close());
  const { page, end } = await visitPage(browser, `${gone.url}#/measure`, { allowed: /status of 404/ });
  await page.getByRole("combobox", { name: "Model", exact: true }).waitFor();
  gone.closeUpstream();
  await page.getByRole("combobox", { name: "Model", exact: true }).fill("fast");
  await page.getByLabel("Streams ").fill("1");
  await page.getByLabel("Tokens ").fill("5");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText("0 of", { exact: false }).waitFor({ timeout: 60_000 });
  await page.locator(".bad").getByText(/refused/i).first().waitFor();
  await end();
});
