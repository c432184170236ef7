"""The models that the suites request: one per fixture, and one per scenario of the scripted upstream.

Every model has its own upstream. Its header tells `toolwire mock` which fixture to serve.
"""

import json
import tomllib

import agent_model
import matrix
import upstream

KEY = "sk-clients"

# The keep-alive interval, which is shorter than the pauses in the scenario `slow`.
KEEP_ALIVE = "200ms"


class Model:
    """A `[[models]]` entry, its `[[upstreams]]` entry, and the `[[formats]]` entries that it needs."""

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
    # Strings, numbers, booleans and arrays of them have the same syntax in JSON and TOML.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join([head, *lines, ""])


def configuration(models):
    """Returns the configuration file for `models`."""
    top = table("", {"listen": "127.0.0.1:0", "api_keys": ["env:CLIENTS_KEY"], "passthrough": ["/v1/embeddings"]})
    return "\n".join([top, table("[limits]", {"keep_alive": KEEP_ALIVE}), *(model.toml() for model in models)])


def fixtures(folders):
    """Yields the fixtures in `folders` that one server can serve together: those with one hop, without their own limits, and without
    a prefilled response. Excludes the dialect completions, whose models need a chat template."""
    for manifest in sorted(path for folder in folders for path in folder.glob("**/fixture.toml")):
        fixture = tomllib.loads(manifest.read_text("utf-8"))
        limited = any(key.startswith("max_") for key in fixture.get("settings", {}))
        is_special = fixture["from"] == "completions" or "prefill" in fixture.get("upstream", {})
        if not limited and not is_special and not (manifest.parent / "upstream-2.sse").exists():
            yield manifest.parent


def of_fixture(folder, mock):
    """Creates the model that responds with the fixture in `folder`."""
    manifest = tomllib.loads((folder / "fixture.toml").read_text("utf-8"))
    settings = manifest.get("settings", {})
    upstream_settings = {"tolerate_truncation": settings.pop("tolerate_truncation", False)}
    # Lumo's enabled tools affect how client tools are taught.
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
    """Returns what the suites need to know about a fixture."""
    expect = json.loads((folder / "expect.json").read_text("utf-8"))
    request = json.loads((folder / "request.json").read_text("utf-8"))
    return {"name": folder.name, "request": request | {"model": folder.name}, "expect": expect}


def of_scenarios(scripted, mock, formats):
    """Returns the models of the scripted upstream. Calls that are not native are written in one of `formats`."""
    def model(name, scenario, dialect="chat", **options):
        return Model(name, dialect, f"{scripted}/{scenario}", **options)

    return [
        model("loop-native", "loop"),
        model("loop-lumo", "loop", "lumo"),
        # Tools that are taught in the prompt.
        model("loop-hermes", "loop/hermes", tools="hermes"),
        model("loop-fenced", "loop/fenced", tools="fenced"),
        model("loop-bare", "loop/bare", tools="bare"),
        model("loop-lumo-pre", "loop/pre", "lumo", tools="pre"),
        model("loop-lumo-v1", "loop/pre", "lumo", tools="pre", options={"version": "v1"}),
        # Other dialects.
        model("loop-ollama", "loop", "ollama"),
        model("loop-messages", "loop", "messages"),
        model("loop-gemini", "loop", "gemini"),
        model("loop-interactions", "loop", "interactions"),
        model("loop-bedrock", "loop", "bedrock"),
        model("loop-responses", "loop", "responses"),
        model("loop-ollama-hermes", "loop/hermes", "ollama", tools="hermes"),
        # Tools that are declared natively, but called in text. Some formats are named like models that begin with reasoning.
        *(model(f"loop-{name}-untaught", f"loop/{name}", detect=[name], starts_in_reasoning=False) for name in formats),
        model("bounce", "bounce", "lumo", misroute="bounce"),
        model("searches", "searches", "lumo"),
        model("plays-native", "plays"),
        model("plays-hermes", "plays/hermes", tools="hermes"),
        *(
            model(name, name)
            for name in upstream.SCENARIOS
            if name not in {"loop", "bounce", "searches", "plays"} | matrix.ACTS.keys() | agent_model.ACTS.keys()
        ),
        *(Model(**each) for each in matrix.models(scripted)),
        *(Model(**each) for each in agent_model.models(scripted, mock)),
    ]
