"""The example programs that register their tools at run time (`examples/provider.*`): each registers, runs a call, is killed, loses
its lease, comes back, and outlives a restart of toolwire."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness import BINARY, REPOSITORY, Upstream, free_port, on_demand, process, serving, toolwire, until

KEY = "registration-key"
TOOL = "clock_now"
TABLES = f"""
[execution]
[[providers]]
name = "programs"
kind = "http"
keys = ["{KEY}"]
allow_private = true
lease = "1s"
"""


def rust_example():
    """The program that `cargo test` built beside toolwire."""
    built = Path(BINARY).parent / "examples/provider"
    if not built.exists():
        subprocess.run(["cargo", "build", "--locked", "--example", "provider"], cwd=REPOSITORY, check=True)
        built = REPOSITORY / "target/debug/examples/provider"
    return str(built)


def command(language, port):
    url = f"http://127.0.0.1:{port}"
    match language:
        case "python":
            return [sys.executable, str(REPOSITORY / "examples/provider.py"), url, KEY]
        case "javascript":
            return ["node", str(REPOSITORY / "examples/provider.mjs"), url, KEY]
        case "rust":
            return [rust_example(), f"127.0.0.1:{port}", KEY]


@pytest.mark.parametrize("language", ["python", "javascript", "rust"])
def test_program_dies_and_comes_back(tmp_path, language):
    port = free_port()
    with serving(Upstream, script=on_demand) as upstream:
        with toolwire(tmp_path, upstream, TABLES, port) as gateway:
            with process(*command(language, port)):
                assert gateway.tools(TOOL) == [TOOL]
                assert any(digit in gateway.call(TOOL) for digit in "0123456789")
            # The process was killed, so nothing unregisters it: the lease ends.
            until(lambda: TOOL not in gateway.names())
        with process(*command(language, port)):
            # It starts before toolwire, and tries again.
            with toolwire(tmp_path, upstream, TABLES, port) as gateway:
                assert gateway.tools(TOOL) == [TOOL]
                assert "Unknown" not in gateway.call(TOOL)
            with toolwire(tmp_path, upstream, TABLES, port) as gateway:
                assert gateway.tools(TOOL) == [TOOL]
                assert "Unknown" not in gateway.call(TOOL)


def test_wrong_key_registers_nothing(tmp_path):
    """The program says why, and the model gets no tool."""
    with serving(Upstream, script=on_demand) as upstream, toolwire(tmp_path, upstream, TABLES) as gateway:
        program = str(REPOSITORY / "examples/provider.py")
        running = subprocess.Popen(
            [sys.executable, program, gateway.url, "wrong-key"], stderr=subprocess.PIPE, text=True, env=dict(os.environ)
        )
        try:
            assert "401" in running.stderr.readline()
            assert gateway.names() == []
        finally:
            running.kill()
            running.communicate()
