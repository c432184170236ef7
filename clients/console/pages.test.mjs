// Opens every page in Chromium, in both themes and two widths, with hostile texts. There must be no errors, no violations of the
// content security policy, no requests to other origins, and no findings by axe.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { open, saved, visit as visitPage } from "./browser.mjs";
import { answers, CHAT, EVENTS, HOSTILE, INPUT, PAGE, REQUESTS, ROWS, sse, withQuestion } from "./scripts.mjs";
import { stand } from "./stand.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser, own;

before(async () => {
  browser = await open(chromium);
  own = await stand({ answers: withQuestion(answers()) });
});

after(async () => {
  await browser?.close();
  await own?.close();
});

const visit = (hash, options) => visitPage(browser, own.url + hash, options);

// Loads the page anew at another address. Unlike `visit`, this needs no new process of the browser, and the page's code is cached.
async function address(page, hash) {
  await page.goto("about:blank");
  await page.goto(own.url + hash);
}

// Checks the page with axe. The debugger injects axe, so the content security policy need not allow it.
async function check(page, where) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"], preload: false }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)} ${node.any[0]?.message ?? ""}`).join(" | ")}`), [], where);
}

const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

async function send(page, text = "Find the newest Rust release") {
  await page.getByLabel("Model", { exact: true }).fill("echo");
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

const VIEWS = {
  "#/live": (page) => page.getByRole("row", { name: /lumo-max/ }).waitFor(),
  "#/live/ex_7f3a": (page) => page.getByRole("heading", { name: "What the client got, hop 2" }).waitFor(),
  "#/live/ex_7f3a?view=aligned": (page) => page.getByText("text events").waitFor(),
  "#/live/ex_7f3a?detect=pythonic": (page) => page.getByText("read with detect").waitFor(),
  "#/live/ex_7f3a?with=ex_33cc": (page) => page.getByRole("link", { name: "ex_33cc" }).waitFor(),
  "#/live/ex_7f3a?view=text": (page) => page.getByRole("paragraph").filter({ hasText: "First the release notes" }).waitFor(),
  "#/live/ex_7f3a?view=raw": (page) => page.getByText("content_block_delta").first().waitFor(),
  "#/live/ex_33cc": (page) => page.getByRole("tab", { name: "Aligned" }).waitFor(),
  "#/live/ex_22bb": (page) => page.getByText("Its events were not kept").waitFor(),
  "#/live/ex_gone": (page) => page.getByText("Not kept any more").waitFor(),
  "#/formats": (page) => page.getByText("opener of hermes").waitFor(),
  "#/formats?": async (page) => {
    await page.getByLabel("Model output").fill("Action: web_search");
    await page.getByRole("heading", { name: "It is react" }).waitFor();
  },
  "#/tools": (page) => page.getByText("Answer all questions with yes").waitFor(),
  "#/tools/calc": (page) => page.getByRole("button", { name: "Run" }).waitFor(),
  "#/tools?provider=serper": (page) => page.getByRole("button", { name: "Test" }).waitFor(),
  "#/settings": (page) => page.getByText("saved here").first().waitFor(),
  "#/settings/providers.serper": (page) => page.getByLabel("api_key").waitFor(),
  "#/play": async (page) => {
    await send(page);
    await page.getByText("2 hops, 1,204 tokens in").waitFor();
    for (const summary of await page.locator(".chat summary").all()) await summary.click();
  },
  "#/measure": (page) => page.getByRole("columnheader", { name: "Requests" }).waitFor(),
};

for (const colorScheme of ["light", "dark"]) {
  for (const width of [1440, 768, 360]) {
    test(`pages are accessible and fit, ${colorScheme}, ${width} px`, async () => {
      // Chromium reports the 404 for an exchange that no longer exists.
      const { page, end } = await visit("", { colorScheme, viewport: { width, height: 800 }, hasTouch: width < 900, allowed: /status of 404/ });
      // Pages change their form below 900 px: all of them are opened once on each side, and Live in every size.
      for (const [hash, ready] of Object.entries(VIEWS).filter(([hash]) => [1440, 360].includes(width) || hash.startsWith("#/live"))) {
        await address(page, hash);
        await ready(page);
        await page.locator(".question").waitFor();
        await check(page, `${hash} ${colorScheme} ${width}`);
        assert.ok((await fits(page)) <= 0, `${hash} is wider than ${width} px`);
      }
      await end();
    });
  }
}

// Deliberately faint content: figures while the feed is disconnected, and what comes after a replay's position or after the cut in a
// text.
for (const colorScheme of ["light", "dark"]) {
  test(`what is old or yet to come can be read, ${colorScheme}`, async () => {
    const views = {
      "#/live": (page) => page.locator(".stale").getByText("running").waitFor(),
      "#/measure": (page) => page.locator(".stale").getByText("running").waitFor(),
      "#/live/ex_7f3a?at=5": (page) => page.locator(".wire .ahead").first().waitFor(),
      "#/formats": async (page) => {
        await page.getByText("opener of hermes").waitFor();
        await page.getByLabel("Cut after a byte").fill("6");
        await page.locator(".marked .later").first().waitFor();
      },
    };
    const { page, end } = await visit("", { colorScheme, allowed: /ERR_FAILED/ });
    await page.route("**/admin/events**", (route) => route.abort());
    for (const [hash, ready] of Object.entries(views)) {
      await address(page, hash);
      await ready(page);
      await check(page, `${hash} ${colorScheme}`);
    }
    await end();
  });
}

test("hostile texts are shown as texts", async () => {
  const base = withQuestion(answers());
  const real = await (await fetch(`${own.direct}/admin/tools`)).json();
  const [calc] = real.tools.filter(({ name }) => name === "calc");
  const tools = { ...real, tools: [...real.tools, { ...calc, name: HOSTILE, description: HOSTILE, schema: { type: "object", title: HOSTILE, properties: { [HOSTILE]: { type: "string", description: HOSTILE, default: HOSTILE } } } }] };
  const json = (value, status = 200) => (_, response) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  own.state.answers = { ...base, "GET /admin/tools": json(tools), "GET /admin/exchanges/ex_bad": json({ error: { code: HOSTILE, message: HOSTILE } }, 400) };
  const views = { ...VIEWS, [`#/tools/${encodeURIComponent(HOSTILE)}`]: (page) => page.getByRole("button", { name: "Run" }).waitFor(), "#/live/ex_bad": (page) => page.locator(".note").waitFor() };
  const { page, end } = await visit("", { allowed: /status of 40[04]/ });
  for (const [hash, ready] of Object.entries(views)) {
    await address(page, hash);
    await ready(page);
    const found = await page.evaluate(() => ({
      elements: document.querySelectorAll("img[src='x'], svg[onload], main script, [onerror]").length,
      links: [...document.querySelectorAll("a[href]")].filter((link) => !/^(https?|mailto|blob):/.test(link.href)).length,
      // Control, zero-width and bidirectional override characters.
      unseen: /[\u0000-\u0008\u001b\u200b\u202e\ufeff]/.exec(document.body.textContent)?.index ?? null,
      outside: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    }));
    assert.deepEqual(found, { elements: 0, links: 0, unseen: null, outside: false }, hash);
  }
  await end();
  own.state.answers = base;
});

test("calls are marked in the text that the model wrote, and lead to their events", async () => {
  const { page, end } = await visit("#/live/ex_7f3a?view=text");
  const marked = page.getByRole("region", { name: "What the model wrote in hop 1" });
  await marked.waitFor();
  assert.equal(await marked.locator(".k-opener").textContent(), "<tool_call>");
  assert.equal(await marked.locator(".k-arguments").textContent(), '{"query": "newest rust"}');
  const entry = page.getByRole("listitem").filter({ hasText: "arguments of call 1, web_search" });
  await entry.focus();
  assert.equal(await marked.locator(".lit").textContent(), '{"query": "newest rust"}');
  await entry.getByRole("button").click();
  await page.waitForURL(/at=13/);
  assert.equal(await page.getByRole("tab", { name: "Aligned" }).getAttribute("aria-selected"), "true");
  await end();
});

test("an exchange shows what was asked, sent, written and got, and the calls between", async () => {
  const { page, end } = await visit("#/live/ex_7f3a");
  const cell = (title) => page.getByRole("region", { name: title, exact: true });
  await cell("What the model was sent, hop 1").getByText("You may call tools.").waitFor();
  assert.equal(await cell("What the model was sent, hop 1").locator("mark").count(), 1, "the question is the client's");
  assert.match(await cell("What the model was sent, hop 1").locator("mark").textContent(), /^You may call tools.*<\/tool_call>\.$/);
  assert.equal(await cell("The client’s request").locator("mark").count(), 0);
  await cell("The client’s request").getByText("get_weather").click();
  await cell("The client’s request").getByText('"The weather of a city"').waitFor();
  assert.equal(await cell("What it wrote, hop 1").locator(".k-name").textContent(), "web_search");
  await cell("What the client got, hop 1").getByText('{"query": "newest rust"}').waitFor();
  assert.match(await cell("What the client got, hop 2").textContent(), /The newest release is 1\.95\./);
  assert.equal(await cell("What the model was sent, hop 2").locator(".message").count(), 2, "the earlier messages are folded");
  await cell("What the model was sent, hop 2").getByText("2 messages as before").click();
  assert.equal(await cell("What the model was sent, hop 2").locator(".message").count(), 4);
  const calls = page.getByRole("group", { name: "Calls that toolwire ran after hop 1" });
  assert.deepEqual(await calls.locator("summary strong").allTextContents(), ["web_search", "scrape"]);
  await calls.getByText("It took longer than its timeout.").waitFor();
  assert.match(await calls.textContent(), /640 ms/);
  await page.locator(".facts").getByText("Hosted calls").waitFor();
  for (const view of ["Aligned", "Text"]) {
    await page.getByRole("tab", { name: view }).click();
    assert.equal(await calls.locator("summary strong").count(), 2, view);
  }
  await page.getByText("1 client call, 2 hosted, held 0 B").waitFor();
  await end();
});

test("frames show their content, and the whole frame on demand", async () => {
  const { page, end } = await visit("#/live/ex_7f3a?at=13");
  const row = page.locator(".wire .current");
  assert.match(await row.locator(".cause").innerText(), /^"\\"arguments\\": \{\\"query\\": "$/);
  await row.locator(".cause summary").click();
  await row.getByText("chat.completion.chunk").waitFor();
  await page.keyboard.press("Space");
  assert.equal(await page.getByRole("button", { name: "Play" }).count(), 1, "the key belongs to the frame");
  // White space that every token holds back is no reason to mark its row.
  const base = withQuestion(answers());
  const json = (value) => (_, response) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
  own.state.answers = { ...base, "GET /admin/exchanges/ex_7f3a/events": json({ rows: EVENTS.map((row) => ({ ...row, read: [{ kind: "text", text: "word " }], out: row.out.slice(0, 1), held: 1 })), calls: [] }) };
  await address(page, "#/live/ex_7f3a?view=aligned");
  await page.locator(".wire [role=row]").nth(1).waitFor();
  assert.equal(await page.locator(".wire .held").count(), 0);
  await end();
  own.state.answers = base;
});

test("without contents, it is said how to capture them", async () => {
  const base = withQuestion(answers());
  const json = (value) => (_, response) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
  const hosted = REQUESTS.hosted.map(({ arguments: _, result, ...call }) => call);
  own.state.answers = { ...base, "GET /admin/exchanges/ex_22bb/events": json({ exchange: "ex_22bb", captured: "off", rows: [{ n: 1, hop: 1, t_ms: 3, out: [{ kind: "hop_start", name: HOSTILE }] }] }), "GET /admin/exchanges/ex_22bb/requests": json({ exchange: "ex_22bb", captured: "off", client: null, requests: [], hosted, rewrite: null }) };
  const { page, end } = await visit("#/live/ex_22bb");
  await page.getByText("Nothing of the contents was captured").waitFor();
  await page.getByText('capture = "redacted"').waitFor();
  for (const name of ["Rewrite command", "Send again"]) {
    await page.getByRole("button", { name }).click();
    await page.locator(".toasts").getByText(name === "Send again" ? "cannot be sent again" : "not captured").waitFor();
  }
  await check(page, "nothing captured");
  await end();
  own.state.answers = base;
});

test("an exchange is a command, is read again, and is sent again beside the first", async () => {
  const base = withQuestion(answers());
  const sent = [];
  const chat = base["POST /console/api/chat"], events = base["GET /admin/exchanges/ex_7f3a/events"];
  const json = (value) => (_, response) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
  const refused = (_, response) => response.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify({ error: { code: "invalid_request", message: "no such model", path: "request" } }));
  own.state.answers = { ...base,
    "POST /admin/exchanges/ex_7f3a/read": (request, response, body) => (sent.push(body), base["POST /admin/exchanges/ex_7f3a/read"](request, response, body)),
    "POST /admin/exchanges/ex_chat/read": (request, response, body) => (sent.push(body), base["POST /admin/exchanges/ex_7f3a/read"](request, response, body)),
    "POST /console/api/chat": (request, response, body) => (sent.push(body), sent.length < 3 ? refused(request, response) : chat(request, response)),
    "GET /admin/exchanges/ex_chat": json({ exchange: { ...ROWS[1], id: "ex_chat", model: "other" }, hops: [], calls: [] }), "GET /admin/exchanges/ex_chat/requests": json({ ...REQUESTS, hosted: [] }), "GET /admin/exchanges/ex_chat/events": events };
  const { page, end } = await visit("#/live/ex_7f3a", { allowed: /status of 400/ });
  await page.getByRole("button", { name: "Rewrite command" }).click();
  const command = await page.getByRole("region", { name: "Commands" }).textContent();
  assert.equal(command, "tar -xf ex_7f3a.tar\ntoolwire rewrite --from chat --to messages --detect hermes --tool-prefix 'it'\\''s: ' --request ex_7f3a/request.json ex_7f3a/upstream.sse");
  await page.getByText("These settings have no option: max_calls.").waitFor();
  await check(page, "command");
  await page.getByRole("button", { name: "Close", exact: true }).click();

  await page.getByRole("button", { name: "Read again" }).click();
  await page.getByLabel("detect").fill("pythonic");
  await check(page, "read again");
  await page.getByRole("button", { name: "Read", exact: true }).click();
  await page.waitForURL(/detect=pythonic/);
  const got = (which) => page.getByRole("region", { name: `What the client got in hop 1, ${which}` });
  await got("read again").getByText("<tool_call>").waitFor();
  assert.equal(await got("ex_7f3a").getByText("<tool_call>").count(), 0);
  await page.getByRole("button", { name: "Show it alone" }).click();

  await page.getByRole("button", { name: "Send again" }).click();
  const field = page.getByRole("textbox", { name: "Request" });
  const text = await field.inputValue();
  assert.ok(JSON.parse(text).stream, "only streams are shown");
  const box = page.getByRole("dialog");
  assert.equal(await box.getByLabel("Model").inputValue(), "qwen3-32b");
  await field.fill("no JSON");
  await box.getByLabel("Model").fill("other");
  await box.getByLabel("Temperature").fill("0.2");
  await page.getByText("The request is not JSON").waitFor();
  await field.fill(text);
  await box.getByLabel("Model").fill("another");
  await box.getByLabel("Model").fill("other");
  await box.getByLabel("Temperature").fill("0.3");
  await box.getByLabel("Tool choice").selectOption("required");
  await page.getByText("The request is not JSON").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("no such model").waitFor();
  await check(page, "send again");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.waitForURL(/with=ex_chat/);
  await page.getByRole("link", { name: "ex_chat" }).waitFor();
  assert.equal(await page.locator(".pair > section").count(), 2);
  const { model, temperature, tool_choice: choice } = JSON.parse(sent[2].request);
  assert.deepEqual([sent[0], sent[2].client, model, temperature, choice], [{ detect: "pythonic" }, "messages", "other", 0.3, { type: "any" }]);
  // The new answer may be read with other formats, too.
  await page.getByRole("button", { name: "Show it alone" }).click();
  await page.getByRole("button", { name: "Send again" }).click();
  await box.getByLabel("Read with detect").fill("off");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.waitForURL(/with=ex_chat&detect=off/);
  await page.getByRole("heading", { name: "ex_chat, read with detect = off" }).waitFor();
  assert.deepEqual(sent.at(-1), { detect: "off" });
  await end();
  own.state.answers = base;
});

