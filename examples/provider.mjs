// A program that registers a tool with toolwire and runs its calls over a stream that it opens itself. It needs nothing but
// Node.js; in a browser, or an add-on whose origin is in `cors_origins`, the same code works from `serve` on.
//
//     node provider.mjs http://127.0.0.1:8787 REGISTRATION_KEY
//
// docs/tools.md describes the protocol.

const TRIES = 20; // registration: how often
const PAUSE = 3000; // milliseconds in between

const ID = "clock-javascript";
const TOOLS = [
  {
    name: "clock.now",
    label: "Time",
    description: "The current time in UTC.",
    parameters: { type: "object", properties: {} },
  },
];

/** Runs a call: what toolwire gets as its result. */
async function run(tool, args) {
  if (tool === "clock.now") return { content: [{ type: "text", text: new Date().toISOString() }] };
  return { error: `Unknown tool: ${tool}` };
}

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function send(base, key, path, options = {}) {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(base + path, { ...options, headers });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  return response;
}

const post = (base, key, path, body) => send(base, key, path, { method: "POST", body: JSON.stringify(body) });

async function register(base, key) {
  for (let tried = 1; ; tried += 1) {
    try {
      const answer = await post(base, key, "/v1/providers", { id: ID, label: "Clock", tools: TOOLS });
      console.error("registered:", await answer.json());
      return;
    } catch (error) {
      if (tried === TRIES) throw error;
      console.error("not registered yet:", error.message);
      await sleep(PAUSE);
    }
  }
}

/** The events of a stream, as [name, data]. */
async function* events(response) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of response.body) {
    text += decoder.decode(bytes, { stream: true });
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split("\n");
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field("data") !== undefined) yield [field("event"), JSON.parse(field("data"))];
    }
  }
}

/** Reads calls and answers them until the stream ends. Calls run at the same time. */
async function serve(base, key) {
  const stream = await send(base, key, `/v1/providers/${ID}/calls`);
  for await (const [name, call] of events(stream)) {
    if (name !== "call") continue;
    run(call.toolName, call.params)
      .catch((error) => ({ error: String(error) }))
      .then((result) => post(base, key, `/v1/providers/${ID}/results/${encodeURIComponent(call.toolCallId)}`, result))
      .catch((error) => console.error("the result was not accepted:", error.message));
  }
}

const [base, key] = process.argv.slice(2);
if (!key) {
  console.error("usage: provider.mjs URL REGISTRATION_KEY");
  process.exit(2);
}
for (;;) {
  await register(base.replace(/\/$/, ""), key);
  // When the stream ends, toolwire has stopped or forgotten the registration: begin again.
  await serve(base.replace(/\/$/, ""), key).catch((error) => console.error("the stream broke off:", error.message));
  await sleep(PAUSE);
}
