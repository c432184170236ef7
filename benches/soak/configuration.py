"""The configuration under test: every dialect on every upstream process, alone, in failover and behind a narrow queue."""

from typing import NamedTuple

PROCESSES = 4
# The upstream process that speaks TLS, unless the run does without.
WITH_TLS = 3
DIALECTS = ("chat", "lumo", "lumo1", "hermes", "qwen", "completions", "messages", "responses", "gemini", "ollama")

KEY, FEW, ADMIN = "soak-key", "soak-key-of-few", "soak-admin"
# Maximum number of streams for the key FEW, and for the upstream of the model `narrow`.
FEW_STREAMS, NARROW = 5, 20


class Model(NamedTuple):
    name: str
    processes: tuple


# The most bytes of each kind of memory: as configured, or as toolwire itself limits them.
BOUNDS = {
    "request_bodies": 256 << 20,
    # 64 MiB of each embedded store, of which there are five.
    "store_values": 5 * 64 << 20,
    "store_pages": 5 * 2 << 20,
    "turn_states": 512 << 10,
    "kept_hops": 64 << 20,
    "tool_results": 1 << 20,
    "tool_indexes": 32 << 20,
    "exchange_contents": 64 << 20,
    # Two hours, at half a KiB for a minute of each model, key and upstream.
    "figures": 120 * (len(DIALECTS) * PROCESSES * 2 + 10) << 9,
}

SINGLE = [Model(f"{dialect}-{process}", (process,)) for dialect in DIALECTS for process in range(PROCESSES)]
TARGETS = {
    "any": ("chat-0", "messages-1", "gemini-2", "responses-3"),
    "first": ("hermes-3", "ollama-2", "lumo-1", "completions-0"),
}
WEIGHTED = {"spread": {"responses-0": 2, "chat-1": 1, "lumo1-2": 1, "messages-3": 1}}
FAILOVER = [Model(name, tuple(range(PROCESSES))) for name in (*TARGETS, *WEIGHTED)]
# Failover gets a quarter of the requests.
MODELS = SINGLE + FAILOVER * 4 + [Model("narrow", (0,))]

TEMPLATE = """\
{%- if tools %}<|im_start|>system
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>
{{ {"name": call.function.name, "arguments": call.function.arguments} | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}<|im_start|>assistant
"""


def written(folder, port, upstreams, store, has_tls, variant=0):
    """Writes the configuration. A `variant` above 0 differs only in ways that no response in progress may notice."""
    (folder / "template.jinja").write_text(TEMPLATE)
    parts = [top(folder, port, store, has_tls, variant)]
    for process, upstream in enumerate(upstreams):
        ca = folder / "cert.pem" if has_tls and process == WITH_TLS else None
        parts += [entry(f"{dialect}-{process}", dialect, upstream, ca, variant) for dialect in DIALECTS]
    parts.append(narrow(upstreams[0], variant))
    for name, targets in TARGETS.items():
        parts.append(f'[[models]]\nname = "{name}"\ntargets = {list(targets)}\n')
    for name, weights in WEIGHTED.items():
        targets = ", ".join(f"{target} = {weight}" for target, weight in weights.items())
        parts.append(f'[[models]]\nname = "{name}"\ntargets = {{ {targets} }}\n')
    if variant:
        parts.append(f'[[models]]\nname = "variant-{variant}"\nupstream = "chat-0"\n')
    new = folder / "toolwire.toml.new"
    new.write_text("\n".join(parts))
    return new.replace(folder / "toolwire.toml")


def top(folder, port, store, has_tls, variant):
    tls = f'[tls]\ncert = "{folder}/cert.pem"\nkey = "file:{folder}/key.pem"\n' if has_tls else ""
    return f"""\
listen = "127.0.0.1:{port}"
state_dir = "{folder}/state"
store = "{store}"
drain_timeout = "20s"

[limits]
write_timeout = "20s"
keep_alive = "5s"
max_store = "8MiB"
max_turn_state = "512KiB"
max_calls = {128 + variant}

[failover]
eject_for = "2s"
max_ejection = "10s"

[admin]
api_keys = ["{ADMIN}"]

[execution]
max_running = 1000
cache_size = "1MiB"
rate_wait = "{5 + variant // 3}s"

[[providers]]
name = "lookup"
kind = "command"
command = ["/usr/bin/tr", "k", "r"]
description = "Looks a key up"
parameters = {{ type = "object", properties = {{ key = {{ type = "string" }} }}, required = ["key"] }}
max_running = 500

[[tools]]
name = "lookup"
cache_ttl = "300s"

{tls}
[[keys]]
name = "all"
key = "{KEY}"

[[keys]]
name = "few"
key = "{FEW}"
streams = {FEW_STREAMS}
"""


def entry(name, dialect, upstream, ca, variant):
    kind = {"hermes": "chat", "qwen": "chat", "lumo1": "lumo"}.get(dialect, dialect)
    more = {"lumo1": '[upstreams.lumo]\nversion = "v1"\n'}.get(dialect, "")
    scheme, trust = ("https", f'[upstreams.tls]\nca = "{ca}"\n') if ca else ("http", "")
    model = {
        "hermes": 'tools = "hermes"\n',
        "qwen": 'tools = "qwen3_coder"\n',
        "lumo1": 'tools = "hermes"\n',
        "completions": 'chat_template = "file:template.jinja"\n',
    }.get(dialect, "")
    return f"""\
[[upstreams]]
name = "{name}"
dialect = "{kind}"
base_url = "{scheme}://127.0.0.1:{upstream}/{dialect}"
max_concurrent = 5000
idle_timeout = "{40 + variant % 2}s"
connect_timeout = "30s"
{more}{trust}
[[models]]
name = "{name}"
upstream = "{name}"
{model}"""


def narrow(upstream, variant):
    return f"""\
[[upstreams]]
name = "narrow"
dialect = "chat"
base_url = "http://127.0.0.1:{upstream}/chat"
max_concurrent = {NARROW}
max_waiting = {20 + variant % 2 * 5}
wait_timeout = "10s"

[[models]]
name = "narrow"
upstream = "narrow"
"""
