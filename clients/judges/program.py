"""Starts toolwire with a configuration."""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("TOOLWIRE_BIN") or str(ROOT / "target/debug/toolwire")

# How long toolwire may take to print its address, in seconds.
STARTING = 60


def taught_formats():
    """Returns the names of the formats that can be taught to a model."""
    listed = subprocess.run([BINARY, "formats", "--json"], check=True, capture_output=True, encoding="utf-8").stdout
    return [each["name"] for each in json.loads(listed) if each["taught"]]


@contextmanager
def serving(upstream_port, models, server="", dialect="chat", base="/v1"):
    """Starts toolwire in front of an upstream, with the lines of each model's settings, and returns its port.

    `server` are lines for `[upstreams.chat]` or `[upstreams.completions]`; other dialects have none.
    """
    with tempfile.TemporaryDirectory(prefix="toolwire-judges-") as folder:
        lines = ['listen = "127.0.0.1:0"', f'state_dir = "{folder}"', "[[upstreams]]", 'name = "u"', f'dialect = "{dialect}"']
        lines.append(f'base_url = "http://127.0.0.1:{upstream_port}{base}"')
        if server and dialect in ("chat", "completions"):
            lines += [f"[upstreams.{dialect}]", server]
        for name, settings in models.items():
            lines += ["[[models]]", f"name = {json.dumps(name)}", 'upstream = "u"', settings]
        file = Path(folder) / "toolwire.toml"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TOOLWIRE_")}
        process = subprocess.Popen([BINARY, "serve", "--config", str(file)], stderr=subprocess.PIPE, env=environment)
        listening, ports, log = threading.Event(), [], []

        def read():
            for line in process.stderr:
                said = re.search(rb"on http://[0-9.]+:([0-9]+)", line)
                if said and not ports:
                    ports.append(int(said[1]))
                    listening.set()
                if not ports:
                    log.append(line.decode("utf-8", "replace"))
            listening.set()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            listening.wait(STARTING)
            if not ports:
                sys.exit(f"{BINARY} does not listen:\n{''.join(log)}")
            yield ports[0]
        finally:
            process.terminate()
            process.wait()
            reader.join()