test("the list reads further back, its head stays, and its figures are the server's", async () => {
  const base = withQuestion(answers());
  const all = Array.from({ length: 1100 }, (_, at) => ({ ...ROWS[1], id: `ex_p${at}`, t: Date.now() - 60_000 - at * 10, model: at === 1050 ? "needle" : "hay" }));
  const pages = [];
  own.state.answers = { ...base, "GET /admin/exchanges": (request, response) => {
    const query = new URL(request.url, "http://x").searchParams;
    const from = query.has("before") ? all.findIndex((row) => row.id === query.get("before")) + 1 : 0, upto = from + Number(query.get("limit"));
    if (from) pages.push(from);
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ exchanges: all.slice(from, upto), more: upto < all.length, kept: 1100, keep: 2000, since: 1 }));
  } };
  const { page, end } = await visit("#/live");
  await page.getByText("1,100 of 2,000 kept").waitFor();
  const head = page.locator("tw-list .head");
  const top = (await head.boundingBox()).y;
  const scroll = (height) => page.locator("tw-list").evaluate((list, height) => (list.scrollTop = height ?? list.scrollHeight), height);
  await scroll(2000);
  assert.equal((await head.boundingBox()).y, top);
  await scroll();
  await page.locator("tw-list[aria-rowcount='1001']").waitFor();
  await scroll();
  await page.locator("tw-list[aria-rowcount='1101']").waitFor();
  assert.deepEqual(pages, [500, 1000]);
  await end();
  // A filter searches all that the server keeps.
  const other = await visit("#/live?q=model:needle");
  await other.page.locator(".item").filter({ hasText: "needle" }).waitFor();
  await other.end();
  own.state.answers = base;
});

