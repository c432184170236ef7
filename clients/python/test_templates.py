"""Chat templates: the stored results of tests/core/template are what Python's Jinja renders."""

import pathlib
import subprocess
import sys

RENDER = pathlib.Path(__file__).parents[2] / "tests/core/template/render.py"


def test_rendered_results_are_up_to_date():
    done = subprocess.run([sys.executable, RENDER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
