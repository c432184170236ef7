"""Keeps litellm from using the network, and prints the suite's closing line."""

import gc
import os

import pytest

# Otherwise, importing litellm downloads a price list.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from scripted import upstream  # noqa: E402

__all__ = ["upstream"]


# litellm does not close a failed stream, and leaves it in a reference cycle. Its finalizer takes the lock of httpcore's pool, which is
# not reentrant: if the garbage collector runs while the same thread holds the lock, for the next request, the test hangs.
@pytest.fixture(autouse=True)
def garbage_collected_between_tests():
    gc.disable()
    yield
    gc.collect()
    # Exclude what is left from later collections: litellm's modules, which it also imports later, have very many objects.
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    count = lambda *outcomes: sum(len(terminalreporter.stats.get(outcome, [])) for outcome in outcomes)
    terminalreporter.write_line(f"litellm: {count('passed')} passed, {count('failed', 'error')} failed")
