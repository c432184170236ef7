"""Clients that disconnect, and upstreams that fail or are silent: what happens to the connections, and in each SDK."""

import asyncio
import json
import urllib.request

import openai
import pytest
from sdk import CLIENTS, SETTINGS, STAND, TIMEOUT, client, model

HELLO = [{"role": "user", "content": "Hello"}]
ENDLESS = {"model": "endless", "messages": HELLO}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def leave_openai():
    with client().chat.completions.create(**ENDLESS, stream=True) as chunks:
        next(iter(chunks))


def leave_openai_helper():
    with client().chat.completions.stream(**ENDLESS) as events:
        next(iter(events))


def leave_langchain():
    chunks = model(ENDLESS).stream(HELLO)
    next(chunks)
    chunks.close()


@pytest.mark.parametrize("leave", [leave_openai, leave_openai_helper, leave_langchain])
def test_client_disconnect_cancels_the_upstream_request(leave, upstream):
    before = upstream.seen("endless")["left"]
    leave()
    upstream.until("endless", left=before + 1, open=0)


@pytest.mark.parametrize("scenario", ["endless", "silent"])
@pytest.mark.parametrize("stream", [False, True])
def test_cancelled_task_cancels_the_upstream_request(scenario, stream, upstream):
    """At any stage, even before the response: `silent` never responds."""
    before = upstream.seen(scenario)["left"]

    async def ask(asking):
        answer = await asking.chat.completions.create(model=scenario, messages=HELLO, stream=stream)
        async for _ in answer:
            pass

    async def leave():
        async with openai.AsyncOpenAI(**SETTINGS) as asking:
            task = asyncio.create_task(ask(asking))
            await asyncio.to_thread(upstream.until, scenario, open=1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(leave())
    upstream.until(scenario, left=before + 1, open=0)


def test_metrics_count_client_disconnects(upstream):
    before = metric("toolwire_client_disconnects_total")
    leave_openai()
    upstream.until("endless", open=0)
    assert metric("toolwire_client_disconnects_total") == before + 1
    assert metric("toolwire_streams_in_flight") == 0


def metric(name):
    with urllib.request.urlopen(STAND["metrics"]) as response:
        lines = response.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    ("scenario", "text"),
    [("dies-in-text", "It is eight"), ("dies-in-call", ""), ("dies-in-written-call", ""), ("reset", None)],
)
def test_upstream_disconnect_is_an_error(name, scenario, text):
    request = {"model": scenario, "messages": HELLO, "tools": [WEATHER]}
    answer = CLIENTS[name].stream(request)
    assert answer.error is not None, f"half an answer looks like a whole one: {answer}"
    assert text in (None, answer.text)
    if CLIENTS[name].whole:
        answer = CLIENTS[name].whole(request)
        assert answer.error.status_code == 502


@pytest.mark.parametrize("name", CLIENTS)
def test_keep_alive_comments_are_invisible_to_clients(name):
    answer = CLIENTS[name].stream({"model": "slow", "messages": HELLO})
    assert (answer.text, answer.finish, answer.error) == ("slow but sure", "stop", None)


def test_keep_alive_comments_are_sent_before_and_during_the_response():
    headers = {"authorization": f"Bearer {STAND['key']}", "content-type": "application/json"}
    body = json.dumps({"model": "slow", "messages": HELLO, "stream": True}).encode()
    request = urllib.request.Request(f"{STAND['url']}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        lines = response.read().split(b"\n")
    comments = [number for number, line in enumerate(lines) if line.startswith(b":")]
    first = next(number for number, line in enumerate(lines) if line.startswith(b"data:"))
    assert comments[0] < first < comments[-1]
