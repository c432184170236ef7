"""Chat templates: the expected results in crates/template/tests/template are those of Python's Jinja."""

import pathlib
import subprocess
import sys

RENDER = pathlib.Path(__file__).parents[2] / "crates/template/tests/template/render.py"


def test_rendered_results_are_up_to_date():
    done = subprocess.run([sys.executable, RENDER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
