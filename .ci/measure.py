"""Shared by `.ci/gates` and `.ci/linear`: installs tools, builds, reads callgrind's output, and remembers what has passed."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()

# The files that affect the counts.
COUNTED = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo", "src", "crates", "benches", ".ci/measure.py"]
# Separate packages, which do not affect the counts.
OTHERS = [ROOT / "benches" / name for name in ("hop", "peers", "soak")]


class Passed:
    """Remembers, in the target folder, the digest of the inputs with which a check last passed."""

    def __init__(self, name):
        self.file = TARGET / "passed" / name
        digest = hashlib.sha256()
        for tool in ("rustc", "cc", "valgrind", "strace"):
            version = subprocess.run([tool, "--version"], capture_output=True).stdout if shutil.which(tool) else b"none"
            digest.update(version + b"\0")
        for place in (*COUNTED, f".ci/{name}"):
            for path in files(ROOT / place):
                content = path.read_bytes()
                digest.update(f"{path.relative_to(ROOT)} {len(content)}\0".encode() + content)
        self.digest = digest.hexdigest()

    def before(self):
        """Whether the check has passed with the current inputs. If so, prints that it is skipped."""
        if not self.file.exists() or self.file.read_text() != self.digest:
            return False
        print(f"{self.file.name}: not counted: it passed with the same sources and tools before (--if-changed)")
        return True

    def now(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.digest)


def files(path):
    """The file itself, or all files in the folder, in a fixed order."""
    if path.is_dir():
        return [file for each in sorted(path.iterdir()) if each not in OTHERS for file in files(each)]
    return [path] if path.is_file() else []


def need(tool, without):
    """Whether the tool is available. Tries to install a missing tool. In CI, exits if the tool is still missing."""
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
    """Builds these targets with the profile `gates`. Returns their executables by name. Always selects the same packages, so that
    cargo enables the same features of all crates and compiles each only once. Optional features are off, which shows that the
    program compiles without them: none is on the path of a token."""
    packages = ["--package", "toolwire", "--package", "toolwire-pipeline", "--no-default-features"]
    command = ["cargo", "build", "--locked", "--profile", "gates", *packages, *targets]
    command += ["--message-format", "json-render-diagnostics"]
    environment = {**os.environ, **variables}
    said = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    made = [message for line in said.splitlines() if (message := json.loads(line)).get("executable")]
    return {message["target"]["name"]: message["executable"] for message in made}


def callgrind(out, *more):
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", *more]


def instructions(text):
    """Returns the number of instructions in the text of a callgrind file."""
    return int(re.search(r"^(?:totals|summary): (\d+)", text, re.M)[1])
