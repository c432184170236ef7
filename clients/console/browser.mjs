// Starts Chromium for the tests, and opens pages in it.

import assert from "node:assert/strict";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
  // The browser does not treat this name as loopback, so its pages have no clipboard and no locks, as in a LAN without TLS.
  "--host-resolver-rules=MAP console.test 127.0.0.1, MAP evil.example 127.0.0.1"];

// On a loaded machine, a launch sometimes ends with SIGSEGV. Only this failure is retried, up to twice.
export async function open(chromium) {
  for (let left = 2; ; left--) {
    try {
      return await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
    } catch (error) {
      if (!left || !error.message.includes("SIGSEGV")) throw error;
    }
  }
}

// Opens `url` in a new page. The page must cause no errors, no violations of the content security policy, and no requests to other
// origins. `allowed` matches console messages that are expected.
export async function visit(browser, url, { allowed = /^$/, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"], ...options });
  const page = await context.newPage();
  const problems = [];
  const { origin } = new URL(url);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && !allowed.test(message.text()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.stack));
  page.on("dialog", (dialog) => problems.push(`dialog: ${dialog.message()}`));
  page.on("request", (request) => request.url().startsWith("blob:") || new URL(request.url()).origin === origin || problems.push(`request to ${request.url()}`));
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)));
  await page.goto(url);
  await page.locator("h1").first().waitFor({ state: "attached" });
  return {
    page,
    context,
    async end() {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}

// The connection state shown in the rail.
export const state = (page) => page.locator(".rail .end .state");

export const live = (page) => state(page).getByText("Connected", { exact: true }).waitFor();

// Runs `act`, which starts a download, and returns the download's name and path.
export async function saved(page, act) {
  const [download] = await Promise.all([page.waitForEvent("download"), act()]);
  return { name: download.suggestedFilename(), path: await download.path() };
}
