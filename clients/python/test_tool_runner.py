"""The tool runner of anthropic's SDK, with its default settings. It first asks for a thread, a conversation stored on the
server. toolwire has no threads, and refuses with an error that makes the runner send the complete conversation."""

import anthropic
import pytest
from messages import client
from sdk import STAND
from test_loop import QUESTION, RESULT, check_told

# toolwire forwards `thread` to Messages upstreams, which may support threads. The scripted upstream does not.
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
