"""The folders of an agent, and the suite's closing line."""

import secrets

import pytest


@pytest.fixture
def folders(tmp_path):
    """Creates a home folder, and a working folder with two files that have random contents."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    for name in "one", "two":
        (work / f"{name}.txt").write_text(f"{name}={secrets.token_hex(4)}\n")
    return home, work


def pytest_terminal_summary(terminalreporter):
    count = lambda *outcomes: sum(len(terminalreporter.stats.get(outcome, [])) for outcome in outcomes)
    terminalreporter.write_line(f"agents: {count('passed')} passed, {count('failed', 'error')} failed")
