"""Accounts for every response: it is complete, failed as it had to, was left by its client, or is wrong."""

import json
import sys
from collections import Counter

from answers import CUTS, EVERYWHERE, STATUSES, turns
from configuration import FEW
from dialects import hermes, qwen3_coder

# The effects of an outage last for this many seconds after its end, until targets are tried again.
AFTER = 4
# Maximum number of examples for each reason.
EXAMPLES = 5


class Accounts:
    def __init__(self, outages):
        self.outages = outages
        self.open, self.most_open = 0, 0
        self.verdicts, self.reasons = Counter(), Counter()
        self.by_api, self.by_model, self.by_kind = Counter(), Counter(), Counter()
        self.tokens = self.calls = self.sent = 0
        self.examples = []

    def add(self, exchange):
        verdict, reason = judged(exchange, self.outages)
        self.sent += 1
        self.verdicts[verdict] += 1
        self.reasons[f"{verdict}: {reason}"] += 1
        self.by_api[f"{type(exchange.stream).__name__.lower()}: {verdict}"] += 1
        self.by_model[f"{exchange.model.name.partition('-')[0]}: {verdict}"] += 1
        self.by_kind[f"{exchange.answer.kind}: {verdict}"] += 1
        self.tokens += len(exchange.stream.text)
        self.calls += len(exchange.stream.calls)
        if verdict == "wrong" and self.reasons[f"wrong: {reason}"] <= EXAMPLES:
            self.examples.append(example(exchange, reason))
            print(json.dumps(self.examples[-1]), file=sys.stderr, flush=True)

    def told(self):
        ordered = lambda counter: dict(sorted(counter.items()))
        return {
            "requests": self.sent, "tokens": self.tokens, "calls": self.calls, "verdicts": ordered(self.verdicts),
            "reasons": ordered(self.reasons), "by_api": ordered(self.by_api), "by_model": ordered(self.by_model),
            "by_kind": ordered(self.by_kind), "wrong": self.examples,
        }


def example(exchange, reason):
    """Returns what someone needs to find out what went wrong."""
    return {
        "why": reason, "tag": exchange.answer.tag, "turn": exchange.turn, "model": exchange.model.name,
        "api": type(exchange.stream).__name__, "manner": exchange.manner, "status": exchange.status,
        "outcome": exchange.outcome, "message": (exchange.message or exchange.stream.message)[:600],
        "seconds": round(exchange.ended - exchange.began, 2), "began": round(exchange.began, 2),
        "text": "".join(exchange.stream.text)[-200:], "calls": str(exchange.stream.spoken())[:600],
    }


def judged(exchange, outages):
    """Returns the verdict on an exchange, and the reason for it."""
    content = fault_of_content(exchange)
    if content:
        return "wrong", content
    if exchange.outcome == "complete":
        return ("wrong", "cut, but looks complete") if must_fail(exchange) else ("complete", exchange.manner)
    if exchange.outcome == "left":
        return "left", "by the client"
    if exchange.outcome not in ("error", "refused", "aborted"):
        return "wrong", exchange.outcome
    why = explained(exchange, outages)
    return ("failed", f"{exchange.outcome}, {why}") if why else ("wrong", f"{exchange.outcome} without a cause")


def must_fail(exchange):
    """Whether the answer breaks off in a way that no other target can make up for."""
    answer = exchange.answer
    return answer.fate != "whole" and answer.where == EVERYWHERE and exchange.turn == 0


def explained(exchange, outages):
    """Returns why this exchange may fail. `None` if it may not."""
    answer, outcome = exchange.answer, exchange.outcome
    if outcome == "aborted":
        # Only a client that toolwire gives up on gets no error in the format of its API.
        return "the client stopped reading" if exchange.manner == "stops" else None
    if outcome == "refused" and exchange.status == 429 and exchange.key == FEW:
        return "limit of the key"
    said = exchange.message or exchange.stream.message
    if exchange.model.name == "narrow" and ("stayed taken" in said or exchange.status == 429):
        return "queue of the upstream"
    if exchange.turn == 0 and answer.fate in CUTS + STATUSES:
        if must_fail(exchange):
            return f"scripted {answer.fate}"
        if answer.at > 0 or answer.fate in CUTS:
            return f"scripted {answer.fate} of one target"
        if answer.fate == "400":
            # An invalid request is invalid at every target.
            return "scripted 400"
    for outage in outages:
        begun = outage.began <= exchange.ended
        over = outage.ended is not None and outage.ended + AFTER < exchange.began
        if begun and not over and outage.concerns(exchange):
            return outage.what
    # On a busy machine, a store may take longer to answer than toolwire waits. It must not lack a value, though.
    return "the store did not answer in time" if exchange.status == 503 and "store_unavailable" in said else None


def expected(exchange):
    """Returns the text and the calls that the client of a complete answer gets."""
    all_ = turns(exchange.answer)
    if exchange.answer.kind == "mixed":
        all_ = all_[exchange.turn:exchange.turn + 1]
    text = "".join(token for turn in all_ for token in turn.tokens)
    return text, [call for turn in all_ for call in turn.calls if call[0] == "write_file"]


def fault_of_content(exchange):
    """Returns what is wrong with what the client has read. `None` if it has read what was sent, or a prefix of it."""
    stream = exchange.stream
    text, calls = expected(exchange)
    got = " ".join("".join(stream.text).split())
    want = " ".join(text.split())
    spoken = stream.spoken()
    ids = [call["id"] for call in stream.calls.values()]
    if not all(ids) or len(set(ids)) != len(ids):
        return "calls without ids of their own"
    if exchange.outcome != "complete":
        text, opener, call = got.partition("<")
        if not want.startswith(text.rstrip()) or opener and not is_begun(exchange.answer, opener + call):
            return "text that was not sent"
        whole = [spoken[place] for place, key in enumerate(stream.calls) if key in stream.closed]
        if whole != calls[:len(whole)] or [name for name, _ in spoken] != [name for name, _ in calls[:len(spoken)]]:
            return "calls that were not sent"
        return None
    if got != want:
        return "text differs"
    if spoken != calls:
        return "calls differ"
    if stream.finished_with_calls() != bool(calls):
        return f"finish reason {stream.finish}"
    return None


def is_begun(answer, text):
    """Whether this is the beginning of a call as a model writes it. It stays text if the answer breaks off there."""
    calls = [call for turn in turns(answer) for call in turn.calls]
    sources = (" ".join(write(*call).split()) for call in calls for write in (hermes, qwen3_coder))
    return any(source.startswith(text) for source in sources)
