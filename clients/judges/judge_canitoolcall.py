"""canitoolcall: its fixtures through the adapter in canitoolcall_adapter.py, judged by the package's own checks.

Each fixture is parsed not streamed, streamed at once, after every character, and in random pieces of characters. Splits within
characters of a marker count, which the package's own runs leave out. Everything happens with all defaults, and again with
`arguments = "whole"`. `chat_template_kwargs` are sent only if the fixture's prompt is not its model's default. A nightly run also
sends them always, and cuts each output into two pieces at up to 100 places.

expected.toml lists the fixtures that fail, with reasons. `where = "streams"` allows failures only in streams with all defaults.
"""

import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import program
from canitoolcall import __version__, checks, fixtures
from canitoolcall.adapters.base import ReplayInput
from canitoolcall.chunking import ChunkStrategy, split_text
from canitoolcall.results import Observation, worst_status
from canitoolcall_adapter import BIN_ENV, ToolwireAdapter
from expected import Expected

STRATEGIES = ("one", "char:0", "char:1", "char:2", "char:3")
FAMILIES = fixtures.load_families()
# How many of the cuts of one output are tried.
CUTS = 100


class Shipped(ToolwireAdapter):
    """Sends a thinking mode only if the prompt is not the one that the model's template makes by default."""

    def chat_template_kwargs(self, raw):
        default = FAMILIES[raw.family].reference_for(raw.model).default_generation_prompt
        return {} if raw.generation_prompt == default else super().chat_template_kwargs(raw)


class Whole(Shipped):
    model_settings = 'arguments = "whole"\n'


def observed(adapter, fixture, cuts):
    raw = ReplayInput.from_fixture(fixture, FAMILIES[fixture.family])
    deltas = {name: split_text(raw.text, ChunkStrategy.parse(name)) for name in STRATEGIES if name != "one"}
    deltas["one"] = [raw.text]
    if cuts:
        step = max(1, len(raw.text) // CUTS)
        deltas |= {f"cut:{at}": [raw.text[:at], raw.text[at:]] for at in range(1, len(raw.text), step)}
    tools = list(fixture.tools)
    streams = {name: adapter.parse_stream_text(raw, pieces, tools) for name, pieces in deltas.items()}
    return Observation(nonstream=adapter.parse(raw, tools), streams=streams)


def judged(adapter, fixture, cuts=False):
    """Returns the statuses of the unstreamed response and of all, what failed, and what was received."""
    seen = observed(adapter, fixture, cuts)
    rows = checks.run_checks(fixture, FAMILIES[fixture.family], seen)
    unstreamed = worst_status(row.status for row in rows if row.strategy == "nonstream").value
    status = worst_status(row.status for row in rows).value
    failed = sorted({row.check for row in rows if row.status.value == status})
    if len({json.dumps(stream.to_dict()) for stream in seen.streams.values()}) > 1:
        status, failed = "fail", ["depends on how the stream is split"]
    return fixture.id, unstreamed, status, failed, seen


def play(adapter, chosen, cuts=False):
    try:
        with ThreadPoolExecutor(8) as pool:
            return {found[0]: found for found in pool.map(lambda fixture: judged(adapter, fixture, cuts), chosen)}
    finally:
        adapter.close()


def bad(status):
    return status in ("fail", "error")


def row(name, results):
    counts = Counter(status for _, _, status, _, _ in results.values())
    return f"| {name} | {counts['pass']} | {counts['soft_pass']} | {counts['fail'] + counts['error']} |"


def judge(options):
    os.environ[BIN_ENV] = program.BINARY
    chosen = fixtures.load_fixtures()
    shipped = play(Shipped(), chosen, options.nightly)
    whole = play(Whole(), chosen)
    runs = {"all defaults": shipped, '`arguments = "whole"`': whole}
    if options.nightly:
        always = play(ToolwireAdapter(), chosen)
        runs["all defaults, thinking mode always sent"] = always
    expected = Expected("canitoolcall")
    faults = []
    for id, (_, unstreamed, status, failed, seen) in sorted(shipped.items()):
        anywhere = bad(unstreamed) or bad(whole[id][2]) or (options.nightly and bad(always[id][2]) and not bad(status))
        if anywhere or bad(status):
            if not expected.allows(id, streams_only=not anywhere):
                faults.append(f"{id}: {', '.join(failed)}: {json.dumps(seen.streams['one'].to_dict(), ensure_ascii=False)[:600]}")
        else:
            expected.passed(id)
    rows = [f"canitoolcall {__version__}, {len(chosen)} fixtures:", "", "| toolwire with | pass | soft pass | fail |", "|---|---|---|---|"]
    runs.pop("all defaults, thinking mode always sent", None)
    rows += [row(name, results) for name, results in runs.items()]
    rows += expected.rows()
    return rows, [], faults + expected.faults(options.write)
