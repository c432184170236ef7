"""Gateways from package registries. Each has one version, a folder of its own, and the settings that its docs
recommend for speed, and runs as one process on one core.

Installations are kept between runs, in the build's target folder.
"""

import http.client
import json
import shutil
import subprocess
import sys
import time

from options import INSTALLED, WORK
from processes import free_port
from targets import MOCKED, Target


class Unusable(Exception):
    """Says why a gateway is left out."""


class Gateway(Target):
    name = version = None
    # The name of the target whose installation it shares.
    installed_as = None
    works = frozenset({"chat", "call"})
    # In a real-time class, a busy-waiting interpreter would block all other processes on its core for minutes.
    class_of_start = {"urgent": ("nice", "-n", "-15")}
    # An interpreter loads modules at the end of its first response. Portkey keeps reading a response after
    # its client has disconnected.
    warms_up = True

    def __init__(self):
        super().__init__(self.name, self.command, version=self.version)
        self.home = INSTALLED / f"{self.installed_as or self.name}-{self.version}"

    def install(self):
        raise NotImplementedError

    def tried(self):
        """Installs the gateway, checks that it responds, and returns it."""
        done = self.home / "installed"
        if not done.exists():
            print(f"{self.name} {self.version} is being installed in {self.home}", file=sys.stderr)
            shutil.rmtree(self.home, ignore_errors=True)
            self.home.mkdir(parents=True)
            self.install()
            done.touch()
        MOCKED.play("--tokens", "5", "--pace", "none")
        self.up().down()
        return self

    def up(self):
        """Waits for a response, since some gateways listen before they know their upstream."""
        if self.process is None:
            self.port = free_port()
            self.launch(**self.class_of_start)
            end = time.monotonic() + 120
            while not answers(self):
                if self.process.poll() is not None or time.monotonic() > end:
                    self.down()
                    raise Unusable(last_line(self.log.read_text(errors="replace")) or "it does not answer")
                time.sleep(0.2)
        return self

    def size(self):
        return sum(file.lstat().st_size for file in self.home.rglob("*"))


class Smg(Gateway):
    """Configured for an upstream that is an API, like the mock, without health, load or tokenizer endpoints."""

    name, version = "smg", "1.13.0"

    def install(self):
        virtual_environment(self.home, f"smg=={self.version}")

    def command(self, port, upstream):
        return [
            self.home / "bin/smg", "launch", "--host", "127.0.0.1", "--port", port,
            "--backend", "openai", "--worker-urls", f"http://127.0.0.1:{upstream}", "--policy", "passthrough",
            "--max-concurrent-requests", "0", "--history-backend", "none", "--log-level", "error",
            "--disable-health-check", "--disable-load-monitoring", "--disable-tokenizer-autoload",
            "--prometheus-host", "127.0.0.1", "--prometheus-port", free_port(),
        ]


class Litellm(Gateway):
    """Without a database, callbacks and keys, on uvicorn with uvloop. Its docs recommend one worker per core. Versions
    from 1.105.4 on require a version of certifi that PyPI did not have, so this is the newest that can be installed.
    """

    name, version = "litellm", "1.105.3"
    works = frozenset({"chat", "call", "convert", "messages"})
    flood = 2_000
    most_streams = 1_000
    environment = {
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        # The default limit is 500 streams to one upstream.
        "AIOHTTP_CONNECTOR_LIMIT": "20000",
        "AIOHTTP_CONNECTOR_LIMIT_PER_HOST": "20000",
        # The package contains prices. Without this setting, LiteLLM would download newer ones.
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    }

    def install(self):
        virtual_environment(self.home, f"litellm[proxy]=={self.version}")

    def command(self, port, upstream):
        config = WORK / "litellm.yaml"
        config.write_text(f"""
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "http://127.0.0.1:{upstream}/v1", api_key: none}}
  - model_name: c
    litellm_params: {{model: anthropic/c, api_base: "http://127.0.0.1:{upstream}", api_key: none}}
litellm_settings:
  request_timeout: 600
  set_verbose: false
""")
        return [
            self.home / "bin/litellm", "--config", config, "--host", "127.0.0.1", "--port", port, "--num_workers", "1",
        ]


class LitellmRust(Litellm):
    """The same installation with its Rust mode. `litellm/rust_bridge/catalog.py` of the package lists what that covers: of
    conversations only Messages to Anthropic. All else stays on Python."""

    name = "litellm-rust"
    installed_as = "litellm"
    works = frozenset({"messages"})
    environment = Litellm.environment | {"LITELLM_RUST": "1"}


class Portkey(Gateway):
    """Without Portkey's log page. Newer versions of its server library reject the headers that Portkey writes
    (Portkey-AI/gateway#1389), so the last version that accepts them is installed."""

    name, version = "portkey", "1.15.2"
    works = frozenset({"chat", "call", "convert", "messages"})
    flood = 10_000
    most_streams = 1_000
    environment = {"NODE_ENV": "production"}

    headers = {
        "authorization": "Bearer none",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": f"http://127.0.0.1:{MOCKED.port}/v1",
    }

    def headers_of(self, work):
        return self.headers | ({"x-portkey-provider": "anthropic"} if work in ("convert", "messages") else {})

    def install(self):
        package = {
            "private": True,
            "dependencies": {"@portkey-ai/gateway": self.version},
            "overrides": {"@hono/node-server": "1.14.1"},
        }
        (self.home / "package.json").write_text(json.dumps(package))
        done("npm", "install", "--prefix", self.home, "--no-audit", "--no-fund")

    def command(self, port, upstream):
        start = self.home / "node_modules/@portkey-ai/gateway/build/start-server.js"
        return ["node", start, f"--port={port}", "--headless"]


def answers(target, *, whole=False):
    """Says whether a target answers a request, if so wanted to the end."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)
    try:
        headers = {"content-type": "application/json"} | target.headers
        connection.request("POST", target.path, json.dumps(target.body), headers)
        response = connection.getresponse()
        if whole:
            response.read()
        return response.status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


KNOWN = {gateway.name: gateway for gateway in (Smg, Litellm, LitellmRust, Portkey)}


def virtual_environment(home, package):
    done(sys.executable, "-m", "venv", home)
    done(home / "bin/pip", "install", "--quiet", package)


def done(*command):
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        raise Unusable(last_line(error.stderr) or str(error)) from error
    except OSError as error:
        raise Unusable(str(error)) from error


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


def wanted(names):
    """Returns the gateways of these names that work. For each of the others, prints why it is left out."""
    found = []
    for name in names:
        try:
            found.append(KNOWN[name]().tried())
        except Unusable as why:
            print(f"{name} is left out: {why}", file=sys.stderr)
    return found
