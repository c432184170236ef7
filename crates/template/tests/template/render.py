#!/usr/bin/env python3
"""Renders the templates of this folder with Python's Jinja, in the environment that transformers sets up.

    render.py            checks that rendered.json holds what Jinja renders
    render.py --write    writes it

Each template is rendered for each request. crates/template/tests/template compares toolwire with the result.
"""

import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2026, 3, 9, 14, 5, 7)
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TOKEN_NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]


class Refused(Exception):
    pass


class Generation(jinja2.ext.Extension):
    """A block of its own scope, as the extension of transformers that tracks what the model wrote."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    def raise_exception(message):
        raise Refused(message)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def text_of(content):
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def arguments(text):
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def variables(request):
    messages, names = [], {}
    for sent in request["messages"]:
        message = {"role": sent["role"], "content": text_of(sent.get("content"))}
        if sent["role"] == "tool":
            message["name"] = names[sent["tool_call_id"]]
            message["tool_call_id"] = sent["tool_call_id"]
        if sent.get("reasoning_content"):
            message["reasoning_content"] = sent["reasoning_content"]
        if sent.get("tool_calls"):
            message["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {
                        "name": call["function"]["name"],
                        "arguments": arguments(call["function"]["arguments"]),
                    },
                }
                for call in sent["tool_calls"]
            ]
            names.update((call["id"], call["function"]["name"]) for call in sent["tool_calls"])
        messages.append(message)
    empty = {"type": "object", "properties": {}}
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool["function"]["name"],
                "description": tool["function"].get("description", ""),
                "parameters": tool["function"].get("parameters", empty),
            },
        }
        for tool in request.get("tools", [])
    ]
    ours = {"messages": messages, "tools": tools or None, "documents": None, "add_generation_prompt": True}
    return {**request.get("chat_template_kwargs", {}), **ours}


def template_of(path, request):
    """The template's text, and the model's tokens."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return text, TOKENS
    config = json.loads(text)
    tokens = {name: config[name] for name in TOKEN_NAMES if config.get(name)}
    tokens = {name: token["content"] if isinstance(token, dict) else token for name, token in tokens.items()}
    named = {entry["name"]: entry["template"] for entry in config["chat_template"]}
    return named["tool_use" if request.get("tools") else "default"], tokens


def render(path, request):
    text, tokens = template_of(path, request)
    try:
        return {"text": environment().from_string(text).render(**tokens, **variables(request))}
    except Refused as refused:
        return {"refused": str(refused)}
    except Exception as error:  # A template that fails: only that it fails is compared.
        print(f"{path.name}: {error}", file=sys.stderr)
        return {"fails": True}


def main():
    rendered = {
        path.name: {
            request.stem: render(path, json.loads(request.read_text(encoding="utf-8")))
            for request in sorted((HERE / "requests").iterdir())
        }
        for path in sorted((HERE / "templates").iterdir())
    }
    text = json.dumps(rendered, ensure_ascii=False, indent=1) + "\n"
    stored = HERE / "rendered.json"
    if "--write" in sys.argv:
        stored.write_text(text, encoding="utf-8")
    elif stored.read_text(encoding="utf-8") != text:
        sys.exit("rendered.json is not what Jinja renders; run render.py --write")


if __name__ == "__main__":
    main()
