// SillyTavern's page in Chromium, with its own server in between.

import assert from "node:assert/strict";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { open } from "../../console/browser.mjs";
import { chromium } from "../../console/node_modules/playwright-core/index.mjs";
import { KEY, MODELS, pageServer, REFUSAL, stand } from "./stand.mjs";

const SERVER = fileURLToPath(new URL("../nightly/sillytavern/node_modules/sillytavern/server.js", import.meta.url));
// How long the server may take to start, and the page to load, in milliseconds. The server bundles the page's libraries first.
const STARTING = 240_000;

let own, server, browser, page;

const drawer = (id) => page.locator(`#${id} .drawer-toggle`).first().click();

async function choose(model) {
  await drawer("sys-settings-button");
  await page.locator("#model_custom_select").selectOption(model);
  await drawer("sys-settings-button");
}

async function send(text) {
  await page.locator("#send_textarea").fill(text);
  await page.locator("#send_but").click();
}

const said = (text) => page.locator(".mes:not([is_user=true]) .mes_text").getByText(text).last();
const toast = (text) => page.locator(".toast-error").getByText(text);

before(async () => {
  own = await stand();
  const options = (folder) => ["--dataRoot", path.join(folder, "data"), "--configPath", path.join(folder, "config.yaml"), "--browserLaunchEnabled", "false", "--port"];
  server = await pageServer((folder) => [process.execPath, SERVER, ...options(folder)], STARTING);
  browser = await open(chromium);
  page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await page.goto(server.url);
  await page.locator("#preloader").waitFor({ state: "detached", timeout: STARTING });
  await page.locator("dialog[open] .popup-button-ok").click();
});

after(async () => {
  await browser?.close();
  await server?.close();
  await own?.close();
});

test("it connects and lists the models", async () => {
  await drawer("sys-settings-button");
  await page.locator("#main_api").selectOption("openai");
  await page.locator("#chat_completion_source").selectOption("custom");
  await page.locator("#custom_api_url_text").fill(`${own.url}/v1`);
  await page.locator("#api_key_custom").fill(KEY);
  await page.locator("#api_button_openai").click();
  const listed = page.locator("#model_custom_select option:not([value=''])");
  await listed.first().waitFor({ state: "attached" });
  assert.deepEqual(await listed.allTextContents(), MODELS);
  await drawer("sys-settings-button");
  await drawer("ai-config-button");
  await page.locator("#openai_function_calling").check();
  await drawer("ai-config-button");
  const schema = JSON.stringify({ type: "object", properties: { city: { type: "string" } }, required: ["city"] });
  await send(`/tools-register name=get_weather description="Weather of a city" parameters=${schema} {: /return 18 °C in {{var::arg.city}} :}`);
  // The page would otherwise send the next message before it has run the command.
  await page.waitForFunction(() => globalThis.SillyTavern.getContext().ToolManager.tools.length === 1);
});

for (const model of MODELS) {
  test(`${model}: the page runs its own tool`, async () => {
    await choose(model);
    await send("What is the weather?");
    await said("I have read: 18 °C.").waitFor();
    const result = own.requests.at(-1).messages.at(-1).content;
    assert.ok(result.includes("18 °C in Paris"), result);
    assert.equal(await page.locator(".mes_text").getByText(/tool_call>/).count(), 0);
  });

  test(`${model}: toolwire runs a search`, async () => {
    await send("Is there any news?");
    await said("I have read: Rust 2.0.").waitFor();
    assert.equal(await page.getByText("Tool calls: web_search").count(), 0);
  });

  test(`${model}: errors are shown`, async () => {
    await send("Please fail.");
    await toast(REFUSAL).first().waitFor();
    await send("This is broken.");
    await toast("the upstream broke off inside its response").first().waitFor();
    await said("This is broken.").waitFor();
  });

  test(`${model}: the next answer comes after errors`, async () => {
    await send("Hello.");
    await page.locator(".mes_text strong").getByText("Hello.").last().waitFor();
    await page.locator("#chat").evaluate((chat) => chat.querySelectorAll(".mes").forEach((each) => each.remove()));
  });
}
