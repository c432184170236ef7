"""The targets between client and mock."""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from options import ARGS, RELAYS, WORK
from processes import MOCK, TARGET, free_port, start, stop, wait_for
from secured import CERT, KEY, NO_TLS, Shell


def tool(name, **properties):
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": schema}}


def for_messages(chat):
    """Returns a request for Chat Completions as one for Messages."""
    tools = [{
        "name": one["function"]["name"],
        "description": one["function"]["description"],
        "input_schema": one["function"]["parameters"],
    } for one in chat["tools"]]
    return chat | {"max_tokens": 8192, "tools": tools}


CHAT_PATH, MESSAGES_PATH = "/v1/chat/completions", "/v1/messages"
TOOLS = [
    tool("get_weather", city="string"),
    tool("read_file", path="string"),
    tool("write_file", path="string", content="string"),
    tool("search", query="string", limit="integer"),
]
PLAIN = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "What does a hop cost?"}]}
WITH_TOOLS = PLAIN | {"tools": TOOLS}


class Mock:
    """`toolwire mock --generate`, on the port that the targets are configured with."""

    def __init__(self, port):
        self.port, self.process, self.options = port, None, None

    def play(self, *options):
        if options != self.options:
            self.stop()
            command = [ARGS.mock, "mock", "--generate", "--listen", f"127.0.0.1:{self.port}", *options]
            self.process = start(command, MOCK, stderr=subprocess.DEVNULL)
            self.options = options
            wait_for(self.port)

    def stop(self):
        if self.process:
            stop(self.process)
        self.process = self.options = None


MOCKED = Mock(free_port())


class Target:
    """A server between client and mock. `command` returns its command line, given its port and the mock's."""

    # Path and additional headers of requests, and environment variables of the process.
    path = CHAT_PATH
    headers = {}
    environment = {"TOOLWIRE_LOG": "warn"}
    # The tokens of a response without a pace, and the number of streams that are held open. Slow targets override
    # them with lower values.
    flood = 50_000
    most_streams = 10_000
    # What it can do of `field.WORKS`, and in which class it starts with `--rt`, if not in the usual one.
    works = frozenset()
    class_of_start = {}
    # Whether to read the response before a measurement to its end.
    warms_up = False
    # The command with which it also has models behind other APIs.
    converting = None

    def __init__(self, name, command, body=PLAIN, version=None):
        self.name, self.command, self.body, self.version = name, command, body, version
        self.port, self.process = None, None

    def up(self):
        if self.process is None:
            self.port = free_port()
            self.launch()
            wait_for(self.port)
        return self

    def launch(self, **options):
        with open(self.log, "wb") as log:
            command, around = self.command(self.port, MOCKED.port), os.environ | self.environment
            self.process = start(command, TARGET, stdout=log, stderr=log, env=around, **options)

    def started(self, upstream):
        """Starts another process of this target, with an upstream other than the mock."""
        command = self.converting or self.command
        other = Target(f"{self.name}-other", lambda port, _: command(port, upstream), self.body)
        return other.up()

    def headers_of(self, work):
        """Returns the additional headers of requests for one of `field.WORKS`."""
        return self.headers

    def size(self):
        """Returns the bytes of what is installed."""
        return Path(shutil.which(self.command(0, 0)[0])).stat().st_size

    def fresh(self):
        self.down()
        return self.up()

    def down(self):
        if self.process:
            stop(self.process)
        self.process = None

    @property
    def twin(self):
        """Returns the name of the same target without tools. `None` if this target has no tools."""
        return self.name.removesuffix("-tools") if self.name.endswith("-tools") else None

    @property
    def pid(self):
        return self.process.pid

    @property
    def log(self):
        return WORK / f"{self.name}.log"


class Direct(Target):
    """The client connects to the mock directly."""

    def __init__(self, name="direct", body=PLAIN):
        super().__init__(name, None, body)

    def up(self):
        self.port = MOCKED.port
        return self

    def down(self):
        pass


class Secured(Target):
    """A target whose client or upstream speaks TLS."""

    def __init__(self, target, mode):
        super().__init__(target.name, partial(target.command, mode=mode), target.body)
        self.mode, self.shell = mode, None

    def launch(self, **options):
        inner = self.port
        self.shell = Shell(self.mode, inner, MOCKED.port)
        with open(self.log, "wb") as log:
            command, around = self.command(inner, self.shell.back), os.environ | self.environment
            self.process = start(command, TARGET, stdout=log, stderr=log, env=around, **options)
        wait_for(inner)
        self.shell.up()
        self.port = self.shell.front

    def down(self):
        if self.shell:
            self.shell.down()
        self.shell = None
        super().down()


def nginx(port, upstream, mode=NO_TLS):
    tls = {None: "", "http/1.1": " ssl", "h2": " ssl http2"}[mode.client]
    identity = f"ssl_certificate {CERT}; ssl_certificate_key {KEY};" if mode.client else ""
    text = f"""
daemon off; worker_processes 1; error_log {WORK}/nginx.err; pid {WORK}/nginx-{port}.pid;
events {{ worker_connections 20000; }}
http {{
  access_log off; tcp_nodelay on; client_body_buffer_size 1m; keepalive_requests 1000000; http2_max_concurrent_streams 256;
  client_body_temp_path {WORK}/n1; proxy_temp_path {WORK}/n2; fastcgi_temp_path {WORK}/n3;
  uwsgi_temp_path {WORK}/n4; scgi_temp_path {WORK}/n5;
  upstream mock {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port}{tls} backlog=4096; {identity}
    location / {{
      proxy_pass {'https' if mode.upstream else 'http'}://mock; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
      proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}
}}"""
    config = WORK / f"nginx-{port}.conf"
    config.write_text(text)
    return [ARGS.nginx, "-p", WORK, "-c", config]


