"""Writes calls as the models of six formats do, without toolwire's code. Calls are pairs of name and arguments."""

import json


def text(value):
    return value if isinstance(value, str) else dumps(value)


def dumps(value):
    return json.dumps(value, ensure_ascii=False)


def hermes(calls, number):
    return "\n".join(f'<tool_call>\n{{"name": {dumps(name)}, "arguments": {dumps(given)}}}\n</tool_call>' for name, given in calls)


def qwen3_coder(calls, number):
    parameters = lambda given: "".join(f"<parameter={key}>\n{text(value)}\n</parameter>\n" for key, value in given.items())
    return "\n".join(f"<tool_call>\n<function={name}>\n{parameters(given)}</function>\n</tool_call>" for name, given in calls)


def kimi_k2(calls, number):
    """`number` is how many calls the conversation has had: ids count on."""
    written = (
        f"<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>{dumps(given)}<|tool_call_end|>"
        for index, (name, given) in enumerate(calls, number)
    )
    return "<|tool_calls_section_begin|>" + "".join(written) + "<|tool_calls_section_end|>"


def deepseek_v31(calls, number):
    written = (f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{dumps(given)}<｜tool▁call▁end｜>" for name, given in calls)
    return "<｜tool▁calls▁begin｜>" + "".join(written) + "<｜tool▁calls▁end｜>"


def pythonic(calls, number):
    arguments = lambda given: ", ".join(f"{key}={value!r}" for key, value in given.items())
    return "[" + ", ".join(f"{name}({arguments(given)})" for name, given in calls) + "]"


def pre(calls, number):
    return "\n".join(f'<pre>{{"name": {dumps(name)}, "arguments": {dumps(given)}}}</pre>' for name, given in calls)


# The model's name, from which toolwire derives the format, and the writer.
WRITERS = {
    "hermes": ("Qwen/Qwen3-8B", hermes),
    "qwen3_coder": ("Qwen/Qwen3-Coder-30B-A3B-Instruct", qwen3_coder),
    "kimi_k2": ("moonshotai/Kimi-K2-Instruct-0905", kimi_k2),
    "deepseek_v31": ("deepseek-ai/DeepSeek-V3.1", deepseek_v31),
    "pythonic": ("meta-llama/Llama-4-Scout-17B-16E-Instruct", pythonic),
    "pre": ("lumo-max", pre),
}
# These allow text before a call: what their templates write between the two.
SPOKEN = {"hermes": "\n", "qwen3_coder": "\n\n", "kimi_k2": "", "deepseek_v31": "", "pre": "\n"}
