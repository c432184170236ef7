"""HTTP/1.1 with Python's own client: framing, persistent connections, and responses without a body."""

import http.client
import json
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from sdk import STAND, TIMEOUT

URL = urlsplit(STAND["url"])
PATH = f"{URL.path}/chat/completions"
HEADERS = {"authorization": f"Bearer {STAND['key']}", "content-type": "application/json"}


def body(model, stream):
    messages = [{"role": "tool", "tool_call_id": "c", "content": "18 °C"}]
    call = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    turns = [{"role": "user", "content": "Paris?"}, {"role": "assistant", "tool_calls": [call]}, *messages]
    return json.dumps({"model": model, "stream": stream, "messages": turns}).encode()


def connect(version=11):
    connection = http.client.HTTPConnection(URL.hostname, URL.port, timeout=TIMEOUT)
    connection._http_vsn = version
    connection._http_vsn_str = f"HTTP/1.{version - 10}"
    return connection


def ask(connection, stream, model="loop-native", headers=None):
    connection.request("POST", PATH, body(model, stream), HEADERS | (headers or {}))
    return connection.getresponse()


def test_one_connection_carries_every_kind_of_response():
    with closing(connect()) as connection:
        connection.connect()
        socket = connection.sock
        for _ in range(2):
            response = ask(connection, stream=True)
            assert (response.status, response.chunked, response.length) == (200, True, None)
            assert response.read().endswith(b"data: [DONE]\n\n")
            response = ask(connection, stream=False)
            assert (response.status, response.chunked) == (200, False)
            length = response.length
            assert len(response.read()) == length > 0
            response = ask(connection, stream=True, model="nobody")
            assert (response.status, response.chunked) == (404, False)
            assert json.loads(response.read())["error"]
            connection.request("HEAD", "/healthz")
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b"")
            connection.request("OPTIONS", PATH)
            response = connection.getresponse()
            assert (response.status, response.getheader("content-length"), response.read()) == (204, None, b"")
            assert response.getheader("date")
            assert connection.sock is socket, "the connection was not kept"


@pytest.mark.parametrize("stream", [True, False])
def test_connection_close_is_announced_and_done(stream):
    with closing(connect()) as connection:
        connection.connect()
        # Duplicate the socket, since http.client closes its own.
        socket = connection.sock.dup()
        response = ask(connection, stream, headers={"connection": "close"})
        assert response.will_close and response.chunked == stream
        assert response.read()
        with closing(socket):
            assert socket.recv(1) == b"", "more than the response was sent"


@pytest.mark.parametrize("stream", [True, False])
def test_http10_response_is_not_chunked(stream):
    with closing(connect(version=10)) as connection:
        response = ask(connection, stream)
        assert (response.status, response.chunked, response.will_close) == (200, False, True)
        text = response.read()
        assert text.endswith(b"data: [DONE]\n\n") if stream else json.loads(text)["choices"]


def test_chunked_request_is_read():
    with closing(connect()) as connection:
        data = body("loop-native", stream=True)
        connection.request("POST", PATH, iter([data[:20], data[20:]]), HEADERS, encode_chunked=True)
        assert connection.getresponse().read().endswith(b"data: [DONE]\n\n")


def test_error_inside_a_stream_ends_the_body_in_order():
    with closing(connect()) as connection:
        response = ask(connection, stream=True, model="dies-in-text")
        text = response.read()
        assert b'"error"' in text and response.isclosed()
