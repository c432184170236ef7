"""The models that the suites request: one for every fixture, and one for every scenario of the scripted upstream.

Every model has its own upstream, whose header tells `toolwire mock` which fixture to serve.
"""

import json
import tomllib

import agent_model
import matrix
import upstream

KEY = "sk-clients"

# The keep-alive interval: shorter than the pauses of the scenario `slow`.
KEEP_ALIVE = "200ms"


class Model:
    """A `[[models]]` entry with its `[[upstreams]]` entry and the `[[formats]]` that it needs."""

    def __init__(self, name, dialect, base_url, *, headers=None, options=None, settings=None, formats=(), **model):
        self.name = name
        self.dialect = dialect
        self.upstream = {"name": name, "dialect": dialect, "base_url": base_url} | (settings or {})
        self.headers = headers or {}
        self.options = options or {}
        self.formats = formats
        self.model = {"name": name, "upstream": name} | model

    def toml(self):
        return "\n".join([
            *(table("[[formats]]", form) for form in self.formats),
            table("[[upstreams]]", self.upstream),
            table("[upstreams.headers]", self.headers) if self.headers else "",
            table(f"[upstreams.{self.dialect}]", self.options) if self.options else "",
            table("[[models]]", self.model),
        ])


def table(head, values):
    # A JSON string, number, boolean or array of these is the same in TOML.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join([head, *lines, ""])


def configuration(models):
    """The configuration file for `models`."""
    top = table("", {"listen": "127.0.0.1:0", "api_keys": ["env:CLIENTS_KEY"], "passthrough": ["/v1/embeddings"]})
    return "\n".join([top, table("[limits]", {"keep_alive": KEEP_ALIVE}), *(model.toml() for model in models)])


def fixtures(folders):
    """The fixtures in `folders` that one server can serve together: those without limits of their own, with one hop, and with
    requests that do not begin the response.

    A model of dialect completions needs a chat template.
    """
    for manifest in sorted(path for folder in folders for path in folder.glob("**/fixture.toml")):
        fixture = tomllib.loads(manifest.read_text("utf-8"))
        limited = any(key.startswith("max_") for key in fixture.get("settings", {}))
        is_special = fixture["from"] == "completions" or "prefill" in fixture.get("upstream", {})
        if not limited and not is_special and not (manifest.parent / "upstream-2.sse").exists():
            yield manifest.parent


def of_fixture(folder, mock):
    """The model whose response is the fixture in `folder`."""
    manifest = tomllib.loads((folder / "fixture.toml").read_text("utf-8"))
    settings = manifest.get("settings", {})
    upstream_settings = {"tolerate_truncation": settings.pop("tolerate_truncation", False)}
    # Lumo's enabled tools matter if client tools are taught beside them.
    server_tools = settings.pop("server_tools", [])
    settings.setdefault("tool_prefix", "")
    options = {}
    if manifest["from"] == "lumo":
        v1 = folder.name.startswith("v1-")
        options = {"version": "v1" if v1 else "v2", "native_tools": server_tools}
        settings |= {"tools": "pre"} if v1 or server_tools else {}
    elif manifest.get("upstream", {}).get("cumulative"):
        options = {"cumulative": True}
    return Model(
        folder.name,
        manifest["from"],
        f"{mock}/v1",
        headers={"x-fixture": folder.name},
        options=options,
        settings=upstream_settings,
        formats=manifest.get("formats", []),
        **settings,
    )


def case(folder):
    """What the suites need to know of a fixture."""
    expect = json.loads((folder / "expect.json").read_text("utf-8"))
    request = json.loads((folder / "request.json").read_text("utf-8"))
    return {"name": folder.name, "request": request | {"model": folder.name}, "expect": expect}


def of_scenarios(scripted, mock, formats):
    """The models of the scripted upstream, which writes calls in `formats` unless they are native."""
    def model(name, scenario, dialect="chat", **options):
        return Model(name, dialect, f"{scripted}/{scenario}", **options)

    return [
        model("loop-native", "loop"),
        model("loop-lumo", "loop", "lumo"),
        # Taught in the prompt.
        model("loop-hermes", "loop/hermes", tools="hermes"),
        model("loop-fenced", "loop/fenced", tools="fenced"),
        model("loop-bare", "loop/bare", tools="bare"),
        model("loop-lumo-pre", "loop/pre", "lumo", tools="pre"),
        model("loop-lumo-v1", "loop/pre", "lumo", tools="pre", options={"version": "v1"}),
        # Other dialects.
        model("loop-ollama", "loop", "ollama"),
        model("loop-messages", "loop", "messages"),
        model("loop-gemini", "loop", "gemini"),
        model("loop-responses", "loop", "responses"),
        model("loop-ollama-hermes", "loop/hermes", "ollama", tools="hermes"),
        # Declared natively, but written as text.
        *(model(f"loop-{name}-untaught", f"loop/{name}", detect=[name]) for name in formats),
        model("bounce", "bounce", "lumo", misroute="bounce"),
        model("searches", "searches", "lumo"),
        *(
            model(name, name)
            for name in upstream.SCENARIOS
            if name not in {"loop", "bounce", "searches"} | matrix.ACTS.keys() | agent_model.ACTS.keys()
        ),
        *(Model(**each) for each in matrix.models(scripted)),
        *(Model(**each) for each in agent_model.models(scripted, mock)),
    ]
