// Observes and controls the scripted upstream.

import { setTimeout as sleep } from "node:timers/promises";

import { STAND } from "./sdk.mjs";

// How long to wait for an expected state, in milliseconds.
const PATIENCE = 20_000;

/** Returns the scenario's counts, and the bodies of its latest requests. */
export const seen = async (scenario) => (await fetch(`${STAND.upstream}/state/${scenario}`)).json();

/** Lets the scenario's response continue. */
export const go = (scenario) => fetch(`${STAND.upstream}/go/${scenario}`);

export async function until(scenario, expected) {
  for (const deadline = Date.now() + PATIENCE; ; await sleep(20)) {
    const now = await seen(scenario);
    if (Object.entries(expected).every(([key, value]) => now[key] === value)) return;
    if (Date.now() > deadline) {
      throw new Error(`${scenario}: ${JSON.stringify(expected)} was expected, ${JSON.stringify(now)} is there`);
    }
  }
}
