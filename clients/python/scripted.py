"""Observes and controls the scripted upstream."""

import json
import time
import urllib.request

import pytest
from stand import STAND

# How long to wait for an expected state, in seconds.
PATIENCE = 20


@pytest.fixture
def upstream():
    """What the scripted upstream has seen."""
    return Upstream()


class Upstream:
    def seen(self, scenario):
        """Returns the scenario's counts, and the bodies of its latest requests."""
        with urllib.request.urlopen(f"{STAND['upstream']}/state/{scenario}") as response:
            return json.load(response)

    def go(self, scenario):
        """Lets the scenario's response continue."""
        urllib.request.urlopen(f"{STAND['upstream']}/go/{scenario}").close()

    def until(self, scenario, **expected):
        """Waits until the scenario has reached this state."""
        deadline = time.monotonic() + PATIENCE
        while (seen := {key: self.seen(scenario)[key] for key in expected}) != expected:
            assert time.monotonic() < deadline, f"{scenario}: {expected} was expected, {seen} is there"
            time.sleep(0.02)
