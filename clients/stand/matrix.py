"""What every client must receive with every upstream dialect: one table for the suites of all languages.

A scenario consists of an upstream's behaviour and of what clients must have received at the end. For each pair of an upstream and a
scenario, there is a model `via-UPSTREAM-SCENARIO`.
"""

import json

from answers import FAILURE, INPUT_TOKENS, OUTPUT_TOKENS, REFUSAL, pieces

TEXT = "Grüße vom Upstream: ✓ 日本語 🌍, and a \\ \" ' <b>."
THOUGHT = "The user greets; I greet back. ✓"
WEATHER = {"city": "Paris", "days": 3}
CLOCK = {"zone": "Europe/Berlin"}
# More than 100 KB, with characters that JSON must escape.
CONTENT = "".join(f'{number}: "ü✓🌍" \\ \t </tool> {{}}\n' for number in range(4000))
FILE = {"path": "notes/long.txt", "content": CONTENT}


def function(name, description, **members):
    parameters = {"type": "object", "properties": members, "required": list(members)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    function("get_weather", "Weather of a city.", city={"type": "string"}, days={"type": "integer"}),
    function("get_time", "Time in a zone.", zone={"type": "string"}),
    function("write_file", "Writes a file.", path={"type": "string"}, content={"type": "string"}),
]


def written(value):
    return json.dumps(value, ensure_ascii=False)


def plain(_request, answer):
    answer.begin()
    answer.text(*pieces(TEXT, 3))
    answer.finish("stop")


def one_call(_request, answer):
    answer.begin()
    answer.call("get_weather", written(WEATHER))
    answer.finish("tool_calls")


def parallel_calls(_request, answer):
    """Text, followed by two calls."""
    answer.begin()
    answer.text("Let me ", "look.")
    answer.call("get_weather", written(WEATHER))
    answer.call("get_time", written(CLOCK))
    answer.finish("tool_calls")


def long_arguments(_request, answer):
    answer.begin()
    answer.call("write_file", written(FILE))
    answer.finish("tool_calls")


def written_call(_request, answer):
    """A model that writes its call as text, although the API has native calls."""
    answer.begin()
    call = written({"name": "get_weather", "arguments": WEATHER})
    answer.text(*pieces(f"Let me look.<tool_call>\n{call}\n</tool_call>", 5))
    answer.finish("stop")


def reasoned(_request, answer):
    answer.begin()
    answer.reasoning(*pieces(THOUGHT, 5))
    answer.text(*pieces(TEXT, 5))
    answer.finish("stop")


def too_long(_request, answer):
    answer.begin()
    answer.text("It was a dark and ", "stormy")
    answer.finish("length")


def refused(_request, answer):
    answer.refuse(429)


def fails_late(_request, answer):
    answer.begin()
    answer.text("It is ", "eight")
    answer.fail()


def cut_text(_request, answer):
    """The body ends in the middle of the text, with complete HTTP framing."""
    answer.begin()
    answer.text("It is ", "eight")
    answer.cut()


def cut_call(_request, answer):
    """The body ends in the middle of a call."""
    answer.begin()
    answer.call("get_weather", '{"city": "Pa')
    answer.cut()


def cut_written_call(_request, answer):
    """The body ends in the middle of a call that is written as text."""
    answer.begin()
    answer.text("<tool_call>", '{"name": "get_weather", "argu', 'ments": {"city": "Pa')
    answer.cut()


def stays(_request, answer):
    """Text, until the reader disconnects."""
    answer.begin()
    for number in range(600):
        answer.text(f"{number} ")
        answer.wait(0.05)


def expected(finish, text="", calls=(), **members):
    calls = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"text": text, "calls": calls, "finish": finish} | members


SCENARIOS = [
    (plain, expected("stop", TEXT)),
    (one_call, expected("tool_calls", calls=[("get_weather", WEATHER)])),
    (
        parallel_calls,
        expected("tool_calls", "Let me look.", [("get_weather", WEATHER), ("get_time", CLOCK)]),
    ),
    (long_arguments, expected("tool_calls", calls=[("write_file", FILE)])),
    (written_call, expected("tool_calls", "Let me look.", [("get_weather", WEATHER)])),
    (reasoned, expected("stop", TEXT, reasoning=THOUGHT)),
    (too_long, expected("length", "It was a dark and stormy")),
    (refused, {"error": {"status": 429, "message": REFUSAL}}),
    (fails_late, {"error": {"message": FAILURE}}),
    (cut_text, {"error": {}}),
    (cut_call, {"error": {}}),
    (cut_written_call, {"error": {}}),
]

NAMED = [(act.__name__.replace("_", "-"), act, expect) for act, expect in SCENARIOS]

ACTS = {name: act for name, act, _ in NAMED} | {"stays": stays}

# Upstreams, with the settings of their models.
UPSTREAMS = {
    "chat": {"dialect": "chat"},
    "lumo": {"dialect": "lumo"},
    "lumo-v1": {"dialect": "lumo", "options": {"version": "v1"}, "tools": "pre", "tool_prefix": ""},
    "messages": {"dialect": "messages"},
    "ollama": {"dialect": "ollama"},
    "gemini": {"dialect": "gemini"},
    "interactions": {"dialect": "interactions"},
    "bedrock": {"dialect": "bedrock"},
    "responses": {"dialect": "responses"},
}

# Upstreams whose API has no token counts, or no finish reason for the token limit.
WITHOUT_COUNTS = {"lumo-v1"}
WITHOUT_LENGTH = {"lumo-v1"}


def models(scripted):
    """Yields the keyword arguments for the model of each pair."""
    for name, settings in UPSTREAMS.items():
        for scenario in ACTS:
            # Version 1 of Lumo's protocol has no native calls, so its models are taught to write them in `pre`.
            detect = {"detect": ["hermes", "pre"]} if "written-call" in scenario else {}
            yield {"name": f"via-{name}-{scenario}", "base_url": f"{scripted}/{scenario}/{name}"} | settings | detect


def cases():
    """Yields the cases for the suites: the request, and what the client must receive."""
    for name in UPSTREAMS:
        for scenario, _, expect in NAMED:
            if scenario == "too-long" and name in WITHOUT_LENGTH:
                continue
            usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
            has_counts = "error" not in expect and name not in WITHOUT_COUNTS
            request = {
                "model": f"via-{name}-{scenario}",
                "messages": [{"role": "user", "content": "Hello"}],
                "stream_options": {"include_usage": True},
                "tools": TOOLS,
            }
            expect = expect | ({"usage": usage} if has_counts else {})
            yield {"name": request["model"], "scenario": scenario, "request": request, "expect": expect}
