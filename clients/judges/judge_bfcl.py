"""BFCL: the true calls of 2,501 cases, written by toolwire into a history in each format that it teaches, and read back.

The client sends a history with the true calls. The upstream streams the assistant's turn, as toolwire wrote it, back in pieces. The
same calls must arrive, with the types of their arguments, without text.
"""

import asyncio
import json
from collections import Counter, defaultdict

import exchange
import program
from bfcl_cases import cases, chat_tools

# Without `--nightly`, each case is played in one of this many formats, which take turns.
SAMPLE = 37


def history(case):
    functions = [{"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)} for name, arguments in case.calls]
    calls = [{"id": f"call_{index}", "type": "function", "function": each} for index, each in enumerate(functions)]
    turns = [{"role": "user", "content": case.user}, {"role": "assistant", "content": None, "tool_calls": calls}]
    turns += [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    return [*turns, {"role": "user", "content": "Go on."}]


def repeat(asked):
    """The upstream's answer: the assistant's turn in the history."""
    return exchange.Script(next(turn["content"] for turn in asked["messages"] if turn["role"] == "assistant") or "")


def fault(case, got):
    if found := exchange.difference(case.calls, got):
        return found
    if got["text"] or got["reasoning"]:
        return "text"
    return None if got["finish"] == "tool_calls" else "finish"


async def trips(formats, wanted, step):
    """Plays each case in every `step`th format. Returns, for each format, how many answers have which fault, with an example."""
    faults, examples = defaultdict(Counter), {}
    port = await exchange.listen(repeat)
    with program.serving(port, {name: f'tools = "{name}"\nexamples = 0' for name in formats}) as served:

        async def play(client, item):
            case, request, format = item
            got = await client.ask("chat", request | {"model": format})
            if found := fault(case, got):
                faults[format][found] += 1
                said = {key: got[key] for key in ("status", "calls", "text", "finish", "error")}
                examples.setdefault((format, found), f"{format}, {case.id}: {found}: {json.dumps(said, ensure_ascii=False)[:600]}")

        def work():
            for number, case in enumerate(wanted):
                request = {"stream": True, "messages": history(case), "tools": chat_tools(case)}
                yield from ((case, request, format) for format in formats[number % step :: step])

        await exchange.share(served, work(), play)
    return faults, list(examples.values())


def judge(options):
    formats = program.taught_formats()
    complete = options.nightly or options.write
    wanted = list(cases())
    faults, examples = asyncio.run(trips(formats, wanted, 1 if complete else SAMPLE))
    if not complete:
        return [], [], examples
    total = len(wanted) * len(formats)
    wrong = sum(counts.total() for counts in faults.values())
    exact = sum(1 for format in formats if not faults[format])
    rows = [f"{total - wrong:,} of {total:,} answers are exact ({100 * (total - wrong) / total:.2f} %), {exact} of {len(formats)} formats in all cases."]
    if wrong:
        rows += ["", "| format | answers that are not exact |", "|---|---|"]
        for format in formats:
            if counts := faults[format]:
                rows.append(f"| `{format}` | {', '.join(f'{fault} {count}' for fault, count in sorted(counts.items()))} |")
    return rows, examples, []
