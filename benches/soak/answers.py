"""The content of an answer. It depends only on the tag in the request, so the upstream that writes the answer and the
client that checks it agree without communicating.
"""

import re
from typing import NamedTuple

TAG = re.compile(rb"soak-(\d+)-([a-z]+)-(\d+)-([a-z0-9]+)-(\d+)-(\d+)-(\d+);")

# Faults of an answer. `rst` and `fin` end the connection, `end` ends the body properly but without the dialect's end,
# `err` is the dialect's error within the stream, and the numbers are statuses in place of an answer.
CUTS = ("rst", "fin", "end", "err")
STATUSES = ("503", "400")
EVERYWHERE = 9
LARGE = 4096


class Answer(NamedTuple):
    id: int
    # text, large, call, hop, hops or mixed
    kind: str
    # tokens of text in all turns together
    tokens: int
    # `whole`, or how it fails
    fate: str
    # before which token it fails
    at: int
    # the only upstream process where it fails, or EVERYWHERE
    where: int
    # the answer that the request continues, or 0
    before: int

    @property
    def tag(self):
        return "soak-" + "-".join(str(part) for part in self) + ";"


class Turn(NamedTuple):
    tokens: list
    # (name, arguments)
    calls: list


def requested(body):
    """Returns the answer that a request to an upstream asks for, according to its last tag. `None` if it has no tag."""
    found = TAG.findall(body)
    if not found:
        return None
    id, kind, tokens, fate, at, where, before = found[-1]
    return Answer(int(id), kind.decode(), int(tokens), fate.decode(), int(at), int(where), int(before))


def token(answer, turn, number):
    text = f"{answer.id}.{turn}.{number} "
    return text.ljust(LARGE, "x") + " " if answer.kind == "large" else text


def hosted_key(answer, turn):
    """The argument of a hosted call. `hosted_result` is what the tool makes of it."""
    return f"kk{answer.id}h{turn}"


def hosted_result(answer, turn):
    return f"rr{answer.id}h{turn}"


def client_result(answer):
    return f"done{answer.id}"


def turns(answer):
    """Returns the turns of the model for one answer. Each ends with calls, or with the end of the answer."""
    count = {"hop": 2, "hops": 3, "mixed": 2}.get(answer.kind, 1)
    each = answer.tokens // count
    result = []
    for turn in range(count):
        calls = []
        if turn + 1 < count:
            calls.append(("lookup", {"key": hosted_key(answer, turn)}))
        if answer.kind == "mixed" and turn == 0:
            calls.append(written(answer, 0))
        if answer.kind == "call":
            calls = [written(answer, 0), written(answer, 1)]
        result.append(Turn([token(answer, turn, number) for number in range(each)], calls))
    return result


def written(answer, number):
    """A call to the client's tool."""
    content = " ".join(f"{answer.id}.{number}.{word}" for word in range(12))
    return "write_file", {"path": f"/{answer.id}/{number}.txt", "content": f'"{content}"\n'}


def turn_of(answer, body):
    """Returns which turn a request to an upstream asks for, and what is wrong with the request."""
    last = len(turns(answer)) - 1
    has = [hosted_result(answer, turn).encode() in body for turn in range(last)]
    turn = sum(has)
    wrong = None
    if has != sorted(has, reverse=True):
        wrong = "the result of an earlier hosted call is missing"
    if answer.kind == "mixed":
        answered = client_result(answer).encode() in body
        if answered != bool(turn):
            wrong = "of a turn with calls of both kinds, one result is missing"
    if answer.before and f" {answer.before}.0.1 ".encode() not in body:
        wrong = "the response that the request continues is missing"
    return turn, wrong


def fails_in(answer, turn, process):
    """Returns the token of this turn before which the answer fails. `None` if it does not fail in this turn."""
    if answer.fate == "whole" or answer.where not in (EVERYWHERE, process):
        return None
    each = answer.tokens // len(turns(answer))
    return answer.at - turn * each if turn * each <= answer.at < (turn + 1) * each else None
