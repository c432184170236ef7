"""The clients. Each sends a request through its SDK, and returns an `Answer` with what it has received."""

import json
from functools import cache

import openai
from langchain_openai import ChatOpenAI
from stand import SETTINGS, STAND, TIMEOUT, Answer

__all__ = ["CLIENTS", "SETTINGS", "STAND", "TIMEOUT", "Answer", "client", "model"]


@cache
def client(**options):
    """A client of the openai SDK without automatic retries. Cached, since creating one takes longer than a request."""
    return openai.OpenAI(**SETTINGS | options)


class OpenAI:
    """openai, iterating over the chunks."""

    sees = {"text", "reasoning", "refusal", "calls", "results", "finish", "usage"}
    sees_errors_as = {"status", "type", "code", "message"}
    speaks_functions = True

    def stream(self, request):
        answer = Answer()
        try:
            with client().chat.completions.create(**request | {"stream": True}) as chunks:
                for chunk in chunks:
                    self._take(chunk, answer)
        except openai.APIError as error:
            answer.error = error
        return answer

    def _take(self, chunk, answer):
        if chunk.usage:
            answer.usage = chunk.usage.model_dump(exclude_unset=True)
        for choice in chunk.choices:
            answer.finish = choice.finish_reason or answer.finish
            delta = choice.delta
            answer.text += delta.content or ""
            answer.reasoning += getattr(delta, "reasoning_content", None) or ""
            answer.refusal += delta.refusal or ""
            answer.results += getattr(delta, "tool_results", None) or []
            for call in delta.tool_calls or []:
                if call.index == len(answer.calls):
                    answer.calls.append({"id": call.id, "name": call.function.name, "arguments": ""})
                answer.calls[call.index]["arguments"] += call.function.arguments or ""
            if delta.function_call:
                if delta.function_call.name:
                    answer.calls.append({"id": None, "name": delta.function_call.name, "arguments": ""})
                answer.calls[-1]["arguments"] += delta.function_call.arguments or ""

    def leave(self, request):
        with client().chat.completions.create(**request | {"stream": True}) as chunks:
            next(chunk for chunk in chunks if chunk.choices[0].delta.content)

    def whole(self, request):
        request = {key: value for key, value in request.items() if key not in ("stream", "stream_options")}
        try:
            return of_completion(client().chat.completions.create(**request))
        except openai.APIError as error:
            return Answer(error=error)


class OpenAIHelper(OpenAI):
    """openai's `.stream()` helper, which emits typed events and assembles the completion."""

    sees = {"text", "refusal", "calls", "finish", "usage"}

    def stream(self, request):
        request = {key: value for key, value in request.items() if key != "stream"}
        text, done = "", []
        try:
            with client().chat.completions.stream(**request) as events:
                for event in events:
                    if event.type == "content.delta":
                        text += event.delta
                    elif event.type == "tool_calls.function.arguments.done":
                        done.append((event.index, event.name, event.arguments))
                answer = of_completion(events.get_final_completion())
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
            # The helper raises these errors for two finish reasons.
            return of_completion(events.current_completion_snapshot)
        except openai.APIError as error:
            return Answer(text=text, error=error)
        assert text == answer.text, "the helper's events and its completion differ"
        calls = [(index, call["name"], call["arguments"]) for index, call in enumerate(answer.calls) if call["id"]]
        assert done == calls, "the helper did not say of each call, once and in order, that it is done"
        return answer

    def leave(self, request):
        with client().chat.completions.stream(**request) as events:
            next(event for event in events if event.type == "content.delta")

    # The helper only streams.
    whole = None


def of_completion(completion):
    """Converts a completion object."""
    [choice] = completion.choices
    message = choice.message
    calls = [
        {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        for call in message.tool_calls or []
    ]
    if message.function_call:
        function = message.function_call
        calls.append({"id": None, "name": function.name, "arguments": function.arguments})
    return Answer(
        text=message.content or "",
        reasoning=getattr(message, "reasoning_content", None) or "",
        refusal=message.refusal or "",
        calls=calls,
        results=getattr(message, "tool_results", None) or [],
        finish=choice.finish_reason,
        usage=completion.usage.model_dump(exclude_unset=True) if completion.usage else None,
    )


class LangChain:
    """langchain-openai: `ChatOpenAI` with `bind_tools`."""

    sees = {"text", "calls", "finish", "usage"}
    # LangChain replaces some of openai's errors with its own, which have only the message.
    sees_errors_as = {"message"}
    speaks_functions = False

    def stream(self, request):
        answer, chunks = Answer(), []
        try:
            for chunk in model(request).stream(request["messages"]):
                answer.text += chunk.text
                chunks.append(chunk)
        except openai.APIError as error:
            answer.error = error
            return answer
        # Adding them one by one would parse the arguments again each time.
        message = chunks[0] + chunks[1:]
        answer.calls = [
            {"id": call["id"], "name": call["name"], "arguments": call["args"]} for call in message.tool_call_chunks
        ]
        return self._close(answer, message)

    def whole(self, request):
        try:
            message = model(request).invoke(request["messages"])
        except openai.APIError as error:
            return Answer(error=error)
        calls = [call | {"arguments": json.dumps(call["args"])} for call in message.tool_calls]
        calls += [call | {"arguments": call["args"]} for call in message.invalid_tool_calls]
        return self._close(Answer(text=message.text, calls=calls), message)

    def leave(self, request):
        chunks = model(request).stream(request["messages"])
        next(chunk for chunk in chunks if chunk.text)
        chunks.close()

    def _close(self, answer, message):
        answer.finish = message.response_metadata.get("finish_reason")
        if usage := message.usage_metadata:
            words = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
            counts = {"input_tokens", "output_tokens", "total_tokens"}
            answer.usage = {words.get(key, key): value for key, value in usage.items() if key in counts}
        return answer


def model(request):
    """Creates a LangChain model from everything in `request` except the messages."""
    chat = ChatOpenAI(
        model=request["model"],
        stream_usage=request.get("stream_options", {}).get("include_usage", False),
        **SETTINGS,
    )
    handled = {"model", "messages", "stream", "stream_options", "tools"}
    rest = {key: value for key, value in request.items() if key not in handled}
    return chat.bind_tools(request["tools"], **rest) if "tools" in request else chat.bind(**rest)


CLIENTS = {"openai": OpenAI(), "openai-helper": OpenAIHelper(), "langchain": LangChain()}
