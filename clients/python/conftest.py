"""Fixtures shared by all tests of this suite, and the suite's closing line."""

from scripted import upstream

__all__ = ["upstream"]


def pytest_terminal_summary(terminalreporter):
    count = lambda *outcomes: sum(len(terminalreporter.stats.get(outcome, [])) for outcome in outcomes)
    terminalreporter.write_line(f"python: {count('passed')} passed, {count('failed', 'error')} failed")
