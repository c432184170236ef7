"""Builds the packages, and prints the suite's closing line."""

import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("TOOLWIRE_BIN", REPOSITORY / "target/debug/toolwire")).resolve()


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """Packages the program that the other suites use, and returns the folder of the files."""
    folder = tmp_path_factory.mktemp("packages")
    # Compress little, since that takes most of the time.
    subprocess.run([REPOSITORY / "deploy/package", "--level", "1", "--out", folder, BINARY], check=True)
    return folder


@pytest.fixture
def place(tmp_path):
    """A folder whose name has a space and quotes."""
    folder = tmp_path / "it's a \"place\""
    folder.mkdir()
    return folder


def pytest_terminal_summary(terminalreporter):
    count = lambda *outcomes: sum(len(terminalreporter.stats.get(outcome, [])) for outcome in outcomes)
    terminalreporter.write_line(f"packages: {count('passed')} passed, {count('failed', 'error')} failed")
