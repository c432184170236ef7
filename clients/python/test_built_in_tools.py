"""Tools that OpenAI's and Anthropic's APIs define and that clients run, with models that know only functions.

The user's message tells the scripted model which calls to make. It makes them natively, or in text as it was taught.
"""

import asyncio
import base64
import json

import agents
import pytest
from agents.editor import ApplyPatchResult
from anthropic.lib.tools import BetaBuiltinFunctionTool
from anthropic.tools.computer import BetaAbstractComputerToolset20260801
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from messages import client as messages_client
from openai import AsyncOpenAI
from sdk import SETTINGS, client

agents.set_tracing_disabled(True)

MODELS = ["plays-native", "plays-hermes"]
ANSWER = "It is done."

pytestmark = [
    pytest.mark.parametrize("name", MODELS),
    pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"]),
]


def play(*calls):
    """The user's message that asks for calls, each a pair of a name and arguments."""
    calls = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return "PLAY " + json.dumps({"calls": calls, "answer": ANSWER})


def check_told(upstream, *calls, results=(), described=()):
    """Checks that the model was told of its tools, and in the last request of its calls as it made them, and of the results."""
    requests = upstream.seen("plays")["requests"]
    turns = requests[-1]["messages"]
    [at] = [at for at, turn in enumerate(turns) if "PLAY " in str(turn["content"])]
    turns = turns[at:]
    made = [turn for turn in turns if turn["role"] == "assistant"]
    assert len(made) == len(calls)
    for turn, (name, arguments) in zip(made, calls, strict=True):
        if "tool_calls" in turn:
            [call] = turn["tool_calls"]
            assert call["function"]["name"] == name
            assert json.loads(call["function"]["arguments"]) == arguments
        else:
            written = json.dumps({"name": name, "arguments": arguments})
            assert turn["content"] == f"<tool_call>\n{written}\n</tool_call>"
    told = json.dumps(requests[-1], ensure_ascii=False)
    for part in (*results, *described):
        assert part in told, part


async def run(name, stream, tools, calls, **settings):
    """Runs an agent of the Agents SDK. Returns its answer."""
    speaking = agents.OpenAIResponsesModel(model=name, openai_client=AsyncOpenAI(**SETTINGS))
    agent = agents.Agent(name="agent", model=speaking, tools=tools, **settings)
    if not stream:
        return (await agents.Runner.run(agent, play(*calls), max_turns=len(calls) + 2)).final_output
    running = agents.Runner.run_streamed(agent, play(*calls), max_turns=len(calls) + 2)
    async for _ in running.stream_events():
        pass
    return running.final_output


def test_shell(name, stream, upstream):
    ran = []

    def execute(request):
        action = request.data.action
        ran.append((action.commands, action.timeout_ms))
        outputs = [agents.ShellCommandOutput(command=command, stdout="a.txt") for command in action.commands]
        return agents.ShellResult(output=outputs)

    calls = [("shell", {"commands": ["ls", 'echo "é"'], "timeout_ms": 1000}), ("shell", {"commands": ["pwd"]})]
    assert asyncio.run(run(name, stream, [agents.ShellTool(executor=execute)], calls)) == ANSWER
    assert ran == [(["ls", 'echo "é"'], 1000), (["pwd"], None)]
    check_told(upstream, *calls, results=["a.txt"])


def test_local_shell(name, stream, upstream):
    ran = []

    def execute(request):
        action = request.data.action
        ran.append((action.type, action.command, action.env, action.working_directory))
        return "a.txt"

    calls = [("local_shell", {"command": ["ls", "-l"], "working_directory": "/tmp"})]
    assert asyncio.run(run(name, stream, [agents.LocalShellTool(executor=execute)], calls)) == ANSWER
    assert ran == [("exec", ["ls", "-l"], {}, "/tmp")]
    check_told(upstream, *calls, results=["a.txt"])


class Editor:
    """An editor of files in memory."""

    def __init__(self):
        self.files = {}

    def create_file(self, operation):
        self.files[operation.path] = agents.apply_diff("", operation.diff, mode="create")
        return ApplyPatchResult(output=f"Created {operation.path}")

    def update_file(self, operation):
        self.files[operation.path] = agents.apply_diff(self.files[operation.path], operation.diff)
        return ApplyPatchResult(output=f"Updated {operation.path}")

    def delete_file(self, operation):
        del self.files[operation.path]
        return ApplyPatchResult(output=f"Deleted {operation.path}")


def test_apply_patch(name, stream, upstream):
    editor = Editor()
    calls = [
        ("apply_patch", {"type": "create_file", "path": "a.txt", "diff": "+one\n+two"}),
        ("apply_patch", {"type": "update_file", "path": "a.txt", "diff": "@@\n one\n-two\n+2"}),
        ("apply_patch", {"type": "create_file", "path": "b.txt", "diff": "+b"}),
        ("apply_patch", {"type": "delete_file", "path": "b.txt"}),
    ]
    assert asyncio.run(run(name, stream, [agents.ApplyPatchTool(editor=editor)], calls)) == ANSWER
    assert {path: text.split() for path, text in editor.files.items()} == {"a.txt": ["one", "2"]}
    check_told(upstream, *calls, results=["Created a.txt", "Updated a.txt", "Deleted b.txt"])


GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "run " /.+/'}


def test_custom_tool_with_a_grammar(name, stream, upstream):
    inputs = []

    async def invoke(_context, input):
        inputs.append(input)
        return "RESULT"

    tool = agents.CustomTool(name="terminal", description="Runs commands.", on_invoke_tool=invoke, format=GRAMMAR)
    calls = [("terminal", {"input": 'run echo "é" \\ \n'}), ("terminal", {"input": "run ls"})]
    assert asyncio.run(run(name, stream, [tool], calls)) == ANSWER
    assert inputs == ['run echo "é" \\ \n', "run ls"]
    check_told(upstream, *calls, results=["RESULT"], described=["Runs commands.", "lark"])


class Computer(agents.Computer):
    """A computer that notes what it is asked to do."""

    environment = "linux"
    dimensions = (800, 600)

    def __init__(self):
        self.done = []

    def screenshot(self):
        return base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()

    def _note(kind):
        def note(self, *values, **named):
            self.done.append((kind, *values, *named.values()))

        return note

    click, double_click, scroll, type = _note("click"), _note("double_click"), _note("scroll"), _note("type")
    wait, move, keypress, drag = _note("wait"), _note("move"), _note("keypress"), _note("drag")


def test_computer(name, stream, upstream):
    computer = Computer()
    actions = [{"type": "click", "x": 1, "y": 2, "button": "left"}, {"type": "type", "text": "hi"}]
    calls = [("computer", {"actions": [{"type": "screenshot"}]}), ("computer", {"actions": actions})]
    assert asyncio.run(run(name, stream, [agents.ComputerTool(computer=computer)], calls)) == ANSWER
    assert computer.done == [("click", 1, 2, "left"), ("type", "hi")]
    check_told(upstream, *calls, results=["data:image/png;base64,"])


def test_a_named_tool_and_a_function_of_the_same_name(name, stream, upstream):
    """The function keeps its name, and the built-in tool gets another, under which the model sees it."""
    function = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}, "strict": False}
    asked = {"model": name, "tools": [function, {"type": "shell", "environment": {"type": "local"}}], "store": False}
    response = ended(stream, input=play(("shell", {})), **asked)
    [item] = response.output
    assert (item.type, item.name, item.arguments) == ("function_call", "shell", "{}")
    if name == "plays-native":
        [_, other] = (tool["function"]["name"] for tool in upstream.seen("plays")["requests"][-1]["tools"])
        response = ended(stream, input=play((other, {"commands": ["ls"]})), tool_choice={"type": "shell"}, **asked)
        [item] = response.output
        assert (item.type, item.action.commands) == ("shell_call", ["ls"])
        chosen = upstream.seen("plays")["requests"][-1]["tool_choice"]
        assert chosen == {"type": "function", "function": {"name": other}}


def test_arguments_that_do_not_fit_are_text(name, stream):
    asked = {"model": name, "tools": [{"type": "shell"}], "store": False}
    response = ended(stream, input=play(("shell", {"timeout_ms": 5})), **asked)
    [item] = response.output
    assert (item.type, json.loads(item.content[0].text)) == ("message", {"timeout_ms": 5})
    [warning] = response.toolwire["warnings"]
    assert warning["code"] == "unfit_arguments"


def test_tool_search_of_the_client(name, stream, upstream):
    search = {"type": "tool_search", "execution": "client", "description": "Find tools by goal.", "parameters": {
        "type": "object", "properties": {"goal": {"type": "string"}}, "required": ["goal"]}}
    weather = {"type": "function", "name": "get_weather", "description": "Weather of a city.", "strict": False,
               "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    calls = [("tool_search", {"goal": "weather"}), ("get_weather", {"city": "Paris"})]
    items = [{"role": "user", "content": play(*calls)}]
    asked = {"model": name, "tools": [search], "store": False}
    [call] = ended(stream, input=items, **asked).output
    assert (call.type, call.execution, call.arguments) == ("tool_search_call", "client", {"goal": "weather"})
    items += [call, {"type": "tool_search_output", "call_id": call.call_id, "execution": "client", "tools": [weather]}]
    [call] = ended(stream, input=items, **asked).output
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "get_weather", {"city": "Paris"})
    items += [call, {"type": "function_call_output", "call_id": call.call_id, "output": "18 °C"}]
    assert ended(stream, input=items, **asked).output_text == ANSWER
    check_told(upstream, *calls, results=["18 °C"], described=["Find tools by goal.", "Weather of a city."])


