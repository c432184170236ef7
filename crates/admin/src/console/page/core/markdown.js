// Parses a subset of Markdown into plain data: paragraphs, headings, emphasis, code, lists, quotes, tables, rules and links. HTML stays text.
//
// `Stream` parses text as it arrives. A block is closed when a complete line starts the next one. Closed blocks never change, so
// only the last one is parsed again. The result does not depend on how the text was split.

const MAX_DEPTH = 12;
const REPARSE = 8192;

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DELIMITER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const BLANK = /^[ \t]*$/;

export class Stream {
  closed = [];
  #tail = "";
  #fence = null;
  #parsed = 0;

  push(text) {
    this.#tail += text;
    if (this.#fence) return this.#pushFence();
    if (this.#tail.length > REPARSE && this.#tail.length < this.#parsed * 2) return;
    const complete = this.#tail.lastIndexOf("\n") + 1;
    if (!complete) return;
    const lines = this.#tail.slice(0, complete - 1).split("\n");
    const blocks = [];
    let at = 0, start = 0;
    while (at < lines.length) {
      start = at;
      const [block, next] = readBlock(lines, at, 0);
      at = next;
      if (block) blocks.push({ block, start });
    }
    this.#parsed = this.#tail.length;
    const last = blocks.pop();
    if (!last) return;
    for (const { block } of blocks) this.closed.push(block);
    this.#tail = this.#tail.slice(lines.slice(0, last.start).reduce((size, line) => size + line.length + 1, 0));
    this.#parsed = this.#tail.length;
    if (last.block.kind === "code" && !last.block.isClosed) {
      const first = this.#tail.indexOf("\n") + 1;
      this.#fence = { ...FENCE.exec(this.#tail.slice(0, first - 1)), lang: last.block.lang, lines: [] };
      this.#tail = this.#tail.slice(first);
      this.#pushFence();
    }
  }

  #pushFence() {
    for (;;) {
      const end = this.#tail.indexOf("\n");
      if (end < 0) return;
      const line = this.#tail.slice(0, end);
      this.#tail = this.#tail.slice(end + 1);
      if (!closes(line, this.#fence[1])) {
        this.#fence.lines.push(line);
        continue;
      }
      this.closed.push({ kind: "code", lang: this.#fence.lang, text: this.#fence.lines.join("\n"), isClosed: true });
      this.#fence = null;
      const rest = this.#tail;
      this.#tail = "";
      this.#parsed = 0;
      if (rest) this.push(rest);
      return;
    }
  }

  // The last block, as far as it has arrived, or `null` if there is none.
  open() {
    if (this.#fence) {
      const { lang, lines } = this.#fence;
      const rest = closes(this.#tail, this.#fence[1]) ? [] : [this.#tail];
      return [{ kind: "code", lang, text: [...lines, ...rest].join("\n") }];
    }
    if (this.#tail.length > REPARSE) return [{ kind: "plain", text: this.#tail }];
    return parse(this.#tail);
  }

  // The open block if it is code: its complete lines, and the incomplete one. The view appends them.
  get fence() {
    return this.#fence && { lang: this.#fence.lang, lines: this.#fence.lines, rest: this.#tail };
  }

  // The length of the open block, which tells the view whether it has grown.
  get openSize() {
    return this.#tail.length;
  }

  // Marks the end of the text.
  finish() {
    if (this.#fence) this.closed.push(...this.open());
    else this.closed.push(...parse(this.#tail));
    this.#fence = null;
    this.#tail = "";
    return this.closed;
  }
}

export const parse = (text) => readBlocks(text.split("\n"), 0);

function readBlocks(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length; ) {
    const [block, next] = readBlock(lines, at, depth);
    at = next;
    if (block) blocks.push(block);
  }
  return blocks;
}

const closes = (line, fence) => {
  const run = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line)?.[1];
  return run != null && run[0] === fence[0] && run.length >= fence.length;
};

// Parses the block that starts at `at`. Returns it and the start of the next one.
function readBlock(lines, at, depth) {
  const line = lines[at].replace(/\r$/, "");
  if (BLANK.test(line)) return [null, at + 1];
  const fence = FENCE.exec(line);
  if (fence) {
    let end = at + 1;
    while (end < lines.length && !closes(lines[end], fence[1])) end++;
    const isClosed = end < lines.length;
    return [{ kind: "code", lang: fence[2].trim().split(/\s/)[0], text: lines.slice(at + 1, end).join("\n"), isClosed }, end + isClosed];
  }
  const heading = HEADING.exec(line);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: heading[2] ?? "" }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (depth < MAX_DEPTH) {
    if (QUOTE.test(line)) return readQuote(lines, at, depth);
    if (ITEM.test(line)) return readList(lines, at, depth);
  }
  if (isTable(lines, at)) return readTable(lines, at);
  let end = at + 1;
  while (end < lines.length && !interrupts(lines, end, depth)) end++;
  return [{ kind: "paragraph", text: lines.slice(at, end).map((own) => own.trim()).join("\n") }, end];
}

function interrupts(lines, at, depth) {
  const line = lines[at];
  return BLANK.test(line) || FENCE.test(line) || HEADING.test(line) || RULE.test(line) || isTable(lines, at)
    || depth < MAX_DEPTH && (QUOTE.test(line) || ITEM.test(line) && ITEM.exec(line)[4] !== undefined);
}

function readQuote(lines, at, depth) {
  const inner = [];
  let end = at;
  for (; end < lines.length; end++) {
    const quote = QUOTE.exec(lines[end]);
    if (!quote) break;
    inner.push(quote[1]);
  }
  return [{ kind: "quote", blocks: readBlocks(inner, depth + 1) }, end];
}

function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(first[2]);
  const kindOf = (mark) => mark.at(-1);
  const items = [];
  let inner = null, width = 0, end = at;
  for (; end < lines.length; end++) {
    const line = lines[end];
    const item = ITEM.exec(line);
    const indent = /^ */.exec(line)[0].length;
    if (inner && BLANK.test(line)) {
      // A blank line belongs to the item only if the list continues after it.
      let next = end + 1;
      while (next < lines.length && BLANK.test(lines[next])) next++;
      if (next >= lines.length) break;
      const follows = /^ */.exec(lines[next])[0].length >= width || ITEM.test(lines[next]) && kindOf(ITEM.exec(lines[next])[2]) === kindOf(first[2]);
      if (!follows || RULE.test(lines[next])) break;
      for (; end < next; end++) inner.push("");
      end--;
    } else if (inner && indent >= width) inner.push(line.slice(width));
    else if (item && kindOf(item[2]) === kindOf(first[2]) && !RULE.test(line)) {
      width = item[1].length + item[2].length + Math.min(item[3]?.length ?? 1, 4);
      inner = [item[4] ?? ""];
      items.push(inner);
    } else if (inner && !BLANK.test(lines[end - 1]) && !interrupts(lines, end, depth)) inner.push(line.trim());
    else break;
  }
  const list = items.map((own) => {
    const task = /^\[([ xX])\][ \t]+/.exec(own[0]);
    if (task) own[0] = own[0].slice(task[0].length);
    return { isDone: task ? task[1] !== " " : null, blocks: readBlocks(own, depth + 1) };
  });
  return [{ kind: "list", isOrdered, start: isOrdered ? parseInt(first[2], 10) : 1, items: list }, end];
}

const isTable = (lines, at) =>
  lines[at].includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && DELIMITER.test(lines[at + 1])
  && cells(lines[at]).length === cells(lines[at + 1]).length;

function cells(line) {
  const parts = line.trim().replace(/^\|/, "").split(/(?<!\\)\|/);
  if (parts.length > 1 && BLANK.test(parts.at(-1))) parts.pop();
  return parts.map((part) => part.trim().replaceAll("\\|", "|"));
}

function readTable(lines, at) {
  const head = cells(lines[at]);
  const rows = [];
  let end = at + 2;
  for (; end < lines.length && !BLANK.test(lines[end]) && lines[end].includes("|"); end++) {
    const row = cells(lines[end]);
    rows.push(head.map((_, column) => row[column] ?? ""));
  }
  return [{ kind: "table", head, rows }, end];
}

// Parses a line into strings and {kind, children | text | url}.
export function inline(text) {
  const stack = [{ kind: null, children: [] }];
  const open = new Map();
  const missing = new Set();
  const top = () => stack.at(-1).children;
  const put = (part) => {
    const own = top();
    if (typeof part === "string" && typeof own.at(-1) === "string") own[own.length - 1] += part;
    else if (part !== "") own.push(part);
  };
  // Turns an element that was never closed back into text.
  const unwind = () => {
    const { mark, children } = stack.pop();
    open.set(mark, open.get(mark) - 1);
    put(mark);
    for (const child of children) put(child);
  };
  let at = 0, from = 0;
  const flush = () => { if (from < at) put(text.slice(from, at)); };
  const special = /[\\`*_~[\]!<\nh]/g;
  while (at < text.length) {
    special.lastIndex = at;
    const found = special.exec(text);
    if (!found) break;
    at = found.index;
    const char = text[at];
    let end = at + 1;
    if (char === "\\" && /[!-/:-@[-`{-~]/.test(text[end] ?? "")) {
      flush();
      put(text[end]);
      end++;
    } else if (char === "`") {
      while (text[end] === "`") end++;
      const run = text.slice(at, end);
      const close = missing.has(run) ? -1 : closing(text, run, end);
      if (close < 0) {
        missing.add(run);
        at = end;
        continue;
      }
      flush();
      put({ kind: "code", text: text.slice(end, close).replace(/^ (.*\S.*) $/s, "$1") });
      end = close + run.length;
    } else if (char === "*" || char === "_" || char === "~") {
      while (text[end] === char && end - at < 2) end++;
      const mark = text.slice(at, end);
      const before = text[at - 1] ?? " ", after = text[end] ?? " ";
      const isWord = (own) => /[\p{L}\p{N}]/u.test(own);
      const opens = mark !== "~" && !/\s/.test(after) && (char !== "_" || !isWord(before));
      const canClose = mark !== "~" && !/\s/.test(before) && (char !== "_" || !isWord(after)) && open.get(mark) > 0;
      if (!opens && !canClose) {
        at = end;
        continue;
      }
      flush();
      if (canClose) {
        while (stack.at(-1).mark !== mark) unwind();
        const { children } = stack.pop();
        open.set(mark, open.get(mark) - 1);
        put({ kind: char === "~" ? "struck" : mark.length === 2 ? "strong" : "emphasis", children });
      } else if (stack.length < 64) {
        stack.push({ mark, children: [] });
        open.set(mark, (open.get(mark) ?? 0) + 1);
      } else put(mark);
    } else if (char === "[" || char === "!" && text[end] === "[") {
      if (char === "!") end++;
      if (stack.length >= 64) {
        at = end;
        continue;
      }
      flush();
      const mark = text.slice(at, end);
      stack.push({ mark, children: [] });
      open.set(mark, (open.get(mark) ?? 0) + 1);
    } else if (char === "]" && ((open.get("[") ?? 0) > 0 || (open.get("![") ?? 0) > 0)) {
      const target = /^\(\s*<?([^\s<>()]{0,2000}(?:\([^\s<>()]{0,500}\)[^\s<>()]{0,500})?)>?(?:\s+"[^"\n]{0,500}")?\s*\)/.exec(text.slice(end, end + 3600));
      flush();
      while (stack.at(-1).mark !== "[" && stack.at(-1).mark !== "![") unwind();
      if (!target) {
        unwind();
        put("]");
      } else {
        const { mark, children } = stack.pop();
        open.set(mark, open.get(mark) - 1);
        put({ kind: mark === "[" ? "link" : "image", url: target[1], children });
        end += target[0].length;
      }
    } else if (char === "<" || char === "h") {
      const isBare = char === "h" && !/[\p{L}\p{N}]/u.test(text[at - 1] ?? " ");
      const url = char === "<"
        ? /^<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/.exec(text.slice(at, at + 2100))
        : isBare && /^(https?:\/\/[^\s<>[\]*`"']{0,1999}[^\s<>[\]*`"'.,:;!?)])/.exec(text.slice(at, at + 2100));
      if (!url) {
        at++;
        continue;
      }
      flush();
      put({ kind: "link", url: url[1], children: [url[1]] });
      end = at + url[0].length;
    } else if (char === "\n") {
      flush();
      put("\n");
    } else {
      at = end;
      continue;
    }
    at = from = end;
  }
  at = text.length;
  flush();
  while (stack.length > 1) unwind();
  return stack[0].children;
}

// Returns the start of the run of backticks that closes `run`, or -1.
function closing(text, run, from) {
  for (let at = text.indexOf(run, from); at >= 0; ) {
    let end = at;
    while (text[end] === "`") end++;
    if (end - at === run.length) return at;
    at = text.indexOf(run, end);
  }
  return -1;
}
