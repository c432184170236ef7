"""The agents: how each is installed, configured to use toolwire, and run non-interactively.

Each agent has its own environment and home folder, so that it sees no existing settings or keys. Everything that would use the
network is disabled.
"""

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

from stand import STAND

MODULES = Path(__file__).parent / "node_modules"

# Time limit for an agent, in seconds. Only an agent that hangs takes this long.
TIMEOUT = 90

IS_ARM = platform.machine() in ("aarch64", "arm64")
SYSTEM = {"linux": "linux", "darwin": "darwin"}[sys.platform]

PROMPT = "Read both files."

# The base URL for SDKs that append `/v1` themselves.
ROOT_URL = STAND["url"].removesuffix("/v1")


def base_url(api):
    return ROOT_URL if api == "messages" else STAND["url"]


class Agent:
    """An agent that uses the API `api`. `shell` selects the calls of the stand's model, see `agent_model.SHELLS`."""

    # The upstreams with which it is tested; None for all.
    upstreams = None

    def __init__(self, api):
        self.api = api

    def prepare(self, model, home, work, prompt):
        """Configures the agent. Returns its command, and what its environment has besides."""
        raise NotImplementedError

    def run(self, model, home, work, prompt=PROMPT, timeout=TIMEOUT):
        """Runs the agent in the folder `work`. Returns its exit status (None after a timeout) and its output."""
        environment = {
            "PATH": f"{MODULES}/.bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "NODE_COMPILE_CACHE": os.environ.get("NODE_COMPILE_CACHE", str(home)),
        }
        command, more = self.prepare(model, home, work, prompt)
        process = subprocess.Popen(
            command,
            cwd=work,
            env=environment | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            status = None
        # Kill the process group, since the agent may have left child processes running.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if status is None:
            output, _ = process.communicate()
        return status, output.decode(errors="replace")


class OpenCode(Agent):
    """opencode, which uses the AI SDK's provider for each API."""

    shell = "bash"
    name = "opencode"
    program = MODULES / ("opencode-" + SYSTEM + ("-arm64" if IS_ARM else "-x64-baseline")) / "bin/opencode"
    options = []
    # It takes half a minute per run.
    FEW = {"chat": ["chat", "lumo-v1"], "messages": ["ollama"], "responses": ["chat"]}

    PROVIDERS = {"chat": "@ai-sdk/openai-compatible", "messages": "@ai-sdk/anthropic", "responses": "@ai-sdk/openai"}

    def __init__(self, api):
        super().__init__(api)
        self.upstreams = self.FEW[api]

    def prepare(self, model, home, work, prompt):
        provider = {
            "npm": self.PROVIDERS[self.api],
            "options": {"baseURL": STAND["url"], "apiKey": STAND["key"]},
            "models": {model: {"name": model, "tool_call": True, "limit": {"context": 1_000_000, "output": 100_000}}},
        }
        (work / f"{self.name}.json").write_text(
            json.dumps({
                "autoupdate": False,
                "share": "disabled",
                "snapshot": False,
                "permission": {"*": "allow"},
                "enabled_providers": ["toolwire"],
                "small_model": f"toolwire/{model}",
                "provider": {"toolwire": provider},
            })
        )
        switches = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"]
        command = [self.program, "run", "--model", f"toolwire/{model}", *self.options, prompt]
        return command, {f"{self.name.upper()}_DISABLE_{switch}": "1" for switch in switches}


class Pi(Agent):
    """pi, which uses the vendor's SDK for each API."""

    shell = "bash"

    APIS = {"chat": "openai-completions", "messages": "anthropic-messages", "responses": "openai-responses"}

    def prepare(self, model, home, _work, prompt):
        folder = home / ".pi/agent"
        folder.mkdir(parents=True)
        provider = {
            "baseUrl": base_url(self.api),
            "api": self.APIS[self.api],
            "apiKey": STAND["key"],
            "models": [{"id": model}],
        }
        (folder / "models.json").write_text(json.dumps({"providers": {"toolwire": provider}}))
        (folder / "settings.json").write_text(json.dumps({"retry": {"enabled": False}}))
        program = MODULES / "@mariozechner/pi-coding-agent/dist/cli.js"
        options = ["--provider", "toolwire", "--model", model, "--no-session", "--print", prompt]
        return ["node", program, *options], {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


class Codex(Agent):
    """The Codex CLI. `websocket`: it may use a WebSocket. `built_in`: it uses its provider for OpenAI, with another base URL.
    `settings`: more of its configuration. `known`: what it knows of the model."""

    shell = "exec_command"

    def __init__(self, websocket=False, built_in=False, settings="", known=None, upstreams=None):
        super().__init__("responses")
        self.websocket, self.built_in, self.settings, self.known = websocket, built_in, settings, known
        self.upstreams = upstreams

    TRIPLES = {
        ("linux", False): "x86_64-unknown-linux-musl",
        ("linux", True): "aarch64-unknown-linux-musl",
        ("darwin", False): "x86_64-apple-darwin",
        ("darwin", True): "aarch64-apple-darwin",
    }

    def prepare(self, model, home, _work, prompt):
        folder = home / ".codex"
        folder.mkdir()
        if self.built_in:
            (folder / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": STAND["key"]}))
        catalog = folder / "models.json"
        if self.known:
            catalog.write_text(json.dumps({"models": [{"slug": model, "display_name": model} | self.known]}))
        settings = f"""
model = "{model}"
model_provider = "{"openai" if self.built_in else "toolwire"}"
openai_base_url = "{STAND["url"]}"
{f'model_catalog_json = "{catalog}"' if self.known else ""}
check_for_update_on_startup = false
{self.settings}
[analytics]
enabled = false
[features]
# It puts the command into a second one, which becomes longer than an argument may be.
shell_snapshot = false
[model_providers.toolwire]
name = "toolwire"
base_url = "{STAND["url"]}"
env_key = "CLIENTS_KEY"
wire_api = "responses"
supports_websockets = {str(self.websocket).lower()}
request_max_retries = 0
stream_max_retries = 0
"""
        (folder / "config.toml").write_text(settings)
        name = "codex-" + SYSTEM + ("-arm64" if IS_ARM else "-x64")
        program = MODULES / "@openai" / name / "vendor" / self.TRIPLES[SYSTEM, IS_ARM] / "bin/codex"
        # Codex's sandbox needs privileges that a container may lack. The agent only works in a temporary folder.
        options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [program, "exec", *options, prompt], {"CLIENTS_KEY": STAND["key"]}


class ClaudeCode(Agent):
    """Claude Code. Its licence reserves all rights, so it is not installed, and runs only if CLAUDE_CODE is the path of a copy."""

    shell = "Bash"
    program = os.environ.get("CLAUDE_CODE")

    def prepare(self, model, _home, _work, prompt):
        switches = ["DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER"]
        switches.append("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC")
        environment = {
            "ANTHROPIC_BASE_URL": ROOT_URL,
            "ANTHROPIC_API_KEY": STAND["key"],
            "ANTHROPIC_SMALL_FAST_MODEL": model,
        }
        options = ["--model", model, "--allowedTools", "Bash", "--print", prompt]
        return [self.program, *options], environment | dict.fromkeys(switches, "1")


# Codex then replaces the conversation by a summary after each response.
COMPACTS = """
model_context_window = 100000
model_auto_compact_token_limit = 15
"""

AGENTS = {
    "opencode-chat": OpenCode("chat"),
    "opencode-messages": OpenCode("messages"),
    "opencode-responses": OpenCode("responses"),
    "pi-chat": Pi("chat"),
    "pi-messages": Pi("messages"),
    "pi-responses": Pi("responses"),
    "codex": Codex(),
    "codex-websocket": Codex(websocket=True),
    "codex-built-in": Codex(built_in=True, upstreams=["chat"]),
    "codex-compacts": Codex(settings=COMPACTS, upstreams=["chat"]),
    "codex-built-in-compacts": Codex(built_in=True, settings=COMPACTS, upstreams=["chat"]),
}
if ClaudeCode.program:
    AGENTS["claude-code"] = ClaudeCode("messages")
if os.environ.get("NIGHTLY"):
    import nightly_programs

    AGENTS |= nightly_programs.AGENTS
