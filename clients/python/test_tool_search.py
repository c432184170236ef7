"""Searches for tools that servers run, of OpenAI's and Anthropic's APIs, with models that know only functions.

The scripted model makes the calls of the user's message, natively, or in text as it was taught. toolwire runs the searches.
"""

import json

import pytest
from anthropic import beta_tool
from messages import client as messages_client
from sdk import client
from test_built_in_tools import ANSWER, MODELS, check_told, ended, play

pytestmark = [
    pytest.mark.parametrize("name", MODELS),
    pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"]),
]


def shown(upstream, tool, count):
    """In which of the last requests the model was shown the tool."""
    found = []
    for request in upstream.seen("plays")["requests"][-count:]:
        declared = [each["function"]["name"] for each in request.get("tools", ())]
        taught = "\n".join(str(turn["content"]) for turn in request["messages"] if turn["role"] == "system")
        found.append(tool in declared or f"{tool}(" in taught)
    return found


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("tool_search_tool_bm25_20251119", {"query": "weather forecast"}),
        ("tool_search_tool_regex_20251119", {"pattern": "(?i)WEATHER"}),
    ],
    ids=["bm25", "regex"],
)
def test_search_of_anthropic(name, stream, kind, given, upstream):
    """anthropic's tool runner."""
    ran = []

    @beta_tool(defer_loading=True)
    def get_weather(city: str) -> str:
        """Returns the weather forecast for a city.

        Args:
            city: The name of the city.
        """
        ran.append(city)
        return "18 °C"

    @beta_tool(defer_loading=True)
    def send_mail(to: str) -> str:
        """Sends a message."""
        raise AssertionError(to)

    function = kind.removesuffix("_20251119")
    calls = [(function, given), ("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    runner = messages_client().beta.messages.tool_runner(
        model=name,
        max_tokens=500,
        messages=[{"role": "user", "content": play(*calls)}],
        tools=[{"type": kind, "name": function}, get_weather, send_mail],
        stream=stream,
    )
    if stream:
        messages = [each.get_final_message() for each in runner]
    else:
        messages = list(runner)
    first, *_, last = messages
    assert [block.type for block in first.content] == ["server_tool_use", "tool_search_tool_result", "tool_use"]
    use, result, _ = first.content
    assert (use.name, use.input, result.tool_use_id) == (function, given, use.id)
    assert [found.tool_name for found in result.content.tool_references] == ["get_weather"]
    assert (ran, last.content[-1].text) == (["Paris", "Rome"], ANSWER)
    check_told(upstream, *calls, results=["Loaded: get_weather", "18 °C"])
    assert shown(upstream, "get_weather", 4) == [False, True, True, True]
    assert not any(shown(upstream, "send_mail", 4))


def test_wrong_pattern_of_anthropic(name, stream):
    del stream
    message = messages_client().beta.messages.create(
        model=name,
        max_tokens=500,
        messages=[{"role": "user", "content": play(("tool_search_tool_regex", {"pattern": "("}))}],
        tools=[
            {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
            {"name": "get_weather", "defer_loading": True, "input_schema": {"type": "object"}},
        ],
    )
    _, result, text = message.content
    assert (result.content.type, result.content.error_code) == ("tool_search_tool_result_error", "invalid_tool_input")
    assert text.text == ANSWER


def test_search_of_openai(name, stream, upstream):
    function = {"type": "function", "name": "get_weather", "description": "Weather of a city.", "defer_loading": True,
                "strict": False, "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}  # fmt: skip
    moon = function | {"name": "get_moon", "description": "Phases of the moon."}
    mail = function | {"name": "send_mail", "description": "Sends a message."}
    sky = {"type": "namespace", "name": "sky", "description": "All about the sky.", "tools": [function, moon]}
    calls = [("tool_search", {"query": "weather"}), ("sky__get_weather", {"city": "Paris"})]
    items = [{"role": "user", "content": play(*calls)}]
    asked = {"model": name, "tools": [{"type": "tool_search"}, sky, mail], "store": False}
    search, found, call = ended(stream, input=items, **asked).output
    assert (search.type, search.execution, search.arguments) == ("tool_search_call", "server", {"query": "weather"})
    assert (found.type, found.execution, found.status) == ("tool_search_output", "server", "completed")
    [namespace] = found.tools
    assert (namespace.type, namespace.name, [each.name for each in namespace.tools]) == ("namespace", "sky", ["get_weather"])
    assert (call.namespace, call.name, json.loads(call.arguments)) == ("sky", "get_weather", {"city": "Paris"})
    items += [search, found, call, {"type": "function_call_output", "call_id": call.call_id, "output": "18 °C"}]
    assert ended(stream, input=items, **asked).output_text == ANSWER
    check_told(upstream, *calls, results=["Loaded: sky__get_weather", "18 °C"], described=["Weather of a city."])
    assert shown(upstream, "sky__get_weather", 3) == [False, True, True]


def test_search_in_a_stored_response(name, stream, upstream):
    """The next request continues the response, and the tool is still loaded."""
    function = {"type": "function", "name": "get_weather", "description": "Weather of a city.", "defer_loading": True,
                "strict": False, "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}  # fmt: skip
    calls = [("tool_search", {"query": "weather"}), ("get_weather", {"city": "Paris"})]
    asked = {"model": name, "tools": [{"type": "tool_search"}, function]}
    first = ended(stream, input=play(*calls), **asked)
    call = first.output[-1]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "18 °C"}
    last = ended(stream, input=[result], previous_response_id=first.id, **asked)
    assert last.output_text == ANSWER
    assert shown(upstream, "get_weather", 3) == [False, True, True]


def test_many_tools(name, stream, upstream):
    """A client that knows of no search: the model is shown the likely tools and finds the others."""
    function = lambda number: {"type": "function", "function": {
        "name": f"tool_{number}", "description": f"Opens drawer {number}.",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}}}}  # fmt: skip
    tools = [function(number) for number in range(300)]
    messages = [{"role": "user", "content": play(("tool_search", {"query": "drawer 250"}), ("tool_250", {"key": "a"}))}]
    created = client().chat.completions.create(model=name, messages=messages, tools=tools, stream=stream)
    if stream:
        deltas = [chunk.choices[0].delta for chunk in created if chunk.choices]
        calls = [call.function for delta in deltas for call in delta.tool_calls or ()]
        called, arguments = "".join(each.name or "" for each in calls), "".join(each.arguments or "" for each in calls)
    else:
        [call] = created.choices[0].message.tool_calls
        called, arguments = call.function.name, call.function.arguments
    assert (called, json.loads(arguments)) == ("tool_250", {"key": "a"})
    assert shown(upstream, "tool_299", 2) == [False, False]
    assert shown(upstream, "tool_250", 2)[-1]
