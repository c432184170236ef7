"""The options of a run, and the paths that it uses. All other modules import them from here."""

import argparse
import atexit
import os
import shutil
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

parser = argparse.ArgumentParser(
    description="Measures what a hop costs: toolwire beside nginx, HAProxy and two relays that do as little as can be "
    "done. README.md says what is measured, and how.")
parser.add_argument("scenario", nargs="*", help="some of the README's (default: all)")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--only", help="targets, with commas between")
parser.add_argument("--gateways", default="", help="of smg, litellm and portkey, with commas between")
parser.add_argument("--other", action="append", default=[], metavar="NAME=COMMAND",
                    help="another gateway; {port} and {upstream} in its command stand for its port and the mock's")
parser.add_argument("--toolwire", type=Path, help="the program under test, where it is not to be built")
parser.add_argument("--also", action="append", default=[], metavar="NAME=PROGRAM", help="another toolwire beside it")
parser.add_argument("--mock", type=Path, help="the toolwire that is the upstream (default: the one under test)")
parser.add_argument("--no-build", action="store_true")
parser.add_argument("--rt", action="store_true", help="real-time class for all: for a machine that does other things")
parser.add_argument("--bench", action="store_true",
                    help="`toolwire bench` is the client where streams begin together: dearer, and strict")
parser.add_argument("--json", help="all figures, to this file")
parser.add_argument("--markdown", help="the tables, to this file")
parser.add_argument("--nginx", default=shutil.which("nginx") or "/usr/sbin/nginx")
parser.add_argument("--haproxy", default=shutil.which("haproxy") or "/usr/sbin/haproxy")
ARGS = parser.parse_args()

BUILT = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
RELAYS = BUILT / "release"
# Gateways are kept between runs, each in a folder named after its version.
INSTALLED = BUILT / "gateways"
IS_GIVEN = ARGS.toolwire is not None
ARGS.toolwire = ARGS.toolwire or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist/toolwire"
ARGS.mock = ARGS.mock or ARGS.toolwire

WORK = Path(tempfile.mkdtemp(prefix="hop-"))
atexit.register(shutil.rmtree, WORK, True)
