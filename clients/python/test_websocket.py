"""Responses over a WebSocket with openai's `responses.connect()`: one connection for several responses."""

import pytest
from responses import client, until_the_end
from stand import STAND

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


def last(connection):
    *_, event = until_the_end(connection)
    return event


def result_of(response):
    call = next(item for item in response.output if item.type == "function_call")
    return {"type": "function_call_output", "call_id": call.call_id, "output": "18 °C"}


@pytest.mark.parametrize("name", STAND["loops"])
def test_tool_loop_continues_responses_that_are_not_stored(name):
    asked = {"model": name, "store": False, "tools": [TOOL]}
    with client().responses.connect() as connection:
        connection.response.create(**asked, input="What is the weather in Paris?")
        first = last(connection).response
        connection.response.create(**asked, previous_response_id=first.id, input=[result_of(first)])
        second = last(connection).response
    assert (second.output_text, second.previous_response_id) == ("It is 18 °C.", first.id)


def test_streams_of_one_connection_run_side_by_side():
    asked = {"model": "loop-native", "store": False, "tools": [TOOL]}
    with client().responses.connect() as connection:
        for lane in "one", "two":
            connection.response.create(**asked, stream_id=lane, input="What is the weather in Paris?")
        ended = {}
        for event in connection:
            if event.type == "response.completed":
                ended[event.stream_id] = event.response
                if len(ended) == 2:
                    break
        connection.response.create(
            **asked, stream_id="fork", previous_response_id=ended["one"].id, input=[result_of(ended["one"])]
        )
        event = last(connection)
        assert (event.stream_id, event.response.output_text) == ("fork", "It is 18 °C.")


def test_response_without_output_is_continued():
    asked = {"model": "loop-native", "store": False, "tools": [TOOL]}
    with client().responses.connect() as connection:
        connection.response.create(**asked, generate=False, input="What is the weather in Paris?")
        empty = last(connection).response
        assert (empty.output, empty.status) == ([], "completed")
        connection.response.create(**asked, previous_response_id=empty.id, input=[])
        first = last(connection).response
        assert result_of(first)


def test_errors_have_a_status_and_the_connection_goes_on():
    with client().responses.connect() as connection:
        connection.response.create(model="loop-native", input="x", previous_response_id="resp_unknown")
        event = last(connection)
        assert (event.type, event.status, event.error.code) == ("error", 400, "previous_response_not_found")
        connection.response.create(model="no such model", input="x")
        assert (last(connection).error.code) == "model_not_found"
        connection.response.create(model="loop-native", input="What is the weather in Paris?", tools=[TOOL])
        assert last(connection).type == "response.completed"
