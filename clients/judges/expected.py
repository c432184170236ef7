"""Reads expected.toml: what fails, and why. Ids that pass must be removed from it, which `--write` does."""

import re
import tomllib
from pathlib import Path

FILE = Path(__file__).with_name("expected.toml")


class Expected:
    def __init__(self, judge):
        self.groups = tomllib.loads(FILE.read_text("utf-8")).get(judge, [])
        self.known = {id: group for group in self.groups for id in group["ids"]}
        self.passing = []

    def allows(self, id, streams_only):
        group = self.known.get(id)
        return group is not None and (streams_only or group["where"] == "anywhere")

    def passed(self, id):
        if id in self.known:
            self.passing.append(id)

    def faults(self, write):
        """Reports listed ids that pass, or removes them from the file."""
        if not write:
            return [f"{id} passes, but expected.toml lists it; `clients/run --write judges` removes it" for id in self.passing]
        text = FILE.read_text("utf-8")
        for id in self.passing:
            text = re.sub(rf'^ *"{re.escape(id)}",\n', "", text, flags=re.MULTILINE)
        FILE.write_text(text, "utf-8")
        return []

    def rows(self):
        for group in self.groups:
            if ids := [id for id in group["ids"] if id not in self.passing]:
                yield from ("", f"{group['reason']} ({len(ids)}): {', '.join(f'`{id}`' for id in sorted(ids))}.")
