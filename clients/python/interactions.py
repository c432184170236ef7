"""A client of Google's Interactions API, using Google's SDK."""

import json

from gemini import client
from google.genai import _interactions as errors
from stand import Answer

FINISHES = {"completed": "stop", "requires_action": "tool_calls", "incomplete": "length"}


def as_interaction(request):
    """Converts a Chat Completions request to the arguments of `interactions.create`."""
    steps, system = [], []
    for message in request["messages"]:
        content = message.get("content") or ""
        if message["role"] in ("system", "developer"):
            system.append(content)
        elif message["role"] == "tool":
            steps.append({"type": "function_result", "call_id": message["tool_call_id"], "result": content})
        elif message["role"] == "assistant":
            if content:
                steps.append({"type": "model_output", "content": [{"type": "text", "text": content}]})
            for call in message.get("tool_calls", []):
                function = call["function"]
                made = {"id": call["id"], "name": function["name"], "arguments": json.loads(function["arguments"])}
                steps.append({"type": "function_call", **made})
        else:
            steps.append({"type": "user_input", "content": [{"type": "text", "text": content}]})
    more = {"system_instruction": "\n".join(system)} if system else {}
    if tools := [tool["function"] for tool in request.get("tools", [])]:
        more["tools"] = [{"type": "function"} | {key: tool[key] for key in TOOL if key in tool} for tool in tools]
    return {"model": request["model"], "input": steps, "store": False, **more}


TOOL = ("name", "description", "parameters")


def end(interaction, answer):
    answer.finish = FINISHES[interaction.status]
    if usage := interaction.usage:
        output = (usage.total_output_tokens or 0) + (usage.total_thought_tokens or 0)
        answer.usage = {"prompt_tokens": usage.total_input_tokens, "completion_tokens": output}


def whole(interaction, answer):
    """Adds a complete interaction to the answer."""
    for step in interaction.steps:
        if step.type == "function_call":
            answer.calls.append({"id": step.id, "name": step.name, "arguments": json.dumps(step.arguments)})
        elif step.type == "thought":
            answer.reasoning += "".join(content.text for content in step.summary or [])
        else:
            answer.text += "".join(content.text for content in step.content if content.type == "text")
    end(interaction, answer)


class Unfinished(Exception):
    """An error within a stream, or a stream without its end, neither of which the SDK raises."""

    status_code = 502


def streamed(events, answer):
    """Adds a stream to the answer, as the steps that have ended. Returns the interaction of the last event."""
    started = {}
    for event in events:
        match event.event_type:
            case "step.start" if event.step.type == "function_call":
                started[event.index] = {"id": event.step.id, "name": event.step.name, "arguments": ""}
            case "step.delta" if event.delta.type == "arguments_delta":
                started[event.index]["arguments"] += event.delta.arguments
            case "step.delta" if event.delta.type == "text":
                answer.text += event.delta.text
            case "step.delta" if event.delta.type == "thought_summary":
                answer.reasoning += event.delta.content.text
            case "step.stop" if call := started.pop(event.index, None):
                answer.calls.append(call | {"arguments": call["arguments"] or "{}"})
            case "interaction.completed":
                end(event.interaction, answer)
                return event.interaction
            case "error":
                answer.error = Unfinished(f"{event.error.code}: {event.error.message}")
                return None
    answer.error = Unfinished("the stream has no end")
    return None


class Interactions:
    """google-genai's `interactions`: streams and non-streaming requests."""

    sees = {"text", "reasoning", "calls", "usage"}
    sees_errors_as = {"status", "message"}

    def stream(self, request):
        answer = Answer()
        try:
            streamed(client().interactions.create(stream=True, **as_interaction(request)), answer)
        except errors.APIError as error:
            answer.error = error
        return answer

    def whole(self, request):
        answer = Answer()
        try:
            whole(client().interactions.create(**as_interaction(request)), answer)
        except errors.APIError as error:
            answer.error = error
        return answer

    def leave(self, request):
        events = client().interactions.create(stream=True, **as_interaction(request))
        next(event for event in events if event.event_type == "step.delta")
        events.close()
