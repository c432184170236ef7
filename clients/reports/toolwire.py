"""Runs toolwire in front of a scripted upstream, with a model for each dialect and each setting that the cases need."""

import subprocess
import time
from pathlib import Path
from urllib.request import urlopen

# The model's name, the upstream's dialect, the upstream's other settings, and the model's settings.
MODELS = [
    ("chat", "chat", "", ""),
    ("or", "chat", '[upstreams.chat]\nprofile = "openrouter"', ""),
    ("moonshot", "chat", '[upstreams.chat]\nprofile = "moonshot"', ""),
    ("oai", "chat", '[upstreams.chat]\nprofile = "openai"', ""),
    ("mistral", "chat", '[upstreams.chat]\nprofile = "mistral"', ""),
    ("vllm", "chat", '[upstreams.chat]\nserver = "vllm"', ""),
    ("messages", "messages", "", ""),
    ("responses", "responses", "", ""),
    ("gemini", "gemini", "", ""),
    ("geminio", "gemini", '[upstreams.gemini]\nschemas = "openapi"', ""),
    ("ollama", "ollama", "", ""),
    ("lumo", "lumo", "", ""),
    ("chat-idle", "chat", 'idle_timeout = "2s"', ""),
    ("gemini-idle", "gemini", 'idle_timeout = "2s"', ""),
    ("messages-idle", "messages", 'idle_timeout = "2s"', ""),
    ("gemini3", "gemini", "", 'upstream_name = "gemini-3-flash"'),
    ("qwen", "chat", "", 'upstream_name = "qwen3.6-27b"'),
    ("hermes", "chat", "", 'upstream_name = "qwen3-8b"\ntools = "hermes"'),
    ("auto", "chat", "", 'upstream_name = "some-model"'),
    ("strictargs", "chat", "", 'arguments = "whole"'),
    ("strict-responses", "responses", "", 'arguments = "whole"'),
    ("strict-ollama", "ollama", "", 'arguments = "whole"'),
]
DIALECTS = {model: dialect for model, dialect, _, _ in MODELS}
BASES = {"gemini": "/v1beta", "ollama": "", "lumo": "/api"}


def configuration(address, upstream, state_dir):
    lines = [f'listen = "{address}"', f'state_dir = "{state_dir}"']
    for name, dialect, settings, rules in MODELS:
        base = f"http://{upstream}{BASES.get(dialect, '/v1')}"
        lines += ["[[upstreams]]", f'name = "{name}"', f'dialect = "{dialect}"', f'base_url = "{base}"', settings]
        lines += ["[[models]]", f'name = "{name}"', f'upstream = "{name}"', rules or 'upstream_name = "m"']
        if rules and "upstream_name" not in rules:
            lines.append('upstream_name = "m"')
    return "\n".join(lines) + "\n"


def start(program, address, upstream, folder):
    """Starts `program`, and returns the process once it responds."""
    file = Path(folder) / "toolwire.toml"
    file.write_text(configuration(address, upstream, folder))
    log = (Path(folder) / "log").open("w")
    process = subprocess.Popen([program, "serve", "--config", str(file)], stdout=log, stderr=log)
    for _ in range(200):
        try:
            urlopen(f"http://{address}/healthz", timeout=5).close()
            return process
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
    raise SystemExit("toolwire does not start:\n" + (Path(folder) / "log").read_text())
