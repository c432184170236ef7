"""The model behind whole agents: it reads two files, writes a long one, and says what it has seen.

Its calls are of the agent's own shell tool, so that every step is run by a program that knows nothing of this suite.
"""

import json
import re

# The name of each agent's shell tool, and its arguments for a command.
SHELLS = {
    "opencode": ("bash", lambda command: {"command": command, "description": "Runs a command"}),
    "pi": ("bash", lambda command: {"command": command}),
    "codex": ("exec_command", lambda command: {"cmd": command}),
    "claude": ("Bash", lambda command: {"command": command, "description": "Runs a command"}),
}

# More than 100 KB, and even when quoted once more less than the 128 KiB that one argument of a process may have.
LINE = 'All work and no play makes a dull toolwire, "ü" and \\.\n'
CONTENT = LINE * (105_000 // len(LINE.encode()))

# What the files say, and what the last command prints.
ONE, TWO, WROTE = re.compile(r"one=[0-9a-f]{8}"), re.compile(r"two=[0-9a-f]{8}"), re.compile(r"wrote=\d+")


def command_of(content):
    return f"cat > out.txt <<'END'\n{content}END\necho wrote=$(($(wc -c < out.txt)))"


def agent(request, answer):
    """Two calls at once, then a call with long arguments, then text that contains all results."""
    told = json.dumps(request, ensure_ascii=False)
    name, arguments = SHELLS[answer.variant]
    one, two, wrote = (found.search(told) for found in (ONE, TWO, WROTE))
    answer.begin()
    if name not in told:
        # A question beside the conversation, such as for its title.
        answer.text("A ", "title")
        answer.finish("stop")
    elif one and two and wrote:
        answer.text(f"Done: {one[0]}, ", f"{two[0]}, {wrote[0]}.")
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


def agent_cut(_request, answer):
    """The connection dies in the middle of a command: it must not be run."""
    name, arguments = SHELLS[answer.variant]
    answer.begin()
    answer.call(name, json.dumps(arguments("touch ran.txt; sleep 1"))[:-12])
    answer.cut()


ACTS = {"agent": agent, "agent-cut": agent_cut}

# The upstreams behind agents: the settings of their models.
UPSTREAMS = {
    "chat": {"dialect": "chat"},
    "lumo-v1": {"dialect": "lumo", "options": {"version": "v1"}, "tools": "pre", "tool_prefix": ""},
    "messages": {"dialect": "messages"},
    "ollama": {"dialect": "ollama"},
    "gemini": {"dialect": "gemini"},
    "responses": {"dialect": "responses"},
}

# The fixture whose loop `toolwire mock` plays for an agent, in clients/fixtures/agents.
FIXTURES = {"opencode": "agent-bash", "pi": "agent-bash", "codex": "agent-exec"}


def models(scripted, mock):
    """The keyword arguments of the models of each agent: for each act and upstream, and for its fixture."""
    for agent_name in SHELLS:
        for act in ACTS:
            for name, settings in UPSTREAMS.items():
                base_url = f"{scripted}/{act}/{agent_name}"
                yield {"name": f"{act}-{agent_name}-{name}", "base_url": base_url} | settings
    for agent_name, fixture in FIXTURES.items():
        headers = {"x-fixture": fixture}
        yield {"name": f"mock-{agent_name}", "dialect": "chat", "base_url": f"{mock}/v1", "headers": headers}


def told():
    """What the suite needs to know."""
    return {"upstreams": list(UPSTREAMS), "with_fixture": list(FIXTURES), "written": CONTENT}
