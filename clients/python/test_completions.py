"""openai's `completions`: prompts as text, towards upstreams of every dialect."""

import openai
import pytest
from sdk import STAND, client

TEXT = "Grüße vom Upstream: ✓ 日本語 🌍, and a \\ \" ' <b>."
COUNTS = {"include_usage": True}


def ask(model, **members):
    return client().completions.create(model=model, prompt="Hello", **members)


@pytest.mark.parametrize("upstream_name", STAND["upstreams"])
@pytest.mark.parametrize("stream", [True, False])
def test_text(upstream_name, stream):
    answer = ask(f"via-{upstream_name}-plain", **({"stream": True, "stream_options": COUNTS} if stream else {}))
    parts = list(answer) if stream else [answer]
    assert {part.object for part in parts} == {"text_completion"} and len({part.id for part in parts}) == 1
    choices = [choice for part in parts for choice in part.choices]
    assert "".join(choice.text for choice in choices) == TEXT
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    if upstream_name != "lumo-v1":
        assert parts[-1].usage.completion_tokens > 0


@pytest.mark.parametrize("upstream_name", STAND["upstreams"])
@pytest.mark.parametrize("stream", [True, False])
def test_reasoning_is_beside_the_text(upstream_name, stream):
    answer = ask(f"via-{upstream_name}-reasoned", stream=stream)
    choices = [choice for part in (answer if stream else [answer]) for choice in part.choices]
    assert "".join(choice.text for choice in choices) == TEXT
    assert any(getattr(choice, "reasoning_content", None) for choice in choices)


@pytest.mark.parametrize("scenario", ["fails-late", "cut-text"])
@pytest.mark.parametrize("stream", [True, False])
def test_broken_answers_are_errors(scenario, stream):
    with pytest.raises(openai.APIError):
        list(ask(f"via-chat-{scenario}", stream=stream))


def test_prompt_is_a_message(upstream):
    ask("via-chat-plain", stop=["\n"], temperature=0.5)
    sent = upstream.seen("plain")["requests"][-1]
    assert sent["messages"] == [{"role": "user", "content": "Hello"}]
    assert (sent["stop"], sent["temperature"]) == (["\n"], 0.5)


def test_members_that_are_left_out_are_named():
    answer = client().completions.with_raw_response.create(model="via-chat-plain", prompt="Hello", logprobs=3, best_of=2)
    assert answer.headers["x-toolwire-left-out"] == "best_of, logprobs"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"n": 2}, "n"),
        ({"suffix": "."}, "suffix"),
        ({"echo": True}, "echo"),
        ({"extra_body": {"tools": [{"type": "function", "function": {"name": "f"}}]}}, "tools"),
    ],
)
def test_refusals_name_the_member(members, param):
    with pytest.raises(openai.BadRequestError) as error:
        client().completions.create(**{"model": "via-chat-plain", "prompt": "Hello"} | members)
    assert error.value.param == param and error.value.type == "invalid_request_error"


def test_unknown_model_and_wrong_key():
    with pytest.raises(openai.NotFoundError) as error:
        ask("nonesuch")
    assert error.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        client(api_key="wrong").completions.create(model="via-chat-plain", prompt="Hello")
