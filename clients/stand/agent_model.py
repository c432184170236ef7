"""The model for agents. It reads two files, writes a long one, and reports the results.

It only calls the agent's own shell tool, so that the agent really runs every step.
"""

import json
import re

from answers import turns_of

# Says how long the file is that was written.
COUNT = "echo wrote=$(($(wc -c < out.txt)))"

# Shell tools: the name, and a function that builds the arguments for a command.
SHELLS = {
    "bash": ("bash", lambda command: {"command": command, "description": "Runs a command"}),
    "Bash": ("Bash", lambda command: {"command": command, "description": "Runs a command"}),
    "exec_command": ("exec_command", lambda command: {"cmd": command}),
    "run_shell_command": ("run_shell_command", lambda command: {"command": command, "is_background": False}),
    # gemini-cli refuses command substitution.
    "gemini": (
        "run_shell_command",
        lambda command: {"command": command.replace(COUNT, "printf wrote=; wc -c < out.txt | tr -d ' '")},
    ),
    "run_commands": ("run_commands", lambda command: {"commands": [command]}),
    "shell": ("shell", lambda command: {"command": command}),
    "terminal": ("terminal", lambda command: {"command": command}),
    "mini": ("bash", lambda command: {"command": command}),
    "smolagents": ("shell", lambda command: {"command": command}),
    "dspy": ("shell", lambda command: {"command": command}),
    "tools-shell": ("tools-shell", lambda command: {"command": command}),
}

# The calls by which agents end that do not end with a response without calls.
LAST_CALLS = {
    "mini": lambda text: ("bash", {"command": f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '{text}'"}),
    "smolagents": lambda text: ("final_answer", {"answer": text}),
    "dspy": lambda text: ("submit", {"answer": text}),
}

# More than 100 KB, but even after another level of quoting less than 128 KiB, the limit for an argument of a process.
LINE = 'All work and no play makes a dull toolwire, "ü" and \\.\n'
CONTENT = LINE * (105_000 // len(LINE.encode()))

# The contents of the files, and the output of the last command.
ONE, TWO, WROTE = re.compile(r"one=[0-9a-f]{8}"), re.compile(r"two=[0-9a-f]{8}"), re.compile(r"wrote=\d+")


def command_of(content):
    return f"cat > out.txt <<'END'\n{content}END\n{COUNT}"


def agent(request, answer):
    """Makes two parallel calls, then a call with long arguments. Then responds with text that contains all results."""
    told = json.dumps(request, ensure_ascii=False)
    name, arguments = SHELLS[answer.variant]
    one, two, wrote = (found.search(told) for found in (ONE, TWO, WROTE))
    answer.begin()
    facts = ", ".join(found[0] for found in (one, two, wrote) if found)
    if asks_for_summary(request):
        answer.text("So far: ", facts)
        answer.finish("stop")
    elif name not in told:
        # A request outside the conversation, such as for a title.
        answer.text("A ", "title")
        answer.finish("stop")
    elif one and two and wrote and answer.variant in LAST_CALLS:
        last, given = LAST_CALLS[answer.variant](f"Done: {facts}.")
        answer.call(last, json.dumps(given))
        answer.finish("tool_calls")
    elif one and two and wrote:
        answer.text("Done: ", f"{facts}.")
        answer.finish("stop")
    elif LINE.strip()[:40] in told:
        answer.text("The long command failed.")
        answer.finish("stop")
    elif one and two:
        answer.call(name, json.dumps(arguments(command_of(CONTENT))))
        answer.finish("tool_calls")
    else:
        answer.text("Let me ", "look.")
        answer.call(name, json.dumps(arguments("cat one.txt")))
        answer.call(name, json.dumps(arguments("cat two.txt")))
        answer.finish("tool_calls")


# Of toolwire and of Codex.
COMPACTION = re.compile("Summarize the conversation|CONTEXT CHECKPOINT COMPACTION")


def asks_for_summary(request):
    """Whether the last turn asks for a summary to replace the conversation."""
    return COMPACTION.search(json.dumps(turns_of(request)[-1]))


def agent_cut(_request, answer):
    """The connection breaks in the middle of a command, which must not be run."""
    name, arguments = SHELLS[answer.variant]
    answer.begin()
    answer.call(name, json.dumps(arguments("touch ran.txt; sleep 1"))[:-12])
    answer.cut()


ACTS = {"agent": agent, "agent-cut": agent_cut}

# Upstreams for agents, with the settings of their models.
UPSTREAMS = {
    "chat": {"dialect": "chat"},
    "lumo-v1": {"dialect": "lumo", "options": {"version": "v1"}, "tools": "pre", "tool_prefix": ""},
    "messages": {"dialect": "messages"},
    "ollama": {"dialect": "ollama"},
    "gemini": {"dialect": "gemini"},
    "responses": {"dialect": "responses"},
}

# The fixture in clients/fixtures/agents with the loop that `toolwire mock` plays for each shell tool.
FIXTURES = {"bash": "agent-bash", "exec_command": "agent-exec"}


def models(scripted, mock):
    """Yields the keyword arguments for the models of each shell tool: one per act and upstream, and one for its fixture."""
    for shell in SHELLS:
        for act in ACTS:
            for name, settings in UPSTREAMS.items():
                base_url = f"{scripted}/{act}/{shell}"
                yield {"name": f"{act}-{shell}-{name}", "base_url": base_url} | settings
    for shell, fixture in FIXTURES.items():
        headers = {"x-fixture": fixture}
        yield {"name": f"mock-{shell}", "dialect": "chat", "base_url": f"{mock}/v1", "headers": headers}


def told():
    """Returns what the suite of agents needs to know."""
    return {"upstreams": list(UPSTREAMS), "with_fixture": list(FIXTURES), "written": CONTENT}
