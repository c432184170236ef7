// Parses server-sent events, as the HTML standard defines them, from bytes split anywhere.

export class Parser {
  #decoder = new TextDecoder("utf-8");
  #rest = "";
  #afterCr = false;
  #data = [];
  #name = "";
  lastId = "";

  // Returns the events completed by `bytes`: {name, data, id}. Comments and empty events are skipped.
  push(bytes) {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (this.#afterCr && text) {
      if (text[0] === "\n") text = text.slice(1);
      this.#afterCr = false;
    }
    const events = [];
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code !== 10 && code !== 13) continue;
      this.#line(this.#rest + text.slice(from, at), events);
      this.#rest = "";
      if (code === 13) {
        if (at + 1 === text.length) this.#afterCr = true;
        else if (text[at + 1] === "\n") at++;
      }
      from = at + 1;
    }
    this.#rest += text.slice(from);
    return events;
  }

  #line(line, events) {
    if (line === "") {
      if (this.#data.length) events.push({ name: this.#name || "message", data: this.#data.join("\n"), id: this.lastId });
      this.#data = [];
      this.#name = "";
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value[0] === " ") value = value.slice(1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#name = value;
    else if (field === "id" && !value.includes("\0")) this.lastId = value;
  }
}
