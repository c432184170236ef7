"""`toolwire detect`: names the format in which the true calls of BFCL's cases are written, for each format that can be taught.

toolwire writes ten histories in each format. The command reads what it wrote, without the request. It must name the format, or
one that reads exactly these calls.
"""

import asyncio
import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import exchange
import program
from bfcl_cases import cases, chat_tools
from judge_bfcl import history

PER_FORMAT = 10


async def written(formats, wanted):
    """Returns, for each format, the texts of these cases."""
    texts = {format: [] for format in formats}
    asked_for = {}

    def repeat(asked):
        text = next(turn["content"] for turn in asked["messages"] if turn["role"] == "assistant") or ""
        asked_for[asked["model"], asked["messages"][-1]["content"]] = text
        return exchange.Script(text)

    port = await exchange.listen(repeat)
    with program.serving(port, {name: f'tools = "{name}"\nexamples = 0' for name in formats}) as served:

        async def play(client, item):
            case, format = item
            turns = history(case)
            turns[-1]["content"] = f"Go on with {case.id}."
            await client.ask("chat", {"model": format, "stream": True, "messages": turns, "tools": chat_tools(case)})
            texts[format].append((case, asked_for[format, turns[-1]["content"]]))

        await exchange.share(served, ((case, format) for format in formats for case in wanted), play)
    return texts


def named(texts):
    """Returns what the command finds in each text, the best first."""
    with tempfile.TemporaryDirectory(prefix="toolwire-judges-") as folder:
        files = [Path(folder) / f"{number}.txt" for number in range(len(texts))]
        for file, text in zip(files, texts):
            file.write_text(text, "utf-8")
        command = [program.BINARY, "detect", "--json", *map(str, files)]
        found = subprocess.run(command, capture_output=True, encoding="utf-8").stdout
    return [json.loads(line)["formats"] for line in found.splitlines()]


def is_right(case, format, found):
    if not found:
        return False
    best = found[0]
    if best["name"] == format:
        return True
    calls = [(call["name"], json.loads(call["arguments"] or "{}")) for call in best["calls"] if call["complete"]]
    own = next((each["calls"] for each in found if each["name"] == format), None)
    return calls == [(name, given) for name, given in case.calls] or own == best["calls"]


def judge(options):
    formats = program.taught_formats()
    every = list(cases())
    step = len(every) // PER_FORMAT
    texts = asyncio.run(written(formats, every[:: step][:PER_FORMAT]))
    wrong, examples, sure, total = Counter(), [], 0, 0
    for format in formats:
        for (case, text), found in zip(texts[format], named([text for _, text in texts[format]])):
            total += 1
            sure += bool(found) and found[0]["confidence"] == "certain"
            if not is_right(case, format, found):
                wrong[format] += 1
                best = found[0]["name"] if found else "none"
                examples.append(f"{format}, {case.id}: {best}: {text[:300]}")
    right = total - wrong.total()
    rows = [f"{right} of {total} texts are attributed to their format ({100 * right / total:.2f} %), {sure} of them with certainty."]
    if wrong:
        rows += ["", "| format | attributed to another |", "|---|---|", *(f"| `{format}` | {count} |" for format, count in sorted(wrong.items()))]
    return rows, examples, []
