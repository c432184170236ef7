"""Checks that the tables of types have every type of the installed SDKs: python types [--write]

The tables are `types.toml` beside the dialects and the client of MCP servers. `--write` writes an instance of each type to `tests/core/types/instances`, so
that `tests/core/types` can check the tables without the SDKs.
"""

import importlib.metadata
import json
import sys
import tomllib
from pathlib import Path

import sdk_types

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["openai", "anthropic", "google-genai", "mcp-types"]
MCP = "crates/execution/src/providers/mcp"


def main():
    listed = sdk_types.listed()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    if sys.argv[1:] == ["--write"]:
        write(listed)
    lacking = [
        f"{dialect}: {kind} `{name}`"
        for dialect, kinds in listed.items()
        for kind, names in kinds.items()
        for name in sorted(set(names) - table(dialect).get(kind, {}).keys())
    ]
    if lacking:
        print(f"types of {versions} that the tables lack:", *lacking, sep="\n  ", file=sys.stderr)
        sys.exit(1)
    count = sum(len(names) for kinds in listed.values() for names in kinds.values())
    print(f"{count} types of {versions} are in the tables")


def table(dialect):
    folder = MCP if dialect == "mcp" else f"crates/dialects/src/{dialect}"
    return tomllib.loads((ROOT / folder / "types.toml").read_text())


def write(listed):
    folder = ROOT / "tests/core/types/instances"
    folder.mkdir(exist_ok=True)
    for dialect, kinds in listed.items():
        lines = [
            f"{json.dumps(kind)}: {{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(made)}" for name, made in names.items()) + "\n}"
            for kind, names in kinds.items()
        ]
        (folder / f"{dialect}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
