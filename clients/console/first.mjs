// Measures the time from `toolwire serve URL` to its first answer and to the first picture of Live: node first.mjs [ROUNDS]. The
// request is sent, and the page opened in a browser that runs already, as soon as toolwire listens. Milliseconds since its start.

import { chromium } from "playwright-core";
import { open } from "./browser.mjs";
import { ask, plain } from "./stand.mjs";

const rounds = Number(process.argv[2] ?? 15);
const now = () => performance.timeOrigin + performance.now();
const browser = await open(chromium);
const measured = [];

for (let round = 0; round < rounds; round++) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  await page.addInitScript(() => {
    const seen = new MutationObserver(() => {
      if (!document.querySelector("tw-list .item")) return;
      seen.disconnect();
      // The frame after the next one shows it.
      requestAnimationFrame(() => requestAnimationFrame(() => (globalThis.firstRow = performance.timeOrigin + performance.now())));
    });
    seen.observe(document, { childList: true, subtree: true });
  });
  const began = now();
  const own = await plain([]);
  const listens = now();
  const [answer] = await Promise.all([ask(own, "Hello").then(now), page.goto(`${own.direct}/console/`)]);
  await page.waitForFunction(() => globalThis.firstRow && performance.getEntriesByName("first-contentful-paint").length);
  const [picture, row] = await page.evaluate(() => [performance.timeOrigin + performance.getEntriesByName("first-contentful-paint")[0].startTime, globalThis.firstRow]);
  measured.push([listens, answer, picture, row].map((at) => at - began));
  await context.close();
  await own.close();
}
await browser.close();

["listens", "first answer", "first picture of Live", "first exchange in Live"].forEach((what, index) => {
  const times = measured.map((own) => own[index]).sort((one, other) => one - other);
  console.log(`${what}: median ${times[Math.floor(times.length / 2)].toFixed(0)} ms, least ${times[0].toFixed(0)} ms`);
});