test("an exchange is saved as a fixture, or it is said why not", async () => {
  const base = withQuestion(answers());
  const path = "GET /admin/exchanges/ex_7f3a/fixture";
  own.state.answers = { ...base, [path]: (_, response) => response.writeHead(409, { "content-type": "application/json" }).end(JSON.stringify({ error: { code: "not_captured", message: `admin.capture is off ${HOSTILE}` } })) };
  const { page, end } = await visit("#/live/ex_7f3a", { allowed: /status of 409/ });
  const button = page.getByRole("button", { name: "Save as fixture" });
  await button.click();
  await page.locator(".toasts").getByText("admin.capture is off").waitFor();
  own.state.answers = { ...base, [path]: (_, response) => response.writeHead(200, { "content-type": "application/x-tar" }).end(Buffer.from([0, 255, 1])) };
  const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
  assert.equal(download.suggestedFilename(), "ex_7f3a.tar");
  assert.deepEqual(await readFile(await download.path()), Buffer.from([0, 255, 1]));
  await end();
  own.state.answers = base;
});

test("the last minute is as the feed tells it", async () => {
  // The scripted figure is 3; toolwire's own feed says 0.
  const { page, end } = await visit("#/measure");
  await page.getByRole("group", { name: "Now" }).locator(".figure").filter({ hasText: /^0running$/ }).waitFor();
  await end();
});

