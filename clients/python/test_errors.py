"""The SDKs raise toolwire's own errors, and upstream errors that it forwards, as the right classes."""

import openai
import pytest
from sdk import CLIENTS, client

HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "list_files", "parameters": {"type": "object", "properties": {}}}}


def ask(**request):
    options = {"model": "verbatim", "messages": HELLO} | request
    return client().chat.completions.create(**options)


def raised(error, **request):
    with pytest.raises(error) as raising:
        ask(**request)
    return raising.value


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "kind", "status"),
    [
        ("lumo-unauthorized", openai.AuthenticationError, 401),
        # Not the client's fault: toolwire requested the wrong path.
        ("lumo-not-found", openai.InternalServerError, 502),
        ("lumo-limit", openai.RateLimitError, 429),
        ("chat-bad-request", openai.BadRequestError, 400),
        ("chat-overloaded", openai.InternalServerError, 503),
        ("server-error", openai.InternalServerError, 500),
        ("html", openai.InternalServerError, 502),
        ("v1-context", openai.BadRequestError, 400),
    ],
)
def test_upstream_error_keeps_its_status_and_code(model, kind, status, stream):
    error = raised(kind, model=model, stream=stream)
    assert error.status_code == status
    assert error.message
    assert error.request_id


def test_retry_after_is_forwarded():
    assert raised(openai.RateLimitError, model="lumo-limit").response.headers["retry-after"] == "9"
    assert raised(openai.InternalServerError, model="chat-overloaded").response.headers["retry-after"] == "3"


@pytest.mark.parametrize("key", ["sk-wrong", "sk-client", "sk-clientsx"])
def test_wrong_key_is_rejected(key):
    with pytest.raises(openai.AuthenticationError) as raising:
        client(api_key=key).chat.completions.create(model="verbatim", messages=HELLO)
    assert raising.value.code == "invalid_api_key"
    assert key not in str(raising.value)


def test_unknown_model_error_names_the_model():
    error = raised(openai.NotFoundError, model="nonesuch")
    assert (error.code, error.param) == ("model_not_found", "model")
    assert "nonesuch" in error.message


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "Hello"}, "messages"),
        ({"messages": [{"content": "Hello"}]}, "messages[0].role"),
        ({"messages": [*HELLO, {"role": "tool", "content": "18"}]}, "messages[1].tool_call_id"),
        ({"tools": [TOOL, {"type": "function", "function": {}}]}, "tools[1].function.name"),
        ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
        ({"model": "loop-hermes", "tools": [TOOL], "n": 2}, "n"),
    ],
)
def test_bad_request_error_names_the_parameter(request_, param):
    error = raised(openai.BadRequestError, **request_)
    assert error.param == param
    assert error.type == "invalid_request_error"


def test_models_are_listed():
    names = {model.id for model in client().models.list()}
    assert {"canonical", "v1-text", "loop-native"} <= names
    assert client().models.retrieve("canonical").id == "canonical"
    with pytest.raises(openai.NotFoundError):
        client().models.retrieve("nonesuch")


@pytest.mark.parametrize("name", ["openai", "langchain"])
def test_sdk_retries_see_the_status(name, upstream):
    """The SDKs retry automatically on some statuses."""
    before = upstream.seen("flaky")["count"]
    request = {"model": "flaky", "messages": HELLO}
    assert CLIENTS[name].whole(request).error is not None
    assert client(max_retries=2).chat.completions.create(**request).choices[0].message.content == "Here again."
    assert upstream.seen("flaky")["count"] - before == 3
