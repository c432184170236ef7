// Observes and controls the scripted upstream.

import { setTimeout as sleep } from "node:timers/promises";

import { STAND } from "./sdk.mjs";

// How long to wait for an expected state, in milliseconds.
const PATIENCE = 20_000;

export async function seen(scenario) {
  const all = await (await fetch(`${STAND.upstream}/state`)).json();
  return all[scenario] ?? { open: 0, left: 0, requests: [] };
}

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
