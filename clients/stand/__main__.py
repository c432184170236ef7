"""Runs a command while `toolwire serve` runs in front of `toolwire mock` and the scripted upstream.

    python3 clients/stand COMMAND…

The command finds a JSON file at the path in the environment variable STAND. It contains `binary` (the path of toolwire), the
proxy's `url`, `key` and `metrics`, `upstream` (the scripted one), `cases` (fixtures: name, request, expect), `matrix` (the same for
the scenarios in each upstream dialect), `upstreams` (those dialects), `agents` (what the suite of agents needs), `all_loops` (models
that run a complete tool loop) and `loops` (those without most of the formats; if NIGHTLY is set, all). Exits with the command's
status. TOOLWIRE_BIN selects the toolwire binary.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import agent_model
import matrix
import models
import upstream

ROOT = Path(__file__).resolve().parents[2]
BINARY = os.environ.get("TOOLWIRE_BIN") or str(ROOT / "target/debug/toolwire")
FOLDERS = [ROOT / "fixtures", ROOT / "clients/fixtures"]

# Of the formats, each client of a normal run has every one of this number.
EACH = 8

# How long a process may take to print its address, in seconds.
STARTING = 60


@contextmanager
def running(log, *arguments):
    """Starts a toolwire process and returns its address. Writes its output to the file `log`."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TOOLWIRE_")}
    environment |= {"CLIENTS_KEY": models.KEY, "XDG_STATE_HOME": str(Path(log).parent)}
    process = subprocess.Popen([BINARY, *arguments], stderr=subprocess.PIPE, env=environment)
    address = threading.Event()
    found = []

    def read():
        with open(log, "wb") as file:
            for line in process.stderr:
                file.write(line)
                file.flush()
                said = re.search(rb"on (http://[0-9.:]+)", line)
                if said and not found:
                    found.append(said[1].decode())
                    address.set()
        address.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        address.wait(STARTING)
        if not found:
            sys.exit(f"{BINARY} {arguments[0]} does not listen:\n{Path(log).read_text('utf-8')}")
        yield found[0]
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join()


def written_calls():
    """Returns an example call in each format that can express calls."""
    listed = subprocess.run([BINARY, "formats", "--json"], check=True, capture_output=True, encoding="utf-8").stdout
    return {each["name"]: each["example"] for each in json.loads(listed) if "get_weather" in each["example"]}


def has_bedrock(folder):
    """Whether toolwire is built with the feature `bedrock`."""
    config = folder / "bedrock.toml"
    config.write_text(models.configuration([models.Model("m", "bedrock", "http://127.0.0.1:1")]), "utf-8")
    checked = subprocess.run([BINARY, "check", "--config", config], env={"CLIENTS_KEY": models.KEY}, capture_output=True)
    return b"feature" not in checked.stdout + checked.stderr


def without_most_formats(loops):
    """All clients get the calls of a format in the same way, so one client's loop with each format is enough."""
    formats = [name for name in loops if name.endswith("-untaught")]
    return [name for name in loops if name not in formats] + formats[::EACH]


def main(command):
    if not Path(BINARY).is_file():
        sys.exit(f"there is no {BINARY}; build it with `cargo build`, or name it in TOOLWIRE_BIN")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="toolwire-clients-")))
        fixtures = list(models.fixtures(FOLDERS))
        mock_options = ["--listen", "127.0.0.1:0", "--pace", "none"]
        played = [*fixtures, ROOT / "clients/fixtures/agents"]
        mock = stack.enter_context(running(folder / "mock.log", "mock", *map(str, played), *mock_options))
        examples = written_calls()
        server = upstream.start(examples)
        stack.callback(server.shutdown)
        scripted = "http://{}:{}".format(*server.server_address)
        served = [models.of_fixture(fixture, mock) for fixture in fixtures] + models.of_scenarios(scripted, mock, examples)
        if "CI" not in os.environ and not has_bedrock(folder):
            del matrix.UPSTREAMS["bedrock"]
            served = [model for model in served if model.dialect != "bedrock"]
        loops = [model.name for model in served if model.name.startswith("loop-")]
        config = folder / "toolwire.toml"
        config.write_text(models.configuration(served), "utf-8")
        url = stack.enter_context(running(folder / "serve.log", "serve", "--config", str(config)))
        stand = folder / "stand.json"
        stand.write_text(
            json.dumps({
                "binary": BINARY,
                "url": f"{url}/v1",
                "key": models.KEY,
                "metrics": f"{url}/metrics",
                "upstream": scripted,
                "cases": [models.case(fixture) for fixture in fixtures],
                "matrix": list(matrix.cases()),
                "upstreams": list(matrix.UPSTREAMS),
                "agents": agent_model.told(),
                "all_loops": loops,
                "loops": loops if os.environ.get("NIGHTLY") else without_most_formats(loops),
            }),
            "utf-8",
        )
        status = subprocess.call(command, env=os.environ | {"STAND": str(stand)})
        if status and "STAND_LOGS" in os.environ:
            for log in "mock.log", "serve.log":
                print(f"--- {log}", (folder / log).read_text("utf-8"), sep="\n", file=sys.stderr)
        return status


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
