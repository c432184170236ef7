"""What the suites know of the stand, and what a client has received, an `Answer`. It needs no SDK."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

STAND = json.loads(Path(os.environ["STAND"]).read_text("utf-8"))

# Seconds after which a client gives up; only a test that hangs takes that long.
TIMEOUT = 30

# Arguments for creating a client.
SETTINGS = {"base_url": STAND["url"], "api_key": STAND["key"], "max_retries": 0, "timeout": TIMEOUT}


@dataclass
class Answer:
    """What a client has received at the end of a response. Members that a client does not expose keep these defaults."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    # [{"id", "name", "arguments"}]
    calls: list = field(default_factory=list)
    # [{"call", "content", "is_error"}]
    results: list = field(default_factory=list)
    finish: str | None = None
    usage: dict | None = None
    # What the SDK raised.
    error: Exception | None = None
