"""The stand's description, and `Answer`, which contains what a client has received. Imports no SDK."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

STAND = json.loads(Path(os.environ["STAND"]).read_text("utf-8"))

# The clients' timeout, in seconds. Only a test that hangs takes this long.
TIMEOUT = 30

SETTINGS = {"base_url": STAND["url"], "api_key": STAND["key"], "max_retries": 0, "timeout": TIMEOUT}


@dataclass
class Answer:
    """What a client has received when the response has ended. Members that a client does not expose keep their defaults."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    # [{"id", "name", "arguments"}]
    calls: list = field(default_factory=list)
    # [{"call", "content", "is_error"}]
    results: list = field(default_factory=list)
    finish: str | None = None
    usage: dict | None = None
    error: Exception | None = None
