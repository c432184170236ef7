"""Tool search: which of BFCL's 1,437 tools a model is shown for each question, and after one search.

Each request declares all tools, and nothing else says which are meant. The upstream looks whether the true tools are among those
that it was shown. If one is not, it searches once for its purpose, the first sentence of its description, and looks again. Such
questions are then asked a second time, and the upstream searches for the question itself.
"""

import asyncio
import json
import re

import exchange
import program
from bfcl_cases import cases

# Without `--nightly`, one of this many cases is played.
SAMPLE = 25

# What the search must reach, as a share of the questions, and how many tokens it must save.
LEAST_FOUND, LEAST_SAVED = 0.99, 0.95


def named(tools):
    """Returns the names that the tools are declared by, which all APIs take, so that the upstream gets the same ones."""
    legal = {}
    for name in tools:
        new = re.sub("[^a-zA-Z0-9_-]", "_", name)[:60]
        legal[name] = new if new not in legal.values() else f"{new}_{len(legal)}"
    return legal


def declared(tools):
    function = lambda name, text, parameters: {"name": name, "description": text, "parameters": parameters}
    return [{"type": "function", "function": function(*tool)} for tool in tools]


def size(tools):
    return len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")))


def purpose(tool):
    """What the tool is for, in the words of its description, without its name."""
    name, text, _ = tool
    return re.split(r"(?<=[.!?])\s", text.strip())[0].replace(name, "")


class Tally:
    def __init__(self):
        self.at_once, self.searched, self.missing, self.failed, self.sizes, self.counts = 0, 0, [], [], [], []


async def play_all(wanted, tools, query):
    """Plays the cases. `query` returns what a model searches for that lacks some of a case's tools."""
    tally, asking = Tally(), {case.id: case for case in wanted}
    legal = named(tools)
    declarations = declared((legal[name], *rest) for name, *rest in tools.values())

    def answer(asked):
        """Answers a request: with a search if a true tool is not shown yet."""
        case = asking[asked["user"]]
        names = {tool["function"]["name"] for tool in asked["tools"]}
        lacks = sorted(name for name in {name for name, _ in case.calls} if legal[name] not in names)
        has_searched = any(turn["role"] == "tool" for turn in asked["messages"])
        if not has_searched:
            tally.sizes.append(size(asked["tools"]))
            tally.counts.append(len(names))
        if lacks and not has_searched:
            arguments = json.dumps({"query": query(case, [tools[name] for name in lacks])})
            # The search is the first tool. BFCL has one of its usual name.
            return exchange.Script(calls=[(asked["tools"][0]["function"]["name"], arguments)], finish="tool_calls")
        if lacks:
            tally.missing.append(case)
        elif has_searched:
            tally.searched += 1
        else:
            tally.at_once += 1
        return exchange.Script("Done.")

    port = await exchange.listen(answer)
    with program.serving(port, {"m": 'tool_search = "auto"'}) as served:

        async def play(client, case):
            messages = [{"role": "user", "content": case.user}]
            request = {"model": "m", "stream": False, "user": case.id, "messages": messages, "tools": declarations}
            got = await client.ask("chat", request)
            if got["status"] != 200 or got["text"] != "Done.":
                tally.failed.append(f"{case.id}: {got['status']} {got['error'] or got['text']}")

        await exchange.share(served, wanted, play, connections=2)
    return tally


def judge(options):
    complete = options.nightly or options.write
    every = list(cases())
    tools = {}
    for case in every:
        for tool in case.tools:
            tools.setdefault(tool[0], tool)
    wanted = every[:: 1 if complete else SAMPLE]
    by_purpose = lambda case, lacking: " ".join(purpose(tool) for tool in lacking)
    tally = asyncio.run(play_all(wanted, tools, by_purpose))
    found = (tally.at_once + tally.searched) / len(wanted)
    saved = 1 - sum(tally.sizes) / len(tally.sizes) / size(declared(tools.values()))
    faults, missing = list(tally.failed[:20]), [case.id for case in tally.missing]
    if found < LEAST_FOUND:
        faults.append(f"only {100 * found:.2f} % of the tools were found; not those of {missing[:20]}")
    if saved < LEAST_SAVED:
        faults.append(f"only {100 * saved:.2f} % of the tools' text was saved")
    if not complete:
        return [], [], faults
    again = asyncio.run(play_all(wanted, tools, lambda case, _: case.user))
    share = lambda count: f"{count:,} ({100 * count / len(wanted):.2f} %)"
    rows = [
        f"{len(tools):,} tools, {len(wanted):,} questions:",
        "",
        "| the true tools are shown | questions |",
        "|---|---|",
        f"| at once | {share(tally.at_once)} |",
        f"| at once, or after one search for the tools' purpose | {share(tally.at_once + tally.searched)} |",
        f"| at once, or after one search for the question | {share(again.at_once + again.searched)} |",
        "",
        f"The first request's declarations are {100 * saved:.1f} % shorter than those of all tools: {sum(tally.counts) / len(tally.counts):.0f} tools.",
    ]
    return rows, missing[:20], faults
