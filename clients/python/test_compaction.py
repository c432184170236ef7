"""Compactions and token counts of the openai SDK: a model's summary takes the place of the conversation."""

import json

import pytest
from sdk import STAND, client

TEXT = next(case["expect"]["text"] for case in STAND["matrix"] if case["scenario"] == "plain")
# The scripted upstream of Responses has no such paths.
UPSTREAMS = [name for name in STAND["upstreams"] if name != "responses"]


def check_next(name, output, upstream):
    """The next request has the summary, and nothing else of what was compacted."""
    items = [item.model_dump(exclude_none=True, warnings=False) for item in output]
    question = {"role": "user", "content": "And now?"}
    assert client().responses.create(model=name, input=[*items, question], store=False).output_text == TEXT
    told = json.dumps(upstream.seen("plain")["requests"][-1], ensure_ascii=False)
    assert json.dumps(TEXT, ensure_ascii=False)[1:-1] in told or TEXT in told
    assert "Summarize the conversation" not in told
    assert "SECRET RESULT" not in told


CONVERSATION = [
    {"role": "user", "content": "Look."},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "SECRET RESULT"},
]


@pytest.mark.parametrize("upstream_name", UPSTREAMS)
def test_compact(upstream_name, upstream):
    name = f"via-{upstream_name}-plain"
    compacted = client().responses.compact(model=name, input=CONVERSATION, instructions="Be brief.")
    assert (compacted.object, [item.type for item in compacted.output]) == ("response.compaction", ["message", "compaction"])
    check_next(name, compacted.output, upstream)


@pytest.mark.parametrize("upstream_name", UPSTREAMS)
def test_trigger(upstream_name, upstream):
    name = f"via-{upstream_name}-plain"
    items = [*CONVERSATION, {"type": "compaction_trigger"}]
    with client().responses.stream(model=name, input=items, store=False) as events:
        kinds = [event.type for event in events]
        response = events.get_final_response()
    assert kinds[-3:] == ["response.output_item.added", "response.output_item.done", "response.completed"]
    assert [item.type for item in response.output] == ["compaction"]
    check_next(name, response.output, upstream)


def test_input_tokens():
    def count(text):
        counted = client().responses.input_tokens.count(model="via-chat-plain", input=text)
        assert counted.object == "response.input_tokens"
        return counted.input_tokens

    assert count("one") < 20 < 1000 < count("word " * 1000)
