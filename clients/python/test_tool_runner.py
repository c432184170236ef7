"""The tool runner of anthropic's SDK, with its default settings. It asks for a thread first, a conversation that the server holds.
toolwire has none, and says so in the words that make the runner send the whole conversation."""

import anthropic
import pytest
from messages import client
from sdk import STAND
from test_loop import QUESTION, RESULT, check_told

# An upstream of Messages gets `thread` as it is: it may hold threads itself, which the stand's does not.
MODELS = [name for name in STAND["loops"] if name != "loop-messages"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_tool_runner(name, stream, upstream):
    cities = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Current weather of a city."""
        cities.append(city)
        return RESULT

    messages = [{"role": "user", "content": QUESTION}]
    runner = client().beta.messages.tool_runner(
        model=name, max_tokens=500, messages=messages, tools=[get_weather], stream=stream
    )
    message = runner.until_done()
    [block] = message.content
    assert (block.text, message.stop_reason, cities) == ("It is 18 °C.", "end_turn", ["Paris"])
    check_told(upstream)


def test_a_thread_is_an_error_unless_it_may_go_on_without_one():
    def send(**settings):
        thread = client().beta.messages.thread(model=MODELS[0], max_tokens=500, **settings)
        return thread.send({"role": "user", "content": QUESTION})

    with pytest.raises(anthropic.BadRequestError, match="thread"):
        send()
    assert send(unsupported_request_behavior="continue_unthreaded").type == "message"
