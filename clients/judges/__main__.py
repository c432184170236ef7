"""Runs public judges of tool calls against toolwire.

    judges/.venv/bin/python judges [--nightly] [--write] [JUDGE…]

Compares their figures with those in docs/judges.md, which `--write` replaces. `--nightly` runs each judge completely; otherwise
those that take minutes play a sample, which must be without faults. TOOLWIRE_BIN selects the toolwire binary.
"""

import argparse
import datetime
import importlib
import sys
import time

import page
import program

JUDGES = ["canitoolcall", "bfcl", "detect", "tool_search", "templates", "faulty", "tau2"]
# Runs only if it is named: it takes minutes and needs `clients/run --install model`.
NAMED = ["model"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judges", nargs="*", metavar="JUDGE", help=f"some of {', '.join(JUDGES + NAMED)}")
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.judges) - set(JUDGES + NAMED):
        parser.error(f"there is no judge {', '.join(sorted(unknown))}")
    if not program.Path(program.BINARY).is_file():
        sys.exit(f"there is no {program.BINARY}; build it with `cargo build`, or name it in TOOLWIRE_BIN")
    failed = False
    for name in options.judges or JUDGES:
        begun = time.monotonic()
        figures, examples, faults = importlib.import_module(f"judge_{name}").judge(options)
        print(f"{name}: {time.monotonic() - begun:.0f} s", *figures, sep="\n")
        if figures and options.write:
            page.replace(name, figures)
        elif figures and not page.says(name, figures):
            faults.append("these are not the figures in docs/judges.md; `clients/run --write judges` replaces them")
            faults += examples
        for fault in faults:
            print(f"{name}: {fault}")
        failed |= bool(faults)
    if options.write:
        page.replace("date", [f"Measured on {datetime.date.today():%-d %B %Y}."])
    sys.exit(failed)


if __name__ == "__main__":
    main()
