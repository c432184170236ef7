"""A server that answers 38 of 300 BFCL cases wrongly, as vLLM does in Moonshot's K2 Vendor Verifier, but right when asked again.

100 more cases fit no tool, and the answer is prose. The server sends calls natively, or as text in six formats. toolwire has its
retry rules on. An answer is exact if it has the true calls and says that it ends with calls, or has no call where none is due.
Schema accuracy and trigger F1 are the verifier's: of the responses that end with calls, those whose calls are valid; and whether
responses end with calls where they should.
"""

import asyncio
import json
import random
import re
from collections import Counter
from dataclasses import dataclass

import apis
import bfcl_cases
import exchange
import formats
import program
from jsonschema import Draft202012Validator, SchemaError

CASES, PROSE = 300, 100
NATIVE = {"missing": 8, "wrong type": 7, "finish": 6, "duplicate": 6, "unknown": 5, "cut": 2, "not JSON": 2, "leak": 2}
TEXT = {"missing": 14, "wrong type": 7, "duplicate": 6, "unknown": 6, "cut": 2, "not JSON": 1, "leak": 2}
RETRY = 'enforce = "retry"\nunknown_calls = "retry"\ninvalid_arguments = "retry"\n'
JSON_BODIES = {"hermes", "kimi_k2", "deepseek_v31", "pre"}
SAID, THOUGHT = "I'll look that up.\n", "The user wants something that a tool can do."
WRONG = {"integer": "many", "number": "many", "boolean": "perhaps", "array": "some", "object": "some"}


@dataclass(frozen=True)
class Answer:
    """A case with what the server does wrong at first."""

    number: int
    case: bfcl_cases.Case
    fault: str | None
    format: str
    required: bool
    spoken: bool


def schemas(case):
    return {name: schema for name, _, schema in case.tools}


def valid(case, calls):
    """Whether all calls name a declared tool and fit its schema."""
    try:
        return all(name in schemas(case) and Draft202012Validator(schemas(case)[name]).is_valid(given) for name, given in calls)
    except (SchemaError, Exception):
        return False


def wrong_type(case):
    for index, (name, given) in enumerate(case.calls):
        for key in given:
            kind = schemas(case)[name].get("properties", {}).get(key, {}).get("type")
            if kind in WRONG:
                return index, key, WRONG[kind]
    return None


def missing(case):
    for index, (name, given) in enumerate(case.calls):
        for key in schemas(case)[name].get("required", []):
            if key in given:
                return index, key
    return None


def possible(case, fault, native, format):
    if fault == "wrong type":
        return wrong_type(case) is not None
    if fault == "missing":
        return missing(case) is not None
    if fault in ("cut", "not JSON"):
        return all(given for _, given in case.calls) and (native or format in JSON_BODIES)
    return fault != "leak" or native or format != "pythonic"


def answers(native):
    """The 400 answers, the same each time."""
    pick = random.Random(5)
    known = [case for case in bfcl_cases.cases() if valid(case, case.calls)]
    chosen = pick.sample(known, CASES)
    prose = pick.sample(list(bfcl_cases.irrelevant()), PROSE)
    names = list(formats.WRITERS)
    faults = {}
    for fault, count in (NATIVE if native else TEXT).items():
        fit = (number for number in pick.sample(range(CASES), CASES) if number not in faults)
        fit = (number for number in fit if possible(chosen[number], fault, native, names[number % len(names)]))
        faults |= {next(fit): fault for _ in range(count)}
    for number, case in enumerate(chosen + prose):
        format = names[number % len(names)]
        required = number < CASES and pick.random() < 0.375
        spoken = (native or format in formats.SPOKEN) and pick.random() < 0.44
        yield Answer(number, case, faults.get(number), format, required, spoken)


def damaged(answer):
    """The calls with the fault, as far as it can be said without a format."""
    calls = [(name, dict(given)) for name, given in answer.case.calls]
    if answer.fault == "missing":
        index, key = missing(answer.case)
        del calls[index][1][key]
    elif answer.fault == "wrong type":
        index, key, value = wrong_type(answer.case)
        calls[index][1][key] = value
    elif answer.fault == "duplicate":
        calls.append(calls[-1])
    elif answer.fault == "unknown":
        calls[-1] = (calls[-1][0] + "_v2", calls[-1][1])
    return calls


