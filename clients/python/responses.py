"""Clients of OpenAI Responses: openai, event by event, with its `.stream()` helper, and over a WebSocket."""

import json
from contextlib import contextmanager

import openai
from sdk import Answer, client


def as_responses(request):
    """Converts a Chat Completions request to a Responses request."""
    items = []
    for message in request["messages"]:
        if message["role"] == "tool":
            result = {"call_id": message["tool_call_id"], "output": message["content"]}
            items.append({"type": "function_call_output"} | result)
            continue
        if message.get("content"):
            items.append({"role": message["role"], "content": message["content"]})
        for call in message.get("tool_calls", []):
            items.append({"type": "function_call", "call_id": call["id"]} | call["function"])
    made = {"model": request["model"], "input": items, "store": False}
    if "tools" in request:
        made["tools"] = [{"type": "function", "strict": False} | tool["function"] for tool in request["tools"]]
    return made


def answer_of(response):
    answer = Answer(finish="stop")
    for item in response.output:
        if item.type == "message":
            answer.text += "".join(part.text for part in item.content if part.type == "output_text")
        elif item.type == "reasoning":
            parts = item.summary or item.content or []
            answer.reasoning += "".join(part.text for part in parts)
        elif item.type == "function_call":
            answer.calls.append({"id": item.call_id, "name": item.name, "arguments": item.arguments})
    if response.status == "incomplete":
        answer.finish = {"max_output_tokens": "length"}.get(response.incomplete_details.reason, "content_filter")
    elif answer.calls:
        answer.finish = "tool_calls"
    if response.usage:
        answer.usage = {"prompt_tokens": response.usage.input_tokens, "completion_tokens": response.usage.output_tokens}
    return answer


class Responses:
    """openai, iterating over the events."""

    sees = {"text", "reasoning", "calls", "usage"}
    sees_errors_as = {"status", "message"}

    def stream(self, request):
        text, arguments, final = "", {}, None
        try:
            with self._events(request) as events:
                for number, event in enumerate(events):
                    if event.type == "error" and self._refusal(event):
                        return Answer(error=self._refusal(event))
                    assert event.sequence_number == number, "sequence numbers count the events"
                    if event.type == "response.output_text.delta":
                        text += event.delta
                    elif event.type == "response.function_call_arguments.delta":
                        arguments[event.item_id] = arguments.get(event.item_id, "") + event.delta
                    elif event.type in ("response.completed", "response.incomplete"):
                        final = event.response
                    elif event.type == "response.failed":
                        return Answer(text=text, error=RuntimeError(event.response.error.message))
                    elif event.type == "error":
                        return Answer(text=text, error=RuntimeError(event.message))
        except openai.APIError as error:
            return Answer(text=text, error=error)
        if final is None:
            return Answer(text=text, finish="cut without a word")
        answer = answer_of(final)
        assert text == answer.text, "the deltas and the final response differ"
        done = [call["arguments"] for call in answer.calls]
        assert list(arguments.values()) == done, "the deltas and the final calls differ"
        return answer

    def _events(self, request):
        return client().responses.create(**as_responses(request), stream=True)

    def _refusal(self, _event):
        """Returns the error that takes the place of a response."""

    def whole(self, request):
        try:
            response = client().responses.create(**as_responses(request))
        except openai.APIError as error:
            return Answer(error=error)
        if response.status == "failed":
            return Answer(error=RuntimeError(response.error.message))
        return answer_of(response)

    def leave(self, request):
        with self._events(request) as events:
            next(event for event in events if event.type == "response.output_text.delta")


class Refusal(RuntimeError):
    """An error event with the status of an HTTP response."""

    def __init__(self, event):
        super().__init__(event.error.message)
        self.status_code = event.status


class ResponsesSocket(Responses):
    """openai's `responses.connect()`, a connection for each response."""

    whole = None

    @contextmanager
    def _events(self, request):
        with client().responses.connect() as connection:
            connection.response.create(**as_responses(request))
            yield until_the_end(connection)

    def _refusal(self, event):
        return Refusal(event) if event.status else None


def until_the_end(connection):
    for event in connection:
        yield event
        if event.type in ("response.completed", "response.incomplete", "response.failed") or getattr(event, "status", None):
            return


class ResponsesHelper(Responses):
    """openai's `.stream()` helper, which assembles the response itself."""

    whole = None

    def stream(self, request):
        text, final = "", None
        try:
            with client().responses.stream(**as_responses(request)) as events:
                for event in events:
                    if event.type == "response.output_text.delta":
                        text += event.delta
                    # After this event, the helper provides no final response.
                    if event.type == "response.incomplete":
                        final = event.response
                answer = answer_of(final or events.get_final_response())
        except (openai.APIError, RuntimeError) as error:
            # The helper raises a RuntimeError if the response does not complete.
            return Answer(text=text, error=error)
        assert text == answer.text, "the helper's events and its response differ"
        return answer

    def leave(self, request):
        with client().responses.stream(**as_responses(request)) as events:
            next(event for event in events if event.type == "response.output_text.delta")
