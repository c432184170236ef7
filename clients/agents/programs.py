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


class Agent:
    """An agent that uses the API `api`."""

    def __init__(self, api):
        self.api = api

    def run(self, model, home, work, timeout=TIMEOUT):
        """Runs the agent in the folder `work`. Returns its exit status (None after a timeout) and its output."""
        environment = {
            "PATH": f"{MODULES}/.bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        command, more = self.prepare(model, home, work)
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

    shell = "opencode"

    PROVIDERS = {"chat": "@ai-sdk/openai-compatible", "messages": "@ai-sdk/anthropic", "responses": "@ai-sdk/openai"}

    def prepare(self, model, home, work):
        name = "opencode-" + SYSTEM + ("-arm64" if IS_ARM else "-x64-baseline")
        provider = {
            "npm": self.PROVIDERS[self.api],
            "options": {"baseURL": STAND["url"], "apiKey": STAND["key"]},
            "models": {model: {"name": model, "tool_call": True, "limit": {"context": 1_000_000, "output": 100_000}}},
        }
        (work / "opencode.json").write_text(
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
        command = [MODULES / name / "bin/opencode", "run", "--model", f"toolwire/{model}", PROMPT]
        return command, {f"OPENCODE_DISABLE_{switch}": "1" for switch in switches}


class Pi(Agent):
    """pi, which uses the vendor's SDK for each API."""

    shell = "pi"

    APIS = {"chat": "openai-completions", "messages": "anthropic-messages", "responses": "openai-responses"}

    def prepare(self, model, home, _work):
        folder = home / ".pi/agent"
        folder.mkdir(parents=True)
        provider = {
            "baseUrl": ROOT_URL if self.api == "messages" else STAND["url"],
            "api": self.APIS[self.api],
            "apiKey": STAND["key"],
            "models": [{"id": model}],
        }
        (folder / "models.json").write_text(json.dumps({"providers": {"toolwire": provider}}))
        (folder / "settings.json").write_text(json.dumps({"retry": {"enabled": False}}))
        program = MODULES / "@mariozechner/pi-coding-agent/dist/cli.js"
        options = ["--provider", "toolwire", "--model", model, "--no-session", "--print", PROMPT]
        return ["node", program, *options], {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}


class Codex(Agent):
    """The Codex CLI, over HTTP or, with `websocket`, over a WebSocket."""

    shell = "codex"

    def __init__(self, api, websocket=False):
        super().__init__(api)
        self.websocket = websocket

    TRIPLES = {
        ("linux", False): "x86_64-unknown-linux-musl",
        ("linux", True): "aarch64-unknown-linux-musl",
        ("darwin", False): "x86_64-apple-darwin",
        ("darwin", True): "aarch64-apple-darwin",
    }

    def prepare(self, model, home, _work):
        folder = home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f"""
model = "{model}"
model_provider = "toolwire"
check_for_update_on_startup = false
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
        )
        name = "codex-" + SYSTEM + ("-arm64" if IS_ARM else "-x64")
        program = MODULES / "@openai" / name / "vendor" / self.TRIPLES[SYSTEM, IS_ARM] / "bin/codex"
        # Codex's sandbox needs privileges that a container may lack. The agent only works in a temporary folder.
        options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        return [program, "exec", *options, PROMPT], {"CLIENTS_KEY": STAND["key"]}


class ClaudeCode(Agent):
    """Claude Code. Its licence reserves all rights, so it is not installed, and runs only if CLAUDE_CODE is the path of a copy."""

    shell = "claude"
    program = os.environ.get("CLAUDE_CODE")

    def prepare(self, model, _home, _work):
        switches = ["DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER"]
        switches.append("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC")
        environment = {
            "ANTHROPIC_BASE_URL": ROOT_URL,
            "ANTHROPIC_API_KEY": STAND["key"],
            "ANTHROPIC_SMALL_FAST_MODEL": model,
        }
        options = ["--model", model, "--allowedTools", "Bash", "--print", PROMPT]
        return [self.program, *options], environment | dict.fromkeys(switches, "1")


AGENTS = {
    "opencode-chat": OpenCode("chat"),
    "opencode-messages": OpenCode("messages"),
    "opencode-responses": OpenCode("responses"),
    "pi-chat": Pi("chat"),
    "pi-messages": Pi("messages"),
    "pi-responses": Pi("responses"),
    "codex": Codex("responses"),
    "codex-websocket": Codex("responses", websocket=True),
}
if ClaudeCode.program:
    AGENTS["claude-code"] = ClaudeCode("messages")
