"""A drill: the configuration of the program, and the table of what its operator sees."""

import re
import time
from pathlib import Path

from ledger import Ledger
from program import ADMIN, KEY, Broken, Program, until

ALERTS = Path(__file__).resolve().parents[2] / "deploy/grafana/alerts.yaml"

CONFIGURATION = """\
listen = "127.0.0.1:0"
threads = 2
{top}

[admin]
api_keys = ["env:DRILL_ADMIN"]

[execution]
permission = "{permission}"

[[providers]]
name = "lookup"
kind = "command"
command = ["/usr/bin/tr", "r", "w"]
description = "Looks a key up."
parameters = {{ type = "object", properties = {{ key = {{ type = "string" }} }} }}

[[upstreams]]
name = "u"
dialect = "chat"
base_url = "{url}"
{upstream}

[[models]]
name = "m"
upstream = "u"

[[keys]]
name = "team"
key = "env:DRILL_KEY"
tokens_per_month = 1000000
{more}
"""


class Drill:
    def __init__(self, binary, folder):
        self.binary, self.folder, self.program, self.upstream = binary, folder, None, None
        self.rows, self.phase, self.log_begin, self.began = [], "", 0, time.monotonic()

    def play(self):
        """Makes state, makes and heals the fault, and checks the state. Raises `Broken` if a rule does not hold."""
        raise NotImplementedError

    def clean(self):
        if self.program:
            self.program.kill()
        if self.upstream:
            self.upstream.stop()

    def prepare(self, upstream, top="", more="", permission="ask", of_upstream="", used=None, **program):
        """Starts the program with state of every kind."""
        self.upstream = upstream
        if "state_dir" not in top:
            top += f'\nstate_dir = "{self.folder}/state"'
        text = CONFIGURATION.format(top=top, more=more, permission=permission, upstream=of_upstream, url=upstream.url)
        (self.folder / "toolwire.toml").write_text(text)
        environment = {"DRILL_KEY": KEY, "DRILL_ADMIN": ADMIN} | program.pop("environment", {})
        self.program = Program(self.binary, self.folder, environment=environment, **program)
        self.program.start()
        self.ledger = Ledger(self.program, upstream, used)
        self.ledger.begin()

    # The table.

    def begins(self, phase):
        """A fault or its end: what follows in the table is seen after it."""
        self.phase, self.began, self.log_begin = phase, time.monotonic(), len(self.program.log)

    def sees(self, where, what, timed=False):
        after = f"{time.monotonic() - self.began:.1f} s" if timed else ""
        self.rows.append((self.phase, where, after, " ".join(str(what).split())))

    def logged(self, level, words):
        """Waits for a line of this level in the log that contains these words."""
        line = re.compile(rf"^\S+ +{level} +(?:[\w{{}}:=\"]+: )?(.*{re.escape(words)}.*)$", re.MULTILINE)
        try:
            found = until("", lambda: line.search(self.program.log, self.log_begin))
        except Broken:
            raise Broken(f"the log has no line with {level} and {words!r}") from None
        self.sees("log", f"{level} {found[1]}", timed=True)

    def measured(self, name, is_so, alert=None, labels=""):
        """Waits until the metric satisfies `is_so`. An alert that goes by the metric must exist."""
        last = []

        def found():
            last[:] = [self.program.metric(name, labels)]
            return is_so(last[0])
        try:
            until("", found)
        except Broken:
            raise Broken(f"the metric {name} stays {last[0]:g}") from None
        note = ""
        if alert:
            rules = dict(re.findall(r"- alert: (\w+)\n +expr: (.*)", ALERTS.read_text()))
            if name not in rules.get(alert, ""):
                raise Broken(f"deploy/grafana/alerts.yaml has no alert {alert} for {name}")
            note = f" (alert {alert})"
        self.sees("metric", f"{name}{labels and '{' + labels + '}'} {last[0]:.10g}{note}", timed=True)

    def ready(self):
        answer = self.program.ask("GET", "/readyz", trusting=True)
        if answer.status != 200:
            raise Broken(f"/readyz: {answer}")
        self.sees("/readyz", answer)

    def refused(self, where, words):
        """All refusals since the last call must contain these words."""
        refused, self.ledger.refused = self.ledger.refused, []
        if not refused or any(words not in one for one in refused):
            raise Broken(f"refusals ({where}) do not say {words!r}: {refused}")
        self.sees(where, refused[-1])

    def served(self, what):
        if self.ledger.refused:
            raise Broken(f"{what}: {self.ledger.refused[0]}")
        self.sees("client", f"200 ({what})")

    def doctor(self, words):
        """`check --doctor` must say these words, in one line."""
        _, said, error = self.program.command("check", "--doctor")
        found = [line for line in said.splitlines() if words in line]
        if not found:
            raise Broken(f"check --doctor does not say {words!r}: {said}{error}")
        self.sees("doctor", found[0])

    def kept(self, **options):
        self.sees("kept", self.ledger.check(**options))
