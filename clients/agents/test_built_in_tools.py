"""Codex's tools besides functions, in loops with models that know only functions: a custom tool with a grammar, a tool search that
Codex runs, namespaces. The user's message tells the scripted model which calls to make, natively or in text as it was taught."""

import json
import sys
from pathlib import Path

import pytest
from programs import ClaudeCode, Codex
from scripted import Upstream

ANSWER = "It is done."
CONTENT = '"ü" \\ one\ntwo\n'
PATCH = """*** Begin Patch
*** Add File: new.txt
+"ü" \\ one
+two
*** Update File: one.txt
@@
-{one}
+one=1
*** End Patch
"""

# What Codex knows of a model, so that it offers these tools.
KNOWN = {
    "apply_patch_tool_type": "freeform",
    "base_instructions": "Use tools.",
    "context_window": 272_000,
    "experimental_supported_tools": [],
    "input_modalities": ["text"],
    "priority": 1,
    "shell_type": "unified_exec",
    "support_verbosity": False,
    "supported_in_api": True,
    "supported_reasoning_levels": [],
    "supports_parallel_tool_calls": True,
    "supports_search_tool": True,
    "truncation_policy": {"mode": "tokens", "limit": 10_000},
    "visibility": "list",
}
SERVER = Path(__file__).parents[1] / "tools/modern_server.py"

pytestmark = pytest.mark.parametrize("model", ["plays-native", "plays-hermes"])


def play(agent, model, folders, *calls):
    """Runs an agent whose model makes these calls, each a pair of a name and arguments. Returns the upstream's last request."""
    home, work = folders
    calls = [{"name": name, "arguments": arguments} for name, arguments in calls]
    prompt = "PLAY " + json.dumps({"calls": calls, "answer": ANSWER})
    status, output = agent.run(model, home, work, prompt)
    assert (status, ANSWER in output) == (0, True), output[-2000:]
    return json.dumps(Upstream().seen("plays")["requests"][-1], ensure_ascii=False)


def test_custom_tool_with_a_grammar(model, folders):
    _, work = folders
    patch = PATCH.format(one=(work / "one.txt").read_text().strip())
    told = play(Codex(known=KNOWN), model, folders, ("apply_patch", {"input": patch}), ("exec_command", {"cmd": "cat new.txt"}))
    assert (work / "one.txt").read_text() == "one=1\n"
    assert (work / "new.txt").read_text() == CONTENT
    assert json.dumps(CONTENT, ensure_ascii=False)[1:-1] in told


def test_custom_tool_in_a_namespace_of_an_item(model, folders):
    """The tools of the newest models, which call others from a script, as Codex declares them."""
    _, work = folders
    script = 'const { output } = await tools.exec_command({ cmd: "cat one.txt" });\ntext(output);\n'
    known = KNOWN | {"tool_mode": "code_mode_only", "use_responses_lite": True}
    told = play(Codex(known=known), model, folders, ("functions__exec", {"input": script}))
    assert told.count((work / "one.txt").read_text().strip()) == 1


def test_tool_search_and_namespaces(model, folders):
    """The tools of an MCP server, which Codex loads when they are searched for."""
    server = f"""
[mcp_servers.numbers]
command = "{sys.executable}"
args = ["{SERVER}"]
required = true
"""
    calls = [("tool_search", {"query": "add numbers"}), ("mcp__numbers__add", {"a": 2, "b": 40})]
    assert '"result' in play(Codex(known=KNOWN, settings=server), model, folders, *calls)


@pytest.mark.skipif(not ClaudeCode.program, reason="Claude Code is not installed")
def test_deferred_tools_of_claude_code(model, folders):
    calls = [("ToolSearch", {"query": "select:CronList"}), ("CronList", {})]
    told = play(ClaudeCode("messages"), model, folders, *calls)
    assert "Loaded: CronList" in told
    assert "No scheduled jobs" in told