test("times are shown in UTC if that is chosen", async () => {
  const { page, end } = await visit("#/live/ex_7f3a", { timezoneId: "Asia/Kolkata" });
  await page.getByText(/UTC\+05:30$/).waitFor();
  await page.getByLabel("Times in UTC").check();
  await page.getByText(/:\d\d UTC$/).waitFor();
  await page.reload();
  await page.getByText(/:\d\d UTC$/).waitFor();
  await end();
});

test("a question is answered by a person who has seen it", async () => {
  const sent = [];
  const base = withQuestion(answers());
  own.state.answers = { ...base, "POST /admin/permissions/q_1": (_, response, body) => (sent.push(body), response.writeHead(200, { "content-type": "application/json" }).end("{}")) };
  const { page, end } = await visit("#/live");
  await page.locator(".question").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.closest(".question")), null, "it takes no focus");
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Deny");
  assert.ok((await dialog.textContent()).includes("<img src=x onerror=alert(1)>"));
  await check(page, "dialog");
  await dialog.getByRole("button", { name: "Always for" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual(sent, [{ granted: true, remember: true, scope: "domain" }]);
  await end();
  own.state.answers = base;
});

test("a server's question is answered with values of its form", async () => {
  const sent = [];
  const base = withQuestion(answers());
  own.state.answers = { ...withQuestion(answers(), INPUT), "POST /admin/permissions/q_1": (_, response, body) => (sent.push(body), response.writeHead(200, { "content-type": "application/json" }).end("{}")) };
  const { page, end } = await visit("#/live");
  await page.locator(".question").getByRole("button", { name: "Review" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Decline");
  const text = await dialog.textContent();
  assert.ok(text.includes("<img src=x onerror=alert(1)>") && text.includes("second line"), text);
  assert.equal(await dialog.locator("img, b, script").count(), 0);
  await check(page, "dialog");
  const enabled = (name) => dialog.locator("button:not([aria-disabled])").filter({ hasText: name });
  await enabled("Send").click();
  await dialog.getByText("This is required").waitFor();
  await dialog.getByLabel(/^name/).fill("a \"b\"");
  await dialog.getByLabel(/^size/).fill("2.50");
  await dialog.getByLabel(/^kind/).selectOption({ label: "B" });
  await enabled("Send").click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual(sent, [{ action: "accept", content: { name: 'a "b"', size: 2.5, kind: "b" } }]);
  await end();
  own.state.answers = base;
});

test("a server's page is opened by a click only", async () => {
  const sent = [];
  const base = withQuestion(answers());
  own.state.answers = { ...withQuestion(answers(), PAGE), "POST /admin/permissions/q_1": (_, response, body) => (sent.push(body), response.writeHead(200, { "content-type": "application/json" }).end("{}")) };
  const { page, end } = await visit("#/live");
  await page.locator(".question").getByRole("button", { name: "Review" }).click();
  const link = page.getByRole("dialog").getByRole("link");
  assert.equal(await link.getAttribute("href"), PAGE.input.url);
  assert.equal(await link.getAttribute("rel"), "noopener noreferrer");
  await check(page, "dialog");
  await page.locator("dialog button:not([aria-disabled])").filter({ hasText: "Decline" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.deepEqual(sent, [{ action: "decline" }]);
  await end();
  own.state.answers = base;
});

test("a key that was on its way when a question was opened answers nothing", async () => {
  const sent = [];
  const base = withQuestion(answers());
  own.state.answers = { ...base, "POST /admin/permissions/q_1": (_, response) => (sent.push(1), response.writeHead(200).end("{}")) };
  const { page, end } = await visit("#/live");
  await page.locator(".question").waitFor();
  await page.evaluate(() => {
    document.querySelector(".question button").click();
    document.activeElement.click();
  });
  // The dialog enables its buttons after a moment. A click that had an effect would have sent its request by then.
  await page.locator("dialog button[aria-disabled]").first().waitFor({ state: "detached" });
  await page.evaluate(() => fetch("../healthz"));
  assert.deepEqual(sent, []);
  assert.equal(await page.getByRole("dialog").count(), 1);
  await end();
  own.state.answers = base;
});

test("the list is used by keys, and filters stay in the address", async () => {
  const { page, end } = await visit("#/live", { allowed: /status of 404/ });
  await page.getByRole("row", { name: /lumo-max/ }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("state:error");
  await page.waitForURL(/#\/live\?q=state%3Aerror$/);
  await page.locator(".item").nth(1).waitFor({ state: "detached" });
  assert.match(await page.locator(".item").innerText(), /local-8b/);
  await page.getByLabel("Filter").fill("nope:1");
  await page.getByText("there is no nope").waitFor();
  await page.getByLabel("Filter").fill("");
  await page.locator(".item").nth(3).waitFor();
  // The keys work wherever no field has the focus.
  await page.getByLabel("Filter").evaluate((field) => field.blur());
  await page.keyboard.press("j");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.id), "ex_7f3a");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "ex_11aa" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "ex_11aa" }).waitFor({ state: "hidden" });
  await page.goBack();
  await page.getByRole("heading", { name: "ex_11aa" }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("f");
  await page.getByRole("heading", { name: "Formats", level: 1 }).waitFor();
  assert.equal(await page.title(), "(1) Formats - toolwire");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  await check(page, "keys");
  await end();
});

test("a replay stands where its address says", async () => {
  const { page, end } = await visit("#/live/ex_7f3a?at=11");
  const slider = page.getByLabel("Replay");
  await slider.waitFor();
  assert.equal(await slider.getAttribute("aria-valuetext"), "event 11 of 18, 0.48 seconds");
  assert.match(await page.locator(".wire .current").textContent(), /held 22 B/);
  await page.locator(".wire").focus();
  await page.keyboard.press("]");
  assert.match(await page.locator(".wire .current").textContent(), /call_start web_search/);
  await page.waitForURL(/at=13/);
  await page.getByLabel("Speed").selectOption("no pauses");
  await page.getByRole("button", { name: "Play" }).click();
  await page.getByText("event 18/18").waitFor();
  await end();
});

test("the cut of a text shows what had come out", async () => {
  const { page, end } = await visit("#/formats");
  await page.getByText("opener of hermes").waitFor();
  await page.getByLabel("Cut after a byte").fill("6");
  await page.getByText("After 6 of 113 bytes").waitFor();
  assert.equal(await page.locator(".what li").count(), 1);
  assert.match(await page.locator(".what").textContent(), /I will/);
  await page.getByRole("tab", { name: "messages" }).click();
  await page.getByText("event: content_block_start").waitFor();
  await page.getByRole("button", { name: "Share" }).click();
  await page.waitForURL(/#\/formats\?s=/);
  const shared = page.url().split("#")[1];
  await end();
  const again = await visit(`#${shared}`);
  await again.page.getByText("opener of hermes").waitFor();
  assert.match(await again.page.getByLabel("Model output").inputValue(), /newest rust release/);
  await again.end();
});

test("an answer is shown piece by piece, kept, exported and forgotten", async () => {
  const { page, end } = await visit("#/play");
  await send(page, HOSTILE);
  await page.getByText("2 hops, 1,204 tokens in").waitFor();
  assert.equal(await page.locator(".chat .card").count(), 2);
  assert.deepEqual(await page.locator(".chat img").evaluateAll((images) => images.map((image) => new URL(image.src).pathname)), ["/api/images/20260101_aa.png", "/api/images/20260101_bb.png"]);
  assert.equal(await page.locator("tw-carousel").getByText("1 / 2").count(), 1);
  await page.getByRole("button", { name: "Previous image" }).click();
  await page.locator("tw-carousel").getByText("2 / 2").waitFor();
  assert.match(await page.getByRole("link", { name: "Download" }).getAttribute("href"), /20260101_bb\.png$/);
  await page.getByRole("button", { name: "Next image" }).click();
  await page.locator("tw-carousel").getByText("1 / 2").waitFor();
  assert.equal(await page.getByRole("link", { name: "far (image)" }).getAttribute("href"), "https://evil.example/x.png");
  await page.getByLabel("Theme of the chat").selectOption("parchment");
  await page.locator(".parchment .chat").waitFor();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByLabel("Export", { exact: true }).selectOption("Markdown")]);
  assert.match(download.suggestedFilename(), /^c_.*\.md$/);
  await page.getByLabel("Code", { exact: true }).selectOption("Python");
  await page.getByText("TOOLWIRE_API_KEY").waitFor();
  await page.getByRole("button", { name: "Close" }).click();
  await page.reload();
  await page.getByText("The newest stable release is").waitFor();
  await page.getByRole("button", { name: /^Forget/ }).click();
  await page.getByText("Begin with a message").waitFor();
  await page.reload();
  await page.getByText("Begin with a message").waitFor();
  await end();
});

test("a failed answer says what to do, and one that is stopped ends", async () => {
  const base = withQuestion(answers());
  let tries = 0;
  const stopped = [];
  own.state.answers = { ...base, "DELETE /console/api/chat/ex_chat": (_, response) => (stopped.push(1), response.writeHead(204).end()), "POST /console/api/chat": (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    if (tries++) return response.write(sse(CHAT.slice(0, 12)));
    response.end(sse([...CHAT.slice(0, 9), ["error", { exchange: "ex_chat", error: { code: "timeout", message: HOSTILE, retryable: true } }]]));
  } };
  const { page, end } = await visit("#/play");
  await send(page);
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await check(page, "failed answer");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("The newest stable release").waitFor();
  await Promise.all([page.waitForResponse((response) => response.request().method() === "DELETE"), page.getByRole("button", { name: "Stop" }).click()]);
  await page.getByText("You stopped it.").waitFor();
  assert.deepEqual(stopped, [1]);
  await end();
  own.state.answers = base;
});

test("thousands of exchanges and hundreds of events a second keep the page small", async (t) => {
  const base = withQuestion(answers());
  let sent = 0;
  const json = (value) => (_, response) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
  const row = (at) => ({ ...ROWS[1], id: `ex_${at}`, t: Date.now() - 60_000 - at * 10 });
  own.state.answers = { ...base, "GET /admin/exchanges": json({ exchanges: Array.from({ length: 1000 }, (_, at) => row(at)), more: false, kept: 1000, keep: 2000, since: 0 }), "GET /admin/events": (_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const timer = setInterval(() => {
      const events = Array.from({ length: 20 }, () => {
        const exchange = `ex_new${Math.floor(sent / 10)}`, kinds = ["message_start", ...Array(8).fill("message_update"), "message_complete"];
        const kind = kinds[sent++ % 10];
        return [kind, { t: Date.now(), exchange, hop: 1, model: "quick", client: "chat", upstream: "local", bytes: sent, tokens: sent, held: 0, finish: "stop", usage: {}, ms: 10 }];
      });
      response.write(sse(events));
    }, 100);
    response.on("close", () => clearInterval(timer));
  } };
  const { page, end } = await visit("#/live");
  await page.evaluate(() => {
    globalThis.long = [];
    new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => Math.round(duration)))).observe({ type: "longtask" });
  });
  await page.getByRole("row", { name: /lumo-max/ }).first().waitFor();
  await page.locator("tw-list").evaluate((list) => (list.scrollTop = 5000));
  const size = () => page.evaluate(() => document.querySelectorAll("*").length);
  while (sent < 1000) {
    await page.waitForTimeout(500);
    assert.ok((await size()) < 3000);
  }
  await page.getByRole("button", { name: /new: show/ }).waitFor();
  await page.getByText(/1,1\d\d of 2,000 kept/).waitFor();
  await page.locator("tw-list").evaluate((list) => (list.scrollTop = list.scrollHeight));
  await page.getByRole("row", { name: /lumo-max/ }).last().waitFor();
  assert.ok((await size()) < 3000);
  const long = await page.evaluate(() => long);
  t.diagnostic(`${sent} events, ${await size()} elements, long tasks in ms: ${long.join(", ") || "none"}`);
  // Closing the page ends its feed. The next test uses the real feed.
  await end();
  own.state.answers = base;
});
