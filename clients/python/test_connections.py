"""Clients that leave, upstreams that die, silences: what becomes of the connections, and what each SDK makes of it."""

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
def test_a_client_that_leaves_takes_the_upstream_with_it(leave, upstream):
    before = upstream.seen("endless")["left"]
    leave()
    upstream.until("endless", left=before + 1, open=0)


@pytest.mark.parametrize("scenario", ["endless", "silent"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_task_that_is_cancelled_takes_the_upstream_with_it(scenario, stream, upstream):
    """At whatever point: `silent` has not answered yet."""
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


def test_the_metrics_tell_of_clients_that_left(upstream):
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
def test_an_upstream_that_dies_is_an_error(name, scenario, text):
    request = {"model": scenario, "messages": HELLO, "tools": [WEATHER]}
    answer = CLIENTS[name].stream(request)
    assert answer.error is not None, f"half an answer looks like a whole one: {answer}"
    assert text in (None, answer.text)
    if CLIENTS[name].whole:
        answer = CLIENTS[name].whole(request)
        assert answer.error.status_code == 502


@pytest.mark.parametrize("name", CLIENTS)
def test_silence_is_bridged_with_comments_that_no_client_sees(name):
    answer = CLIENTS[name].stream({"model": "slow", "messages": HELLO})
    assert (answer.text, answer.finish, answer.error) == ("slow but sure", "stop", None)


def test_silence_is_bridged_before_the_answer_and_in_it():
    headers = {"authorization": f"Bearer {STAND['key']}", "content-type": "application/json"}
    body = json.dumps({"model": "slow", "messages": HELLO, "stream": True}).encode()
    request = urllib.request.Request(f"{STAND['url']}/chat/completions", body, headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        lines = response.read().split(b"\n")
    comments = [number for number, line in enumerate(lines) if line.startswith(b":")]
    first = next(number for number, line in enumerate(lines) if line.startswith(b"data:"))
    assert comments[0] < first < comments[-1]
