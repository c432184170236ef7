"""Reads BFCL's single-turn cases with their true calls from the package bfcl-eval."""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

CATEGORIES = (
    "simple_python simple_java simple_javascript multiple parallel parallel_multiple "
    "live_simple live_multiple live_parallel live_parallel_multiple"
).split()
# BFCL's names of types that are not JSON Schema's. `any` is a schema without a type.
TYPES = {
    "dict": "object", "HashMap": "object", "Hashtable": "object", "float": "number", "double": "number", "tuple": "array",
    "list": "array", "ArrayList": "array", "Array": "array", "Queue": "array", "Stack": "array", "String": "string",
    "char": "string", "long": "integer", "short": "integer", "byte": "integer", "Bigint": "integer", "bool": "boolean",
    "Boolean": "boolean",
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    id: str
    user: str
    tools: list
    """Triples of name, description and JSON Schema."""
    calls: list
    """Pairs of name and arguments."""


def folder():
    return Path(importlib.util.find_spec("bfcl_eval").origin).parent / "data"


def lines(name):
    return [json.loads(line) for line in (folder() / name).read_text("utf-8").splitlines()]


def schema(written):
    if not isinstance(written, dict):
        return written
    found = {}
    for key, value in written.items():
        if key == "type" and isinstance(value, str):
            value = TYPES.get(value, value)
            if value.lower() != "any":
                found[key] = value
        elif key == "properties" and isinstance(value, dict):
            found[key] = {name: schema(each) for name, each in value.items()}
        elif key in ("items", "additionalProperties"):
            found[key] = schema(value)
        else:
            found[key] = value
    return found


def first(allowed):
    """The first allowed value, in a list. An empty string among them says that the argument may be left out, so it is not one."""
    return [plain(value) for value in allowed if value != ""][:1]


def plain(value):
    """Within an allowed value, the members of objects are lists of allowed values again."""
    if isinstance(value, dict):
        members = ((key, first(each) if isinstance(each, list) else [plain(each)]) for key, each in value.items())
        return {key: chosen for key, found in members for chosen in found}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def asked(question):
    user = "\n".join(turn["content"] for turn in question["question"][0] if turn["role"] == "user")
    functions = question["function"]
    return user, [(each["name"], each.get("description", ""), schema(each["parameters"])) for each in functions]


def cases():
    """The 2,501 cases of the categories above, whose true calls are known."""
    for category in CATEGORIES:
        questions = {question["id"]: question for question in lines(f"BFCL_v4_{category}.json")}
        for truth in lines(f"possible_answer/BFCL_v4_{category}.json"):
            calls = []
            for call in truth["ground_truth"]:
                for name, arguments in call.items():
                    calls.append((name, {key: value for key, each in arguments.items() for value in first(each)}))
            yield Case(truth["id"], *asked(questions[truth["id"]]), calls)


def irrelevant():
    """The cases that no tool fits."""
    for question in lines("BFCL_v4_irrelevance.json"):
        yield Case(question["id"], *asked(question), [])


def chat_tools(case):
    function = lambda name, text, parameters: {"name": name, "description": text, "parameters": parameters}
    return [{"type": "function", "function": function(*tool)} for tool in case.tools]
