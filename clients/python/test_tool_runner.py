"""The tool runner and the threads of anthropic's SDK, with default settings. toolwire holds the conversation, so that each request
has only what is new, and the upstream gets all of it."""

import anthropic
import pytest
from messages import client
from sdk import STAND
from test_loop import QUESTION, RESULT, check_told


def tool(cities):
    """The tool, which appends its arguments to `cities`."""

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Current weather of a city."""
        cities.append(city)
        return RESULT

    return get_weather


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", STAND["loops"])
def test_tool_runner(name, stream, upstream):
    cities = []
    messages = [{"role": "user", "content": QUESTION}]
    runner = client().beta.messages.tool_runner(
        model=name, max_tokens=500, messages=messages, tools=[tool(cities)], stream=stream
    )
    message = runner.until_done()
    [block] = message.content
    assert (block.text, message.stop_reason, cities) == ("It is 18 °C.", "end_turn", ["Paris"])
    check_told(upstream)


@pytest.mark.parametrize("name", ["loop-native", "loop-hermes", "loop-messages"])
def test_thread_is_continued_and_found_again_by_the_whole_conversation(name, upstream):
    def thread():
        # Without threads, or if one is not found twice, the SDK raises.
        return client().beta.messages.thread(model=name, max_tokens=500, tools=[tool([])])

    def look(thread):
        message = thread.send({"role": "user", "content": QUESTION})
        assert thread.previous_message_id == message.id
        return [block for block in message.content if block.type == "tool_use"]

    def tell(thread, call):
        result = {"type": "tool_result", "tool_use_id": call.id, "content": RESULT}
        message = thread.send({"role": "user", "content": [result]})
        assert message.content[0].text == "It is 18 °C."
        check_told(upstream)
        return message

    held = thread()
    [call] = look(held)
    assert tell(held, call).id == held.previous_message_id
    # A message that has been deleted is not found, and the SDK sends the whole conversation.
    lost = thread()
    [call] = look(lost)
    client().delete(f"/v1/messages/{lost.previous_message_id}", cast_to=object)
    with pytest.raises(anthropic.NotFoundError):
        client().delete(f"/v1/messages/{lost.previous_message_id}", cast_to=object)
    tell(lost, call)
