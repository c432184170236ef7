"""Keeps litellm from using the network; prints the closing line of this suite."""

import gc
import os

import pytest

# Without it, the price list is fetched when litellm is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from scripted import upstream  # noqa: E402

__all__ = ["upstream"]


# litellm leaves a stream that failed unclosed, in a cycle of references. Its finaliser takes the lock of httpcore's pool, which
# is not reentrant. If the collector ran while the same thread held that lock, in the next request, the test waited for ever.
@pytest.fixture(autouse=True)
def garbage_collected_between_tests():
    gc.disable()
    yield
    gc.collect()


def pytest_collection_finish():
    # What importing has made is not looked at again after each test.
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    count = lambda *outcomes: sum(len(terminalreporter.stats.get(outcome, [])) for outcome in outcomes)
    terminalreporter.write_line(f"litellm: {count('passed')} passed, {count('failed', 'error')} failed")
