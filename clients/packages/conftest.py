"""Builds the packages, and prints the suite's closing line."""

import json
import os
import subprocess
import zlib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("TOOLWIRE_BIN", REPOSITORY / "target/debug/toolwire")).resolve()


def package(program, folder, **options):
    """Runs deploy/package, which compresses little, since that takes most of the time."""
    command = [REPOSITORY / "deploy/package", "--level", "1", "--out", folder, program]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def with_list(program, crates, path):
    """Writes the program with a list of crates, as cargo-auditable embeds it."""
    listed = path.with_suffix(".list")
    listed.write_bytes(zlib.compress(json.dumps({"packages": crates}).encode()))
    command = ["objcopy", "--remove-section", ".dep-v0", "--add-section", f".dep-v0={listed}", program, path]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="session")
def bill():
    """The bill of materials for this machine."""
    target = f"{os.uname().machine}-unknown-linux-gnu"
    return json.loads(subprocess.run([REPOSITORY / "deploy/sbom", target], check=True, capture_output=True).stdout)


@pytest.fixture(scope="session")
def program(bill, tmp_path_factory):
    """The program that the other suites use, with a list of its crates."""
    path = tmp_path_factory.mktemp("program") / "toolwire"
    return with_list(BINARY, [{"name": each["name"], "version": each["version"]} for each in bill["components"]], path)


@pytest.fixture(scope="session")
def packages(program, tmp_path_factory):
    """Packages the program, and returns the folder of the files."""
    folder = tmp_path_factory.mktemp("packages")
    done = package(program, folder)
    assert done.returncode == 0, done.stderr
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