def ended(stream, **request):
    """Returns a complete response. In a stream, checks that its items are those of the events, and in the order of their indices."""
    if not stream:
        return client().responses.create(**request)
    items, added = [], []
    for event in client().responses.create(stream=True, **request):
        if event.type == "response.output_item.added":
            assert event.output_index == len(added)
            added.append(event.item)
        elif event.type == "response.output_item.done":
            items.append(event.item)
    response = event.response
    assert [item.to_dict() for item in items] == [item.to_dict() for item in response.output]
    assert [(item.type, item.id) for item in added] == [(item.type, item.id) for item in items]
    return response


class BuiltIn(BetaBuiltinFunctionTool):
    """A tool of Anthropic's API that notes its inputs."""

    def __init__(self, result, **declaration):
        self.result, self.declaration, self.inputs = result, declaration, []

    def to_dict(self):
        return self.declaration

    def call(self, input):
        self.inputs.append(input)
        return self.result


IMAGE = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()}


@pytest.mark.parametrize(
    ("tool", "inputs"),
    [
        (
            {"type": "bash_20250124", "name": "bash"},
            [{"command": "ls"}, {"restart": True}],
        ),
        (
            {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9000},
            [
                {"command": "view", "path": "/a", "view_range": [1, -1]},
                {"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "x"},
            ],
        ),
        (
            {"type": "computer_20250124", "name": "computer", "display_width_px": 800, "display_height_px": 600},
            [{"action": "screenshot"}, {"action": "left_click", "coordinate": [1, 2]}],
        ),
    ],
    ids=["bash", "text-editor", "computer"],
)
def test_tools_of_anthropic(name, stream, tool, inputs, upstream):
    """anthropic's tool runner."""
    result = [{"type": "image", "source": IMAGE}] if tool["name"] == "computer" else "RESULT"
    built_in = BuiltIn(result, **tool)
    calls = [(tool["name"], given) for given in inputs]
    runner = messages_client().beta.messages.tool_runner(
        model=name,
        max_tokens=500,
        messages=[{"role": "user", "content": play(*calls)}],
        tools=[built_in],
        stream=stream,
    )
    [block] = runner.until_done().content
    assert (block.text, built_in.inputs) == (ANSWER, inputs)
    results = ["data:image/png;base64,"] if tool["name"] == "computer" else ["RESULT"]
    check_told(upstream, *calls, results=results)


class Toolset(BetaAbstractComputerToolset20260801):
    """A computer of anthropic's toolset, which has a tool for each action, that notes what it is asked to do."""

    def __init__(self, **options):
        super().__init__(**options)
        self.done = []

    def execute(self, context, name, input):
        self.done.append((name, input.model_dump(exclude_none=True)))
        return "RESULT"


def test_toolset_of_anthropic(name, stream, upstream):
    """anthropic's tool runner with a toolset."""
    toolset = Toolset(confirm=lambda _context: True)
    calls = [("computer__left_click", {"coordinate": [1, 2]}), ("computer__type", {"text": "hi"})]
    runner = messages_client().beta.messages.tool_runner(
        model=name,
        max_tokens=500,
        messages=[{"role": "user", "content": play(*calls)}],
        tools=[toolset],
        stream=stream,
    )
    [block] = runner.until_done().content
    assert block.text == ANSWER
    assert toolset.done == [("left_click", {"coordinate": [1, 2]}), ("type", {"text": "hi"})]
    check_told(upstream, *calls, results=["RESULT"])


def test_memory_of_anthropic(name, stream, upstream, tmp_path):
    """anthropic's tool runner with its memory in files."""
    memory = BetaLocalFilesystemMemoryTool(str(tmp_path))
    calls = [
        ("memory", {"command": "create", "path": "/memories/a.txt", "file_text": "one\n"}),
        ("memory", {"command": "insert", "path": "/memories/a.txt", "insert_line": 1, "insert_text": "two\n"}),
        ("memory", {"command": "rename", "old_path": "/memories/a.txt", "new_path": "/memories/b.txt"}),
        ("memory", {"command": "view", "path": "/memories"}),
    ]
    runner = messages_client().beta.messages.tool_runner(
        model=name,
        max_tokens=500,
        messages=[{"role": "user", "content": play(*calls)}],
        tools=[memory],
        stream=stream,
    )
    [block] = runner.until_done().content
    assert block.text == ANSWER
    assert (tmp_path / "memories/b.txt").read_text() == "one\ntwo\n"
    check_told(upstream, *calls, results=["b.txt"])


def test_a_chosen_tool_of_anthropic(name, stream, upstream):
    del stream
    message = messages_client().messages.create(
        model=name,
        max_tokens=500,
        messages=[{"role": "user", "content": play(("bash", {"command": "ls"}))}],
        tools=[{"type": "bash_20250124", "name": "bash"}],
        tool_choice={"type": "tool", "name": "bash"},
    )
    [block] = message.content
    assert (block.type, block.name, block.input, message.stop_reason) == ("tool_use", "bash", {"command": "ls"}, "tool_use")
    if name == "plays-native":
        assert upstream.seen("plays")["requests"][-1]["tool_choice"]["function"]["name"] == "bash"
