"""The options of a run. All other modules import them from here."""

import argparse
import os
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

parser = argparse.ArgumentParser(
    description="Runs toolwire under load while its surroundings fail, and accounts for every response. README.md says "
    "what is checked, and how.")
parser.add_argument("--minutes", type=float, default=10, help="how long requests are made (default: 10)")
parser.add_argument("--streams", type=int, default=2000, help="responses in progress at any time (default: 2000)")
parser.add_argument("--pace", type=float, default=2, help="tokens per second of each response (default: 2)")
parser.add_argument("--seed", type=int, default=1, help="of requests and faults (default: 1)")
parser.add_argument("--quiet-run", action="store_true", help="no faults from outside: no kills, reloads and restarts")
parser.add_argument("--store", default="embedded",
                    help="embedded, off, redis (a server of its own, which is restarted), or a redis:// URL (which is not)")
parser.add_argument("--restart-store", type=float, default=5, metavar="MINUTES",
                    help="how often Redis is killed and started again, with --store redis (default: 5)")
parser.add_argument("--plain", action="store_true", help="no TLS, and thus no HTTP/2")
parser.add_argument("--toolwire", type=Path, help="the program under test, where it is not to be built")
parser.add_argument("--json", type=Path, help="the report as JSON, to this file")
parser.add_argument("--keep", type=Path, help="an empty folder for configuration, logs and state, which is kept")


def parsed():
    args = parser.parse_args()
    args.is_given = args.toolwire is not None
    args.toolwire = args.toolwire or Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist/toolwire"
    return args
