// Pages of other sites, in a browser on the machine where toolwire runs without keys, must not reach models or tools, or read anything.

import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { open } from "./browser.mjs";
import { ask, listen, plain, stand } from "./stand.mjs";

let browser;

before(async () => {
  browser = await open(chromium);
});

after(() => browser?.close());

const BODY = JSON.stringify({ model: "echo", messages: [{ role: "user", content: "calc, please" }] });
const PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/embeddings", "/v1/providers"];

// Serves a page of another site, which the browser opens.
async function site(t) {
  const server = http.createServer((request, response) => response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>Another site</title><body>"));
  const port = await listen(server);
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${port}`;
}

async function pageAt(t, url) {
  const context = await browser.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(url);
  return page;
}

// Sends every kind of request that a page can send without permission. Returns what the page can read of the responses.
const attack = (page, base) =>
  page.evaluate(
    async ([base, paths, body]) => {
      const read = [];
      const fetched = async (path, options) => {
        try {
          const response = await fetch(base + path, options);
          read.push([path, response.status, await response.text()]);
        } catch {
          read.push([path, 0, ""]);
        }
      };
      for (const path of paths) {
        await fetched(path, { method: "POST", mode: "no-cors", body });
        await fetched(path, { method: "POST", mode: "no-cors", body: new Blob([body], { type: "text/plain" }), credentials: "include" });
        await fetched(path, { method: "POST", headers: { "content-type": "text/plain" }, body });
        await fetched(path, { method: "POST", headers: { "content-type": "application/json" }, body });
        navigator.sendBeacon(base + path, body);
        const frame = Object.assign(document.createElement("iframe"), { name: `frame${path}` });
        const form = Object.assign(document.createElement("form"), { action: base + path, method: "POST", enctype: "text/plain", target: frame.name });
        const [start, end] = [body.slice(0, -1) + ',"x":"', '"}'];
        form.append(Object.assign(document.createElement("input"), { name: start, value: end }));
        document.body.append(frame, form);
        const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
        form.submit();
        await Promise.race([loaded, new Promise((resolve) => setTimeout(resolve, 3000))]);
      }
      for (const path of ["/v1/models", "/metrics", "/v1/files/x", "/"]) {
        await fetched(path, {});
        await fetched(path, { mode: "no-cors" });
        for (const element of ["script", "img"]) {
          const loads = Object.assign(document.createElement(element), { src: base + path });
          const over = new Promise((resolve) => ["load", "error"].forEach((kind) => loads.addEventListener(kind, resolve)));
          document.body.append(loads);
          await over;
        }
      }
      return read;
    },
    [base, PATHS, BODY],
  );

const CONFIGURATION = 'passthrough = ["/v1/embeddings", "/v1/files/*"]';

test("a page of another origin sends what it may: nothing reaches the upstream, and no tool runs", async (t) => {
  const own = await stand({ top: CONFIGURATION });
  t.after(() => own.close());
  const read = await attack(await pageAt(t, await site(t)), own.direct);
  assert.deepEqual(own.asked(), []);
  assert.ok(read.every(([, status, text]) => status === 0 && text === ""), JSON.stringify(read));
  assert.equal(await own.calls("calc"), 0);
  // Programs can send the requests that are refused to pages.
  assert.match(await ask(own, "calc, please"), / said:/);
  assert.equal(await own.calls("calc"), 1);
});

test("a page whose name leads here is of the same origin, and gets 403", async (t) => {
  const own = await stand({ top: CONFIGURATION });
  t.after(() => own.close());
  const base = own.direct.replace("127.0.0.1", "evil.example");
  const read = await attack(await pageAt(t, base), base);
  assert.deepEqual(own.asked(), []);
  assert.equal(await own.calls("calc"), 0);
  assert.ok(read.some(([, status]) => status === 403));
  assert.ok(read.every(([, status, text]) => status === 403 || (status === 0 && text === "")), JSON.stringify(read.map(([path, status]) => [path, status])));
  assert.ok(read.every(([, , text]) => text === "" || text.includes("in `hosts` of the configuration")));
});

test("toolwire without a configuration file, as README.md starts it", async (t) => {
  const own = await plain();
  t.after(() => own.close());
  const base = own.direct.replace("127.0.0.1", "evil.example");
  for (const [page, target] of [[await site(t), own.direct], [base, base]]) {
    const read = await attack(await pageAt(t, page), target);
    assert.ok(read.every(([, status]) => status === 0 || status === 403), JSON.stringify(read));
  }
  // At its start, toolwire asks for the models.
  const posted = () => own.asked().filter((line) => !line.startsWith("GET "));
  assert.deepEqual(posted(), []);
  assert.match(await ask(own, "Hello"), /said:/);
  assert.deepEqual(posted(), ["POST /v1/chat/completions"]);
});

test("a page of an allowed origin calls, and reads", async (t) => {
  const origin = await site(t);
  const own = await stand({ top: `cors_origins = ["${origin}"]` });
  t.after(() => own.close());
  const page = await pageAt(t, origin);
  const said = await page.evaluate(
    async ([base, body]) => {
      const response = await fetch(`${base}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body });
      return [response.status, (await response.json()).choices[0].message.content, (await (await fetch(`${base}/v1/models`)).json()).object];
    },
    [own.direct, JSON.stringify({ model: "echo", messages: [{ role: "user", content: "Hello" }] })],
  );
  assert.deepEqual([said[0], said[2]], [200, "list"]);
  assert.match(said[1], /You said/);
});

test("the address bar opens what a browser may open", async (t) => {
  const own = await stand({ top: CONFIGURATION });
  t.after(() => own.close());
  for (const name of ["127.0.0.1", "localhost"]) {
    const base = own.direct.replace("127.0.0.1", name);
    const page = await pageAt(t, base);
    assert.match(await page.textContent("body"), /toolwire speaks/);
    await page.goto(`${base}/console/`);
    await page.locator("h1").waitFor({ state: "attached" });
  }
});

test("what an upstream has stored becomes no page of toolwire's origin", async (t) => {
  const own = await stand({ top: CONFIGURATION });
  t.after(() => own.close());
  const context = await browser.newContext();
  t.after(() => context.close());
  // Whether a script in the file runs when the browser opens the file.
  const runs = async (base, kind) => {
    const page = await context.newPage();
    let ran = false;
    page.on("dialog", (dialog) => {
      ran = true;
      dialog.dismiss();
    });
    await page.goto(`${base}/v1/files/${kind.replace("/", "_2F").replace("+", "_2B")}`).catch(() => {});
    await page.waitForTimeout(300);
    await page.close();
    return ran;
  };
  for (const kind of ["text/html", "image/svg+xml", "application/xhtml+xml", "error"]) {
    assert.equal(await runs(own.direct, kind), false, kind);
    assert.equal(await runs(own.upstream, kind), true, `${kind}, from the upstream itself`);
  }
  const page = await context.newPage();
  await page.goto(`${own.direct}/console/`);
  const text = await page.evaluate(async (url) => (await fetch(url)).text(), `${own.direct}/v1/files/text_2Fhtml`);
  assert.match(text, /<script>/, "the page of this server reads it as it is");
});
