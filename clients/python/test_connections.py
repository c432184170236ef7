"""Clients that leave, upstreams that die, silences: what becomes of the connections, and what each SDK makes of it."""

import asyncio
import json
import urllib.request

import openai
import pytest
from sdk import CLIENTS, STAND, TIMEOUT, client, model

HELLO = [{"role": "user", "content": "Hello"}]
ENDLESS = {"model": "endless", "messages": HELLO}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}


def leave_openai():
    with client().chat.completions.create(**ENDLESS, stream=True) as chunks:
        next(iter(chunks))


def leave_openai_helper():
    with client().chat.completions.stream(**ENDLESS) as events:
        next(iter(events))


def leave_openai_async():
    async def leave():
        async with openai.AsyncOpenAI(base_url=STAND["url"], api_key=STAND["key"]) as asking:
            chunks = await asking.chat.completions.create(**ENDLESS, stream=True)
            task = asyncio.ensure_future(chunks.__anext__())
            await task
            task = asyncio.ensure_future(read_all(chunks))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await chunks.close()

    async def read_all(chunks):
        async for _ in chunks:
            pass

    asyncio.run(leave())


def leave_langchain():
    chunks = model(ENDLESS).stream(HELLO)
    next(chunks)
    chunks.close()


@pytest.mark.parametrize("leave", [leave_openai, leave_openai_helper, leave_openai_async, leave_langchain])
def test_a_client_that_leaves_takes_the_upstream_with_it(leave, upstream):
    before = upstream.seen("endless")["left"]
    leave()
    upstream.until("endless", left=before + 1, open=0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_before_the_answer_does_so_too(stream, upstream):
    before = upstream.seen("silent")["left"]
    with pytest.raises(openai.APITimeoutError):
        chunks = client(timeout=0.1).chat.completions.create(model="silent", messages=HELLO, stream=stream)
        # A stream has its headers by now, with a sign of life: then it is the silence between them that is too long.
        next(iter(chunks))
    upstream.until("silent", left=before + 1, open=0)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize(
    ("scenario", "text"),
    [("reset-in-text", "It is eight"), ("reset-in-call", ""), ("reset-in-written-call", "")],
)
def test_an_upstream_that_dies_is_an_error(name, scenario, text):
    request = {"model": scenario, "messages": HELLO, "tools": [WEATHER]}
    answer = CLIENTS[name].stream(request)
    assert answer.error is not None, f"half an answer looks like a whole one: {answer}"
    assert answer.text == text
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
