// Open WebUI's page in Chromium, with its own server in between.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { open } from "../../console/browser.mjs";
import { chromium } from "../../console/node_modules/playwright-core/index.mjs";
import { KEY, MODELS, pageServer, REFUSAL, stand } from "./stand.mjs";

const PROGRAM = fileURLToPath(new URL("../nightly/open-webui/.venv/bin/open-webui", import.meta.url));
// How long the server may take to start, and the page to load, in milliseconds.
const STARTING = 400_000;

const TOOL = `
class Tools:
    def get_weather(self, city: str) -> str:
        """
        Weather of a city
        :param city: The city
        """
        return "18 °C in " + city
`;

// No accounts, nothing from the network, and no requests for titles and the like. The default connection would ask a vendor.
const SETTINGS = {
  WEBUI_AUTH: "False",
  WEBUI_SECRET_KEY: "key",
  RAG_EMBEDDING_ENGINE: "ollama",
  OFFLINE_MODE: "True",
  SCARF_NO_ANALYTICS: "True",
  ENABLE_OLLAMA_API: "False",
  OPENAI_API_BASE_URL: "http://127.0.0.1:9/v1",
  ENABLE_TITLE_GENERATION: "False",
  ENABLE_TAGS_GENERATION: "False",
  ENABLE_FOLLOW_UP_GENERATION: "False",
};

let own, server, browser, page;

const button = (name) => page.getByRole("button", { name });

async function send(text) {
  await page.locator("#chat-input").fill(text);
  await page.locator("#send-message-button").click();
}

before(async () => {
  own = await stand();
  server = await pageServer(() => [PROGRAM, "serve", "--host", "127.0.0.1", "--port"], STARTING, (folder) => ({ ...SETTINGS, DATA_DIR: folder }));
  browser = await open(chromium);
  page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  page.setDefaultTimeout(60_000);
  // It shows what is new, at some time after it has been loaded.
  await page.addLocatorHandler(button("Okay, Let's Go!"), (news) => news.click());
  await page.goto(server.url, { timeout: STARTING });
  await page.locator("#chat-input").waitFor({ timeout: STARTING });
});

after(async () => {
  await browser?.close();
  await server?.close();
  await own?.close();
});

test("it connects and lists the models", async () => {
  await page.goto(`${server.url}/admin/settings/connections`);
  await button("Add Connection").first().click({ timeout: STARTING });
  await page.getByLabel("URL", { exact: true }).fill(`${own.url}/v1`);
  await page.getByLabel("API Key").fill(KEY);
  await button("Verify Connection").click();
  await page.getByText("Server connection verified").waitFor();
  await Promise.all([page.waitForResponse((response) => response.url().endsWith("/openai/config/update") && response.ok()), button("Save").last().click()]);
  // Its editor for tools is one for code.
  const status = await page.evaluate(async (content) => {
    const headers = { "content-type": "application/json", authorization: `Bearer ${localStorage.token}` };
    const body = JSON.stringify({ id: "weather", name: "Weather", content, meta: { description: "Weather" } });
    return (await fetch("/api/v1/tools/create", { method: "POST", headers, body })).status;
  }, TOOL);
  assert.equal(status, 200);
  await page.goto(server.url);
  await page.locator("#model-selector-model-button").click();
  const listed = page.locator("button[role=option]");
  await listed.first().waitFor();
  assert.deepEqual((await listed.allTextContents()).map((each) => each.trim()), MODELS);
});

for (const model of MODELS) {
  test(`${model}: the page runs its own tool`, async () => {
    await page.goto(`${server.url}/?model=${model}`);
    await page.locator("#model-selector-model-button").getByText(model).waitFor();
    await page.locator("#integration-menu-button").click();
    await page.locator("[role=menu]:visible").getByText("Tools").click();
    await page.getByText("Weather", { exact: true }).click();
    await page.keyboard.press("Escape");
    await send("What is the weather?");
    await page.getByText("I have read: 18 °C.").waitFor();
    await page.getByText("View Result from get_weather").waitFor();
    const result = own.requests.at(-1).messages.at(-1).content;
    assert.ok(result.includes("18 °C in Paris"), result);
    assert.equal(await page.getByText("tool_call>").count(), 0);
  });

  test(`${model}: toolwire runs a search, whose source the page shows`, async () => {
    await send("Is there any news?");
    await page.getByText("I have read: Rust 2.0.").waitFor();
    await button("1 Source").waitFor();
    assert.equal(await page.getByText("View Result from web_search").count(), 0);
  });

  test(`${model}: errors are shown`, async () => {
    await send("Please fail.");
    await page.getByText(REFUSAL).first().waitFor();
    await send("This is broken.");
    await page.getByText("the upstream broke off inside its response").first().waitFor();
    await page.locator("strong").getByText("This is broken.").waitFor();
  });

  test(`${model}: the next answer comes after errors`, async () => {
    await send("Hello.");
    await page.locator("strong").getByText("Hello.").waitFor();
  });
}
