// Pictures of every page, for people: node shoot.mjs FOLDER
import { chromium } from "playwright-core";
import { answers } from "./scripts.mjs";
import { stand } from "./stand.mjs";
import { open } from "./browser.mjs";

const folder = process.argv[2] ?? ".";
const only = process.argv[3];
const own = await stand({ answers: answers() });
const browser = await open(chromium);
const VIEWS = { live: "#/live", exchange: "#/live/ex_7f3a", formats: "#/formats", tools: "#/tools/calc", settings: "#/settings", provider: "#/settings/providers.serper", play: "#/play", measure: "#/measure" };
for (const scheme of ["light", "dark"]) {
  for (const width of [1280, 360]) {
    const context = await browser.newContext({ viewport: { width, height: width < 900 ? 740 : 800 }, colorScheme: scheme, reducedMotion: "reduce" });
    const page = await context.newPage();
    page.on("console", (message) => console.log(message.type(), message.text()));
    page.on("pageerror", (error) => console.log(error.stack));
    for (const [name, hash] of Object.entries(VIEWS)) {
      if (only && name !== only) continue;
      await page.goto(own.url + hash);
      await page.waitForTimeout(1200);
      if (name === "play") {
        await page.getByLabel("Model", { exact: true }).fill("echo");
        await page.getByLabel("Message", { exact: true }).fill("Find the newest Rust release");
        await page.getByRole("button", { name: "Send" }).click();
        await page.waitForTimeout(900);
      }
      await page.screenshot({ path: `${folder}/${name}-${width}-${scheme}.png`, fullPage: name === "play" });
    }
    await context.close();
  }
}
await browser.close();
await own.close();