def haproxy(port, upstream):
    text = f"""
global
  nbthread 1
  maxconn 9500
defaults
  mode http
  option http-no-delay
  option http-keep-alive
  http-reuse always
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend f
  bind 127.0.0.1:{port} backlog 4096
  default_backend b
backend b
  server mock 127.0.0.1:{upstream}
"""
    (WORK / "haproxy.cfg").write_text(text)
    return [ARGS.haproxy, "-db", "-f", WORK / "haproxy.cfg"]


def relay(name):
    return lambda port, upstream: [
        RELAYS / name, "--listen", f"127.0.0.1:{port}", "--upstream", f"127.0.0.1:{upstream}"
    ]


def toolwire(name, program):
    """Returns the targets for one toolwire: with frames forwarded unchanged, and with detection in both dialects."""
    verbatim = Target(f"{name}-verbatim", serving(program, "chat"), PLAIN)
    # Other builds may be older than the conversions.
    if program == ARGS.toolwire:
        verbatim.converting = serving(program, "chat", CONVERTING)
    return [
        verbatim,
        Target(f"{name}-chat", serving(program, "chat"), WITH_TOOLS),
        Target(f"{name}-lumo", serving(program, "lumo"), WITH_TOOLS),
    ]


# The models that are taught their tools, and asked with Messages.
CONVERTING = """
[[models]]
name = "taught"
upstream = "mock"
tools = "hermes"
[[upstreams]]
name = "messages"
dialect = "messages"
base_url = "http://127.0.0.1:{upstream}/v1"
[[models]]
name = "messages"
upstream = "messages"
"""


def serving(program, dialect, more=""):
    base = "/v1" if dialect == "chat" else ""

    def command(port, upstream, mode=NO_TLS):
        config = WORK / f"{dialect}-{port}.toml"
        tls = f'[tls]\ncert = "{CERT}"\nkey = "file:{KEY}"\n' if mode.client else ""
        trust = f'[upstreams.tls]\nca = "{CERT}"\n' if mode.upstream else ""
        config.write_text(f"""
listen = ["127.0.0.1:{port}"]
{tls}
[[upstreams]]
name = "mock"
dialect = "{dialect}"
base_url = "{'https' if mode.upstream else 'http'}://127.0.0.1:{upstream}{base}"
max_concurrent = 20000
{trust}
[[models]]
name = "*"
upstream = "mock"
{more.format(upstream=upstream)}""")
        return [program, "serve", "--config", config]

    return command


def serving_both():
    """`toolwire serve` with the mock as two upstreams: the model `m` is asked with Chat Completions, `c` with Messages."""

    def command(port, upstream):
        config = WORK / f"both-{port}.toml"
        both = "".join(f"""
[[upstreams]]
name = "{dialect}"
dialect = "{dialect}"
base_url = "http://127.0.0.1:{upstream}/v1"
max_concurrent = 20000
[[models]]
name = "{model}"
upstream = "{dialect}"
""" for model, dialect in (("m", "chat"), ("c", "messages")))
        config.write_text(f'listen = ["127.0.0.1:{port}"]\n{both}')
        return [ARGS.toolwire, "serve", "--config", config]

    return command


def other(name, text):
    """Any other gateway, given on the command line."""
    return Target(f"other:{name}", lambda port, upstream: [
        part.format(port=port, upstream=upstream) for part in text.split()
    ])


def packaged(name, command, program, *more):
    """A proxy from a system package, if it is installed. `more` names targets that also get requests with tools."""
    if not Path(program).exists():
        print(f"{name} is missing (apt-get install {name}): left out", file=sys.stderr)
        return []
    said = subprocess.run([program, "-v"], capture_output=True, text=True)
    found = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
    version = found and found[0]
    return [Target(name, command, version=version), *(Target(one, command, WITH_TOOLS) for one in more)]


def where_allowed(name):
    """A relay whose interface some kernels and sandboxes do not have."""
    try:
        probed = subprocess.run([RELAYS / name, "--probe"], capture_output=True, text=True)
        why = probed.stderr.strip().removeprefix(f"{name}: ") if probed.returncode else None
    except OSError as error:
        why = str(error)
    if why is not None:
        print(f"{name} is not available here: {why}", file=sys.stderr)
        return []
    return [Target(name, relay(name))]


def known():
    """All targets except the gateways from package registries."""
    also = (one.partition("=") for one in ARGS.also)
    others = (one.partition("=") for one in ARGS.other)
    return [
        Direct(),
        Direct("direct-tools", WITH_TOOLS),
        Target("relay-bare", relay("relay-bare")),
        Target("relay-bare-tools", relay("relay-bare"), WITH_TOOLS),
        Target("relay-json", relay("relay-json")),
        Target("relay-checked", relay("relay-checked")),
        Target("relay-epoll", relay("relay-epoll")),
        *where_allowed("relay-uring"),
        *packaged("nginx", nginx, ARGS.nginx, "nginx-tools"),
        *packaged("haproxy", haproxy, ARGS.haproxy),
        *toolwire("toolwire", ARGS.toolwire),
        *(target for name, _, program in also for target in toolwire(name, program)),
        *(other(name, text) for name, _, text in others),
    ]
