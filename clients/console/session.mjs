// A browser and a stand for all tests of a file.

import { after } from "node:test";
import { chromium } from "playwright-core";
import { open } from "./browser.mjs";
import { stand } from "./stand.mjs";

export const browser = await open(chromium);
export const own = await stand();

after(async () => {
  await browser.close();
  await own.close();
});
