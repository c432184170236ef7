"""What `.ci/gates` and `.ci/linear` share: tools that may have to be installed, builds, callgrind."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def need(tool, without):
    """Whether the tool is there; it is installed if it is missing and can be. In CI a missing tool is an error."""
    if not shutil.which(tool) and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["apt-get", "update"], **quiet)
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", tool], **quiet)
    if shutil.which(tool):
        return True
    message = f"{Path(sys.argv[0]).name}: {tool} is missing and cannot be installed: {without}"
    if os.environ.get("CI"):
        sys.exit(message)
    print(message, file=sys.stderr)
    return False


def build(*targets, **variables):
    """The executables of these targets by name, built with the profile that is counted."""
    command = ["cargo", "build", "--locked", "--profile", "gates", *targets]
    command += ["--message-format", "json-render-diagnostics"]
    environment = {**os.environ, **variables}
    said = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = [message for line in said.splitlines() if (message := json.loads(line)).get("executable")]
    return {message["target"]["name"]: message["executable"] for message in made}


def callgrind(out, *more):
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *more]


def instructions(text):
    """The instructions in the text of a file that callgrind wrote."""
    return int(re.search(r"^(?:totals|summary): (\d+)", text, re.M)[1])
