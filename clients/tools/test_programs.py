"""The example programs that register their tools at run time (`examples/provider.*`). Each registers, runs a call, is killed, loses
its lease, registers again, and survives a restart of toolwire."""

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
    """Returns the path of the Rust example, and builds the example if necessary."""
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
            # A killed process cannot unregister, so its lease expires.
            until(lambda: TOOL not in gateway.names())
        with process(*command(language, port)):
            # The program starts before toolwire, so it must retry.
            with toolwire(tmp_path, upstream, TABLES, port) as gateway:
                assert gateway.tools(TOOL) == [TOOL]
                assert "Unknown" not in gateway.call(TOOL)
            with toolwire(tmp_path, upstream, TABLES, port) as gateway:
                assert gateway.tools(TOOL) == [TOOL]
                assert "Unknown" not in gateway.call(TOOL)


def test_wrong_key_registers_nothing(tmp_path):
    """The program prints the reason, and the model is offered no tool."""
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
