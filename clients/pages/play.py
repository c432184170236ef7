"""Runs the commands of README.md and of the pages for beginners as they are written, and compares what they print: play.py [PAGE…]
With --clone instead, those of README.md as a newcomer does: in a new clone of what is committed, with Rust's cargo and the ports as
they are written. That builds the program.

In these pages, a block `sh` is one command, which is run by a shell, and the block `text` after it is what it prints: its lines
must be among the printed ones, in this order; `…` stands for any text. A command runs until the end of the page, or until the next
one of the same program, before which Ctrl-C stops it. Only ports are others, as those of the pages may be in use. `vllm`, `llama-
server`, `ollama` and `cargo run` are stand-ins. TOOLWIRE_BIN selects the program."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGES = ["docs/vllm.md", "docs/llama-cpp.md", "docs/ollama.md", "README.md"]
STAND_INS = ["vllm", "llama-server", "ollama", "cargo"]
UPSTREAMS = ["8000", "8080", "11434"]
SECONDS = 120
BUILD_SECONDS = 7200


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def blocks(page):
    """Returns the commands of a page, each with the lines that it must print."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    printed = [text for _, text in found[1:]] + [""]
    kinds = [kind for kind, _ in found[1:]] + [""]
    return [(text, after if kind == "text" else "") for (own, text), after, kind in zip(found, printed, kinds) if own == "sh"]


def missing(expected, printed):
    """Returns the first expected line that is not printed after those before it."""
    lines = iter(printed.splitlines())
    for line in expected.splitlines():
        pattern = ".*".join(map(re.escape, line.split("…")))
        if line != "…" and not any(re.fullmatch(pattern, own) for own in lines):
            return line
    return None


def play(name, program):
    """Plays a page in an empty folder, with stand-ins for what it needs."""
    page = (ROOT / name).read_text()
    ports = {"8787": free_port()}
    upstream = free_port()
    ports |= dict.fromkeys(UPSTREAMS, upstream)
    page = re.sub(r"(?<=127\.0\.0\.1:)(%s)\b" % "|".join(ports), lambda found: ports[found[1]], page)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        (folder / "toolwire").symlink_to(program)
        for own in STAND_INS:
            (folder / own).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE}/stand_in.py" {own} "$@"\n')
            (folder / own).chmod(0o755)
        environment = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TOOLWIRE_LISTEN": f"127.0.0.1:{ports['8787']}",
            "STAND_IN_PORT": upstream,
        }
        return run(name, page, folder, folder, environment, SECONDS)


def play_clone(name):
    """Plays a page in a new clone."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        clone = Path(folder) / "toolwire"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        return run(name, (clone / name).read_text(), Path(folder), clone, dict(os.environ), BUILD_SECONDS)


def run(name, page, outputs, folder, environment, seconds):
    """Runs a page's commands in the folder, and returns whether one failed."""
    running, failed, played = {}, [], 0
    try:
        for number, (command, expected) in enumerate(blocks(page)):
            program = command.split()[0]
            if program in running:
                stop(running.pop(program), signal.SIGINT)
            output = outputs / f"output{number}"
            with output.open("w") as file:
                running[program] = subprocess.Popen(["bash", "-ec", f"exec {command}"], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
            played += 1
            failed += waited(running[program], command, expected, output, seconds)
    finally:
        for process in running.values():
            stop(process, signal.SIGKILL)
    print(f"pages: {name}: {played} commands, {len(failed)} failed", *failed, sep="\n")
    return bool(failed) or not played


def stop(process, sign):
    """Ends the command and what it has started."""
    try:
        os.killpg(process.pid, sign)
    except ProcessLookupError:
        pass
    process.wait()


def waited(process, command, expected, output, seconds):
    """Waits until the command has printed what it must, or has ended. Without a text to wait for, it must end well."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        status = process.poll()
        line = missing(expected, output.read_text())
        if expected and line is None and not status:
            return []
        if status is not None:
            line = missing(expected, output.read_text())
            return [] if status == 0 and line is None else [f"{command}exits with {status}, without the line:\n{line}\n{output.read_text()}"]
        time.sleep(0.05)
    return [f"{command}does not print the line:\n{line}\n{output.read_text()}"]


def main():
    program = Path(os.environ.get("TOOLWIRE_BIN", ROOT / "target/debug/toolwire")).resolve()
    if sys.argv[1:] == ["--clone"]:
        sys.exit(play_clone("README.md"))
    failed = [name for name in sys.argv[1:] or PAGES if play(name, program)]
    sys.exit(1 if failed else 0)


main()
