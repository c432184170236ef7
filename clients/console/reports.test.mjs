// Makes the HTML reports of `bench`, `calibrate` and `conform`, of runs that succeed and of runs that fail, and opens them in Chromium.
// They must fit at three sizes, without cut columns, in both themes, with no findings by axe.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { open, visit } from "./browser.mjs";
import { listen } from "./stand.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const binary = path.resolve(process.env.TOOLWIRE_BIN ?? path.join(here, "../../target/debug/toolwire"));
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const PROMPTS = `
[[prompts]]
user = "CITY Lisbon"
calls = [{ name = "get_weather", arguments = { city = "Lisbon" } }]
[[prompts]]
group = "required"
user = "CITY Oslo"
tool_choice = "required"
calls = [{ name = "get_weather", arguments = { city = "Oslo" } }]
[[prompts]]
group = "none"
user = "Good morning"
`;

const called = (name, parameters) => `<tool_call>\n${JSON.stringify({ name, arguments: parameters })}\n</tool_call>`;
const MISTAKES = [called("get_weather", { city: "value" }), "Action: get_weather with Lisbon", "I am not sure.", called("no_such_tool", {})];

// A model that calls the tool for a city. Below `/wrong`, it makes each mistake in turn, and rejects every fifth request.
function model() {
  let asked = 0;
  return http.createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    if (request.method === "GET") return response.writeHead(404).end("{}");
    const isWrong = request.url.startsWith("/wrong");
    if (isWrong && ++asked % 5 === 0) return response.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"<b>The model is broken</b>"}}');
    const city = /CITY (\w+)/.exec(body)?.[1];
    const text = isWrong ? MISTAKES[asked % MISTAKES.length] : city ? called("get_weather", { city }) : "Good morning.";
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (delta, finish = null) => response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
    for (const content of text.match(/[^]{1,9}/g)) send({ content });
    send({}, "stop");
    response.end("data: [DONE]\n\n");
  });
}

// Runs toolwire, and returns its exit status.
const run = (...options) => new Promise((resolve, reject) => {
  const child = spawn(binary, options, { cwd: folder, stdio: ["ignore", "ignore", "ignore"] });
  child.on("error", reject).on("exit", resolve);
});

let browser, folder, server, upstream;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "toolwire-reports-"));
  await writeFile(path.join(folder, "prompts.toml"), PROMPTS);
  server = model();
  upstream = `http://127.0.0.1:${await listen(server)}`;
  browser = await open(chromium);
});

after(async () => {
  await browser?.close();
  server?.close();
  if (folder) await rm(folder, { recursive: true });
});

const LONG = `a-target-whose-name-is-${"very-".repeat(20)}long`;
const calibrate = ["calibrate", "--model", "m", "--format", "hermes,fenced", "--quiet"];
const bench = ["bench", "--quiet", "--pace=none", "--tool-count=2"];
const conform = ["conform", "--quiet", "--format=none"];

// Each report's command, its exit status and a text on the page.
const REPORTS = {
  "calibrate": [() => [...calibrate, "--upstream", `${upstream}/v1`, "--prompts", "prompts.toml", "--cache", "good"], 0, "Right answers by group of prompts"],
  "calibrate with failures": [() => [...calibrate, "--upstream", `${upstream}/wrong/v1`, "--cache", "wrong"], 0, "Examples of failures"],
  "conform": [() => [...conform, "--upstream-dialect=chat", "--only=chat/text/short"], 0, "7 of 7 cases held"],
  "conform with failures": [() => [...conform, "--target", `${upstream}/v1`, "--mock-listen=127.0.0.1:0", "--client=chat,responses,messages", "--only=chat/native/*"], 1, "Rules that were violated"],
  "bench": [() => [...bench, "--requests=4", "--rounds=2", "--target", `model=${upstream}/v1`, "--target", `${LONG}=${upstream}/v1`, "--pid", `model=${process.pid}`], 0, "Percentile curves"],
  "bench with a ramp": [() => [...bench, "--target", `${LONG}=${upstream}/v1`, "--ramp-to=2", "--ramp-step=50ms", "--slo=ttft_p99<1000s"], 0, "2 streams"],
  "bench with failures": [() => [...bench, "--requests=4", "--rounds=1", "--target=dead=http://127.0.0.1:1/v1", "--target", `wrong=${upstream}/wrong/v1`, "--strict"], 1, "Complaints"],
};

// Everything that is wider than its place: the page, tables, code and charts.
const cut = (page) => page.evaluate(() => [document.documentElement, ...document.querySelectorAll(".scroll, pre, .chart, td, th")].filter((element) => element.scrollWidth > element.clientWidth && element.clientWidth > 1).map((element) => `${element.outerHTML.slice(0, 120)}: ${element.scrollWidth - element.clientWidth} px`));

async function violations(page) {
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"], preload: false }));
  return found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 200)}`);
}

for (const [name, [command, status, text]] of Object.entries(REPORTS)) {
  test(`the report of ${name} is accessible and fits`, async () => {
    const file = path.join(folder, `${name}.html`);
    assert.equal(await run(...command(), "--html", file), status);
    const { page, end } = await visit(browser, pathToFileURL(file).href);
    await page.getByText(text).first().waitFor();
    for (const summary of await page.locator("summary").all()) await summary.click();
    await page.evaluate(axe);
    for (const [width, height] of [[1440, 900], [768, 1024], [390, 844]]) {
      await page.setViewportSize({ width, height });
      // Charts are drawn for the new width in the next frames.
      await page.waitForFunction(() => [...document.querySelectorAll(".chart, .row > div:last-child")].every((box) => box.firstChild?.viewBox?.baseVal.width === box.clientWidth));
      assert.deepEqual(await cut(page), [], `${width} px`);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        assert.deepEqual(await violations(page), [], `${width} px, ${colorScheme}`);
      }
    }
    await end();
  });
}

test("without scripts, the report of bench is a table", async () => {
  const file = pathToFileURL(path.join(folder, "bench.html")).href;
  const { page, end } = await visit(browser, file, { javaScriptEnabled: false, viewport: { width: 390, height: 844 } });
  await page.getByRole("region", { name: "Figures" }).getByText("TTFT").first().waitFor();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth));
  await end();
});
