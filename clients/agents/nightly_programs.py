"""The agents that only a nightly run installs, since they are large."""

import json
import runpy
from pathlib import Path

from programs import IS_ARM, ROOT_URL, SYSTEM, Agent, OpenCode, base_url
from stand import STAND

FOLDER = Path(__file__).parent / "nightly"
PROGRAMS = FOLDER / "node_modules/.bin"


def in_python(agent, program):
    """A program of an agent that has an environment of Python of its own."""
    return FOLDER / agent / ".venv/bin" / program


class Kilo(OpenCode):
    """Kilo CLI, which is derived from opencode."""

    name = "kilo"
    program = FOLDER / "node_modules/@kilocode/cli-linux-x64-baseline/bin/kilo"
    options = ["--auto"]


class QwenCode(Agent):
    """Qwen Code, with the vendor's SDK for each API."""

    shell = "run_shell_command"

    KINDS = {"chat": "openai", "messages": "anthropic", "responses": "openai-responses"}

    def prepare(self, model, home, _work, prompt):
        kind = self.KINDS[self.api]
        folder = home / ".qwen"
        folder.mkdir()
        settings = {
            "security": {"auth": {"selectedType": kind}},
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        vendor = "ANTHROPIC" if self.api == "messages" else "OPENAI"
        environment = {"BASE_URL": base_url(self.api), "API_KEY": STAND["key"], "MODEL": model}
        command = [PROGRAMS / "qwen", "--auth-type", kind, "--model", model, "--yolo", "--prompt", prompt]
        return command, {f"{vendor}_{key}": value for key, value in environment.items()}


class GeminiCli(Agent):
    """gemini-cli, which speaks only Gemini's API."""

    shell = "gemini"

    def prepare(self, model, home, _work, prompt):
        folder = home / ".gemini"
        folder.mkdir()
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        command = [PROGRAMS / "gemini", "--model", model, "--yolo", "--skip-trust", "--prompt", prompt]
        return command, {"GOOGLE_GEMINI_BASE_URL": ROOT_URL, "GEMINI_API_KEY": STAND["key"]}


class Copilot(Agent):
    """The Copilot CLI, over HTTP or, with `websocket`, over a WebSocket."""

    shell = "bash"

    def __init__(self, api, websocket=False):
        super().__init__(api)
        self.websocket = websocket

    def prepare(self, model, _home, _work, prompt):
        settings = {
            "TYPE": "anthropic" if self.api == "messages" else "openai",
            "BASE_URL": base_url(self.api),
            "WIRE_API": "responses" if self.api == "responses" else "completions",
            "API_KEY": STAND["key"],
        }
        if self.websocket:
            settings["TRANSPORT"] = "websockets"
        environment = {f"COPILOT_PROVIDER_{key}": value for key, value in settings.items()}
        command = [PROGRAMS / "copilot", "--allow-all-tools", "--prompt", prompt]
        return command, environment | {"COPILOT_MODEL": model, "COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false"}


class Cline(Agent):
    """Cline CLI."""

    shell = "run_commands"

    def prepare(self, model, _home, _work, prompt):
        # The first command writes its settings.
        options = 'openai -k "$KEY" -m "$MODEL"'
        both = f'"$0" auth {options} -b "$URL" && exec "$0" -P {options} --auto-approve true "$1"'
        environment = {"KEY": STAND["key"], "MODEL": model, "URL": STAND["url"], "CLINE_TELEMETRY_DISABLED": "1"}
        return ["sh", "-c", both, PROGRAMS / "cline", prompt], environment


class Continue(Agent):
    """Continue CLI. Its provider for Ollama speaks Chat Completions."""

    shell = "Bash"
    PROVIDERS = {
        "chat": ("openai", STAND["url"] + "/"),
        "messages": ("anthropic", STAND["url"] + "/"),
        "ollama": ("ollama", ROOT_URL),
        "gemini": ("gemini", ROOT_URL),
    }

    def prepare(self, model, home, _work, prompt):
        provider, base_url = self.PROVIDERS[self.api]
        speaking = {
            "name": "toolwire",
            "provider": provider,
            "model": model,
            "apiBase": base_url,
            "apiKey": STAND["key"],
            "roles": ["chat"],
            "capabilities": ["tool_use"],
        }
        # JSON is YAML.
        config = home / "config.yaml"
        config.write_text(json.dumps({"name": "toolwire", "version": "1.0.0", "schema": "v1", "models": [speaking]}))
        command = [PROGRAMS / "cn", "--config", config, "--auto", "-p", prompt]
        environment = {"CONTINUE_TELEMETRY_ENABLED": "0", "CONTINUE_CLI_AUTO_UPDATED": "1"}
        # Its provider for Gemini does not use `apiBase`.
        return command, environment | {"GOOGLE_GEMINI_BASE_URL": ROOT_URL}


class Grok(Agent):
    """grok-cli."""

    shell = "bash"

    def prepare(self, model, _home, _work, prompt):
        return [PROGRAMS / "grok", "-k", STAND["key"], "-u", STAND["url"], "-m", model, "-p", prompt], {}


class Gptme(Agent):
    """gptme, with calls of the API."""

    shell = "shell"
    # It takes half a minute per run.
    upstreams = ["chat", "messages"]

    def prepare(self, model, _home, _work, prompt):
        options = ["--non-interactive", "--no-confirm", "--tool-format", "tool", "--tools", "shell"]
        command = [in_python("gptme", "gptme"), *options, "--model", f"local/{model}", prompt]
        # It would download a tokenizer, and only run the first of parallel calls.
        settings = {"GPTME_TIKTOKEN_TIMEOUT": "0", "GPTME_BREAK_ON_TOOLUSE": "0"}
        return command, settings | {"OPENAI_BASE_URL": STAND["url"], "OPENAI_API_KEY": STAND["key"]}


class Hermes(Agent):
    """hermes-agent."""

    shell = "terminal"

    def prepare(self, model, home, _work, prompt):
        settings = {"default": model, "provider": "custom", "base_url": STAND["url"], "api_key": STAND["key"]}
        # JSON is YAML.
        (home / "config.yaml").write_text(json.dumps({"model": settings}))
        return [in_python("hermes", "hermes"), "chat", "--yolo", "-Q", "-q", prompt], {"HERMES_HOME": str(home)}


class MiniSwe(Agent):
    """mini-swe-agent, which ends with a command of its own."""

    shell = "mini"

    def prepare(self, model, _home, _work, prompt):
        command = [in_python("mini", "mini"), "--yolo", "--exit-immediately", "--model", f"openai/{model}", "--task", prompt]
        settings = {"CONFIGURED": "true", "COST_TRACKING": "ignore_errors"}
        environment = {f"MSWEA_{key}": value for key, value in settings.items()}
        return command, environment | {"OPENAI_API_BASE": STAND["url"], "OPENAI_API_KEY": STAND["key"]}


class Aider(Agent):
    """aider, which has no tools: it edits files by what the model's text says. `way` is `stream` or `whole`."""

    def __init__(self, way):
        super().__init__("chat")
        self.way = way

    def prepare(self, model, _home, _work, prompt):
        options = ["--yes-always", "--no-git", "--no-pretty", "--no-check-update", "--analytics-disable"]
        options += ["--no-show-model-warnings", "--stream" if self.way == "stream" else "--no-stream"]
        speaking = ["--model", f"openai/{model}", "--openai-api-base", STAND["url"], "--openai-api-key", STAND["key"]]
        return [in_python("aider", "aider"), *options, *speaking, "--message", prompt], {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}


class Framework(Agent):
    """A program that uses a framework, in the environment `environment`."""

    # A native upstream, and one whose model is taught to write calls as text.
    upstreams = ["chat", "lumo-v1"]
    SHELLS = {"dspy": "dspy", "semantic_kernel": "tools-shell", "smolagents": "smolagents"}

    def __init__(self, environment, name, api, way):
        super().__init__(api)
        self.environment, self.name, self.way = environment, name, way
        self.shell = self.SHELLS.get(name, "shell")
        # It fails if a complete response has no token counts, which Lumo's first version does not send.
        if (name, way) == ("smolagents", "whole"):
            self.upstreams = ["chat"]

    def prepare(self, model, _home, _work, prompt):
        command = [in_python(self.environment, "python"), PROGRAM, self.name, self.api, self.way, model, prompt]
        # Telemetry, and the prices that litellm downloads.
        switches = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        switches |= {"HAYSTACK_TELEMETRY_ENABLED": "False", "PYTHONDONTWRITEBYTECODE": "1"}
        # For the SDKs of Ollama and Google.
        switches |= {"OLLAMA_HOST": ROOT_URL, "OLLAMA_API_KEY": STAND["key"]}
        switches |= {"GOOGLE_GEMINI_BASE_URL": ROOT_URL, "GOOGLE_API_KEY": STAND["key"]}
        return command, switches | {"KEY": STAND["key"], "ROOT_URL": ROOT_URL, "URL": STAND["url"]}


PROGRAM = FOLDER / "frameworks.py"


def frameworks():
    """Yields each framework with each API and each way of asking."""
    for environment, programs in runpy.run_path(str(PROGRAM))["FRAMEWORKS"].items():
        for program, (apis, ways) in programs.items():
            for api in apis:
                for way in ways:
                    name = program.__name__
                    yield f"{name}-{api}-{way}", Framework(environment, name, api, way)


AGENTS = dict(frameworks()) | {
    "qwen-chat": QwenCode("chat"),
    "qwen-messages": QwenCode("messages"),
    "qwen-responses": QwenCode("responses"),
    "gemini": GeminiCli("gemini"),
    "copilot-chat": Copilot("chat"),
    "copilot-messages": Copilot("messages"),
    "copilot-responses": Copilot("responses"),
    "copilot-websocket": Copilot("responses", websocket=True),
    "cline": Cline("chat"),
    "continue-chat": Continue("chat"),
    "continue-messages": Continue("messages"),
    "continue-ollama": Continue("ollama"),
    "continue-gemini": Continue("gemini"),
    "grok": Grok("chat"),
    "gptme": Gptme("chat"),
    "hermes": Hermes("chat"),
    "mini": MiniSwe("chat"),
}
if SYSTEM == "linux" and not IS_ARM:
    AGENTS["kilo"] = Kilo("chat")
