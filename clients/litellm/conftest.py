"""Keeps litellm from using the network; prints the closing line of this suite."""

import os

# Without it, the price list is fetched when litellm is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from scripted import upstream  # noqa: E402

__all__ = ["upstream"]


def pytest_terminal_summary(terminalreporter):
    count = lambda *outcomes: sum(len(terminalreporter.stats.get(outcome, [])) for outcome in outcomes)
    terminalreporter.write_line(f"litellm: {count('passed')} passed, {count('failed', 'error')} failed")