def broken(fault, arguments):
    """The last call's arguments, cut or not JSON."""
    if fault == "cut":
        return arguments[: max(2, len(arguments) * 2 // 3)].rstrip("}")
    return arguments.replace(": ", ": oops ", 1)


def without_marker(format, text):
    """A call whose format is not kept: the opening marker is missing, or it is in a fence."""
    if format == "pre":
        return "```json\n" + re.sub("</?pre>", "", text) + "\n```"
    openers = {"hermes": "<tool_call>\n", "qwen3_coder": "<tool_call>\n", "kimi_k2": "<|tool_calls_section_begin|>", "deepseek_v31": "<｜tool▁calls▁begin｜>"}
    return text.replace(openers[format], "", 1)


def native_script(answer, fault, said, reasoning):
    calls = [(name, formats.dumps(given)) for name, given in (damaged(answer) if fault else answer.case.calls)]
    if fault == "leak":
        return exchange.Script(said + formats.hermes(answer.case.calls, 0), "stop", reasoning)
    if fault in ("cut", "not JSON"):
        calls[-1] = (calls[-1][0], broken(fault, calls[-1][1]))
    finish = "stop" if fault == "finish" else "tool_calls"
    return exchange.Script(said, finish, reasoning, calls)


def text_script(answer, fault, said, reasoning):
    write = formats.WRITERS[answer.format][1]
    calls = damaged(answer) if fault else answer.case.calls
    text = write(calls, 0)
    if fault == "leak":
        text = without_marker(answer.format, text)
    elif fault in ("cut", "not JSON"):
        arguments = formats.dumps(calls[-1][1])
        before, after = text.rsplit(arguments, 1)
        text = before + broken(fault, arguments) + (after if fault == "not JSON" else "")
    return exchange.Script((f"<think>\n{reasoning}\n</think>\n\n" if reasoning else "") + said + text)


class Server:
    """Answers each request with the fault at first, then correctly."""

    def __init__(self, native, answers):
        self.write, self.answers = (native_script if native else text_script), answers
        self.rounds = Counter()

    def answer(self, asked):
        found = re.search(r"\[answer (\d+), run (\S+), ([01])\]", json.dumps(asked["messages"]))
        answer = self.answers[int(found[1])]
        self.rounds[found[0]] += 1
        reasoning = THOUGHT if found[3] == "1" else ""
        if answer.number >= CASES:
            return exchange.Script("No tool can do that.", reasoning=reasoning)
        fault = answer.fault if self.rounds[found[0]] == 1 else None
        return self.write(answer, fault, SAID if answer.spoken else "", reasoning)


@dataclass
class Run:
    name: str
    settings: str
    stream: bool
    reasoning: bool
    api: str = "chat"

    def __post_init__(self):
        self.exact, self.ended, self.valid, self.true, self.rounds = set(), 0, 0, 0, 0
        self.inexact = Counter()

    def judge(self, answer, got):
        due = answer.number < CASES
        calls = []
        for _, name, arguments in got["calls"]:
            try:
                calls.append((name, json.loads(arguments)))
            except ValueError:
                calls.append((name, None))
        ended = bool(calls) and got["finish"] == apis.FINISHED[self.api]
        self.ended += ended
        self.true += ended and due
        self.valid += ended and valid(answer.case, calls)
        if exchange.difference(answer.case.calls, got) is None and ended == due:
            self.exact.add(answer.number)
        else:
            self.inexact[answer.fault or "no fault"] += 1

    def row(self):
        f1 = 2 * self.true / (self.ended + CASES)
        wrong = ", ".join(f"{fault} {count}" for fault, count in sorted(self.inexact.items())) or "–"
        share = f"{100 * self.valid / self.ended:.1f} %"
        how = ("stream" if self.stream else "complete") + (", reasoning" if self.reasoning else "")
        rounds = self.rounds / (CASES + PROSE)
        return f"| {self.name} | {how} | {len(self.exact)} of {CASES + PROSE} | {share} | {f1:.4f} | {rounds:.3f} | {wrong} |"


def runs(native, complete):
    name = "native" if native else "text"
    yield Run(f"{name}, defaults", "", True, False)
    for reasoning in (False, True):
        for stream in (True, False):
            yield Run(f"{name}, retry", RETRY, stream, reasoning)
            if complete:
                yield from (Run(f"{name}, retry, {api}", RETRY, stream, reasoning, api) for api in ("messages", "responses"))


async def play(native, complete):
    chosen = list(answers(native))
    server = Server(native, chosen)
    port = await exchange.listen(server.answer)
    done = list(runs(native, complete))
    models = {}
    for index, run in enumerate(done):
        for format, (model, _) in formats.WRITERS.items():
            shown = "some-model" if native else model
            models[f"{index}/{format}"] = f'upstream_name = "{shown}"\n{run.settings}'
    with program.serving(port, models) as served:

        async def one(client, item):
            index, run, answer = item
            marker = f"[answer {answer.number}, run {index}, {run.reasoning:d}]"
            turns = [("user", f"{answer.case.user} {marker}")]
            choice = "required" if answer.required else "auto"
            model = f"{index}/{answer.format}"
            got = await client.ask(run.api, apis.request(run.api, model, answer.case.tools, turns, run.stream, choice))
            run.judge(answer, got)
            run.rounds += server.rounds[marker]

        await exchange.share(served, ((index, run, answer) for index, run in enumerate(done) for answer in chosen), one)
    return done


def judge(options):
    rows = ["| server, toolwire | client | exact | schema accuracy | trigger F1 | requests per answer | not exact, by fault |", "|---|---|---|---|---|---|---|"]
    faults = []
    for native in (True, False):
        done = asyncio.run(play(native, options.nightly))
        chat = {(run.stream, run.reasoning): run for run in done if run.api == "chat" and run.settings}
        rows += [run.row() for run in done if run.api == "chat"]
        for run in done:
            same = chat[run.stream, run.reasoning]
            if run.api != "chat" and run.exact != same.exact:
                faults.append(f"{run.name}: answers {sorted(run.exact ^ same.exact)} are exact over one of {run.api} and chat")
    return rows, [], faults
