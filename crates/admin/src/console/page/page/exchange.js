// One exchange of Live: what is known of it, its events, and what can be done with it.

import { adminUrl, ApiError, call, consoleUrl, get, part, request, session } from "../core/api.js";
import { dialog, facts, fill, fresh, h, name, region, select } from "../core/dom.js";
import { STATES } from "../core/exchange.js";
import { quoted } from "../core/exports.js";
import { listen, readEvents } from "../core/feed.js";
import { saveFixture } from "../core/fixture.js";
import { changed as edited, CHOICES, modelOf, placesOf, valueAt, withValue } from "../core/request.js";
import { go, href } from "../core/route.js";
import { absolute, count, duration, tenth } from "../core/time.js";
import { Cards, compared } from "../view/hops.js";
import { copied } from "../view/json.js";
import { failed, note, remark } from "../view/note.js";
import { story, stream } from "../view/stream.js";

const path = (id, rest = "") => `exchanges/${part(id)}${rest}`;

// `list`: {exchanges, server, timeOf, changed} of the page.
export function exchange(place, { id, query }, close, { exchanges, server, timeOf, changed }) {
  const abort = new AbortController();
  const known = h("div.known");
  const body = h("div.stack");
  const signal = abort.signal;
  let viewer = null, asked = null;
  const here = (change) => href("live", id, { q: query.get("q"), view: query.get("view"), ...change });
  const actions = h("div.row.push", ["Save as fixture", "Rewrite command", "Read again", "Send again"].map((label, index) =>
    h("button.plain", { onclick: () => [() => saveFixture(id), rewrite, readAgain, sendAgain][index]().catch(failed) }, label)));
  fill(place, h("div.row", h("button.plain", { onclick: close }, "‹ Close"), h("h2", { tabindex: -1 }, name(id)), actions), known, body);

  function paintFacts(row = {}) {
    // Two exchanges have their own.
    if (!query.get("with")) fill(known, facts([["State", STATES[row.state] ?? row.state], ["Model", row.model], ["Client", row.client], ["Upstream", [row.upstream, row.upstream_dialect].filter(Boolean).join(", ")], ["Key", row.key], ["Request", row.request], ["Hops", row.hops], ["Client calls", row.client_calls], ["Hosted calls", row.hosted_calls], ["Missed call", row.missed_format && `written as ${row.missed_format}, which is not looked for`], ["Quoted calls", row.quoted_calls && `${count(row.quoted_calls.text)} left as text, ${count(row.quoted_calls.call)} made`], ["TTFT", row.ttft_ms == null ? null : duration(row.ttft_ms)], ["Tokens/s", row.tokens_per_s == null ? null : tenth(row.tokens_per_s)], ["Time", row.ms == null ? null : duration(row.ms)], ["Finish", row.finish], ["Began", row.t && absolute(row.t)]]));
  }

  function tell(message) {
    const events = exchanges.events.get(id) ?? [];
    fill(body, message, events.length ? story(events) : null);
  }

  async function askRequests() {
    asked = await get(path(id, "/requests"), { signal }).catch(() => asked);
    viewer?.asked(asked);
  }

  async function load() {
    const told = exchanges.byId.get(id);
    paintFacts(told);
    let whole = null;
    try {
      whole = await get(path(id), { signal });
      exchanges.merge([whole.exchange]);
      paintFacts({ ...whole.exchange, ...exchanges.byId.get(id) });
    } catch (failure) {
      if (failure.name === "AbortError") return;
      if (failure.status === 404 && !told) {
        actions.hidden = true;
        return tell(remark("Not kept any more", h("p", `The last ${count(server.keep)} exchanges are kept, since ${absolute(failure.since ?? server.since)}.`)));
      }
      if (failure.status !== 404) return tell(note(failure, { retry: load }));
    }
    const error = whole?.exchange?.error ?? told?.error;
    try {
      await askRequests();
      if (query.get("with") || query.get("detect")) return await compare();
      await events(error);
    } catch (failure) {
      if (failure.name === "AbortError") return;
      const isMissing = failure instanceof ApiError && failure.status === 404;
      const isOff = session.peek()?.capture === "off";
      actions.hidden = isMissing;
      tell([error && note(error), isMissing ? remark("Its events were not kept", h("p", isOff ? "Nothing of contents is captured: " : "What the feed told of it is below. ", isOff && h("a", { href: href("settings", "admin.capture") }, "see the setting"))) : note(failure, { retry: load })]);
    }
  }

  async function finished(grown) {
    grown();
    const { exchange: row } = await get(path(id), { signal });
    exchanges.merge([row]);
    changed();
    paintFacts(row);
    if (row.error) body.prepend(note(row.error));
    await askRequests();
  }

  async function events(error) {
    const response = await request("GET", adminUrl(path(id, "/events")), { signal, headers: { Accept: "text/event-stream, application/json" } });
    const begin = (rows, calls) => {
      const at = Number(query.get("at")) || undefined;
      const where = (change) => go(here({ at: query.get("at"), ...change }), { replace: true });
      // Places in a replay have addresses.
      viewer = stream(rows, calls, { at, asked, view: query.get("view") ?? (at ? "aligned" : "hops"), seek: (n) => { query.set("at", n); where({}); }, show: (view) => view !== (query.get("view") ?? "hops") && (query.set("view", view), where({})) });
      fill(body, error && note(error), viewer.element);
    };
    if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
      const rows = [], calls = [];
      begin(rows, calls);
      let waiting = null, isReset = false;
      const grown = () => {
        waiting = null;
        viewer.grown();
      };
      await readEvents(response, (kind, data) => {
        if (kind === "row") rows.push(data);
        else if (kind === "call") calls.push(data);
        else isReset ||= kind === "reset";
        waiting ??= setTimeout(grown, 100);
      });
      clearTimeout(waiting);
      // The exchange has ended, so the server knows more about it, or what is shown is outdated.
      return isReset ? load() : finished(grown);
    }
    const kept = await response.json();
    begin(kept.rows, kept.calls ?? []);
    if (kept.cut) body.prepend(remark("Not all of it was kept", h("p", "Its later events were more than the limit.")));
  }

  // The exchange beside another one, or beside itself read with other formats.
  async function compare() {
    const other = query.get("with"), detect = query.get("detect");
    // A running exchange is read to its end.
    const traced = async (own) => {
      const response = await request("GET", adminUrl(path(own, "/events")), { signal });
      if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response.json();
      const rows = [], calls = [];
      await readEvents(response, (kind, data) => (kind === "row" ? rows.push(data) : kind === "call" && calls.push(data)));
      return { rows, calls };
    };
    const side = async (title, label, own, reading) => {
      const events = await reading;
      const { exchange: row } = await get(path(own), { signal });
      return { title, label, row, events, asked: own === id ? asked : await get(path(own, "/requests"), { signal }) };
    };
    fill(body, h("p.dim", { role: "status" }, "Waiting for both to end."));
    const again = (own) => call("POST", path(own, "/read"), { detect }, { signal });
    const reading = (own) => traced(own).then((events) => (detect ? again(own) : events));
    const how = detect && ["read with detect = ", h("code", name(detect))];
    const shown = await Promise.all([side(name(id), id, id, traced(id)), other ? side([h("a", { href: href("live", other) }, name(other)), how && [", ", how]], other, other, reading(other)) : side(how, "read again", id, again(id))]);
    fill(body, h("div.row", h("button", { onclick: () => go(here({})) }, "Show it alone"), detect && h("p.small.dim", "The first hop only: the others followed from what was read in it.")),
      h("div.sides.pair", shown.map((own) => compared(own, new Cards(), Boolean(detect)))));
  }

  async function rewrite() {
    const { rewrite: found, requests = [] } = await get(path(id, "/requests"), { signal });
    if (!found) throw new Error(asked?.captured === "off" ? 'The contents of this exchange were not captured: set capture = "redacted" in [admin]' : "The contents of this exchange are not kept any more");
    const options = found.options.map((own) => (/^[\w./,:-]+$/.test(own) ? own : quoted(own))).join(" ");
    const command = `tar -xf ${id}.tar\ntoolwire rewrite ${options} --request ${id}/request.json ${id}/upstream.sse`;
    const hints = [found.others.length && `These settings have no option: ${found.others.join(", ")}. toolwire replay ${id} has them.`, requests.at(-1)?.hop > 1 && "It reads the first hop. toolwire replay reads all of them."].filter(Boolean);
    dialog("The exchange on the command line", (done) => [
      h("p", "Save it as a fixture first. The commands read its first hop as it was read here:"),
      region("pre.code", "Commands", command), hints.map((own) => h("p.small.dim", own)),
      h("div.row", h("button", { onclick: () => saveFixture(id).catch(failed) }, "Save as fixture"), h("button", { onclick: () => copied(command) }, "Copy"), h("button", { onclick: done }, "Close"))]);
  }

  // A field for the formats that are looked for, with the names of all.
  async function detectField(value) {
    const { formats } = await get("formats", { signal });
    const list = h("datalist", { id: fresh("formats") }, ["auto", "off", ...formats.map((own) => own.name)].map((own) => h("option", { value: own })));
    return [h("input.grow", { list: list.id, value, spellcheck: "false" }), list];
  }

  async function readAgain() {
    const [field, list] = await detectField(query.get("detect") ?? "auto");
    dialog("Read it again", (done) => [
      h("p", "What the client would have got if other formats were looked for. The model is not asked again."),
      h("form.row", { onsubmit: (event) => {
        event.preventDefault();
        done();
        go(here({ detect: field.value.trim() || "auto" }));
      } }, h("label", "detect", field), list, h("button.main", "Read")), h("p.small.dim", "auto, off, or names of formats, separated by commas")]);
  }

  async function sendAgain() {
    const { client } = await get(path(id, "/requests"), { signal });
    if (!client?.body) throw new Error("The client’s request is not kept, so it cannot be sent again");
    const text = h("textarea", { rows: 16, "aria-label": "Request", spellcheck: "false", value: edited(client.body) });
    const problem = h("div");
    // The fields write into the text, which may be edited, too.
    const write = (change) => {
      try {
        text.value = change(text.value);
        fill(problem);
      } catch {
        fill(problem, note({ code: "invalid_request", message: "The request is not JSON" }));
      }
    };
    const { temperature, choice } = placesOf(client.dialect);
    const models = await get("models", { signal }).then((own) => own.models, () => []);
    const names = h("datalist", { id: fresh("models") }, models.map((own) => h("option", { value: own.name })));
    const model = h("input", { list: names.id, value: modelOf(text.value), spellcheck: "false", oninput: () => write((body) => edited(body, model.value.trim())) });
    const warm = h("input", { type: "number", min: 0, step: "any", value: valueAt(text.value, temperature) ?? "", oninput: () => write((body) => withValue(body, temperature, warm.value === "" ? undefined : Number(warm.value))) });
    const word = choice && valueAt(text.value, choice.path) && choice.read(valueAt(text.value, choice.path));
    const tools = choice && select([["", "as it is"], ...CHOICES.map((own) => [own, own])], CHOICES.includes(word) ? word : "", { onchange: () => tools.value && write((body) => withValue(body, choice.path, choice.write(tools.value))) });
    const [detect, formats] = await detectField("");
    const send = h("button.main", { onclick: async () => {
      send.disabled = true;
      try {
        const other = await begun(client.dialect, text.value);
        box.close();
        go(here({ with: other, detect: detect.value.trim() }));
      } catch (failure) {
        fill(problem, note(failure));
        send.disabled = false;
      }
    } }, "Send");
    const box = dialog("Send it again", (done) => [
      h("p", "Change the model, a tool or any other field. It is sent to the upstream as a request of the console, and shown beside this one. Secrets are masked."),
      h("div.bar", h("label", "Model", model), names, h("label", "Temperature", warm), tools && h("label", "Tool choice", tools), h("label", "Read with detect", detect), formats),
      text, problem, h("div.row", send, h("button", { onclick: done }, "Close"))]);
  }

  let waits = null;
  const stop = listen((kind, data) => {
    if (data.exchange !== id || !["hop_start", "tool_use", "tool_result"].includes(kind)) return;
    waits ??= setTimeout(() => {
      waits = null;
      askRequests();
    }, 300);
  });
  const timer = setInterval(() => {
    const row = exchanges.byId.get(id);
    if (row?.state === "running") paintFacts({ ...row, ms: timeOf(row) });
  }, 1000);
  load();
  return {
    leave() {
      stop();
      clearTimeout(waits);
      clearInterval(timer);
      abort.abort();
      viewer?.stop();
    },
  };
}

// Sends a request, and returns the id of its exchange once it has begun to be answered. The rest is read, so that it is not given up.
async function begun(client, text) {
  const response = await request("POST", consoleUrl("api/chat"), { body: { client, request: text } });
  return new Promise((resolve, reject) => {
    readEvents(response, (kind, data) => data.exchange && resolve(data.exchange)).then(() => reject(new ApiError(0)), reject);
  });
}
