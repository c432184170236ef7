"""A client of Gemini's API, using Google's SDK."""

import json
from functools import cache

from google import genai
from google.genai import errors, types
from stand import STAND, TIMEOUT, Answer

FINISHES = {"MAX_TOKENS": "length", "SAFETY": "content_filter", "MALFORMED_FUNCTION_CALL": "tool_calls"}

# Google's SDK appends the version of the API to the base URL itself.
BASE_URL = STAND["url"].removesuffix("/v1")


@cache
def client(**options):
    """A client without automatic retries."""
    once = types.HttpRetryOptions(attempts=1)
    http = types.HttpOptions(base_url=BASE_URL, timeout=TIMEOUT * 1000, retry_options=once, **options)
    return genai.Client(api_key=STAND["key"], http_options=http)


def as_gemini(request):
    """Converts a Chat Completions request to the arguments of the SDK's methods."""
    contents, system, names = [], [], {}
    for message in request["messages"]:
        content = message.get("content") or ""
        if message["role"] in ("system", "developer"):
            system.append(content)
        elif message["role"] == "tool":
            call = message["tool_call_id"]
            response = types.FunctionResponse(id=call, name=names[call], response={"output": content})
            contents.append(types.Content(role="user", parts=[types.Part(function_response=response)]))
        elif message["role"] == "assistant":
            parts = [types.Part(text=content)] if content else []
            for call in message.get("tool_calls", []):
                names[call["id"]] = call["function"]["name"]
                args = json.loads(call["function"]["arguments"] or "{}")
                made = types.FunctionCall(id=call["id"], name=call["function"]["name"], args=args)
                parts.append(types.Part(function_call=made))
            contents.append(types.Content(role="model", parts=parts))
        else:
            contents.append(types.Content(role="user", parts=[types.Part(text=content)]))
    config = {"thinking_config": types.ThinkingConfig(include_thoughts=True)}
    if system:
        config["system_instruction"] = "\n".join(system)
    tools = [tool["function"] for tool in request.get("tools", [])]
    if tools:
        declarations = [
            types.FunctionDeclaration(
                name=tool["name"],
                description=tool.get("description", ""),
                parameters_json_schema=tool.get("parameters") or {"type": "object", "properties": {}},
            )
            for tool in tools
        ]
        config["tools"] = [types.Tool(function_declarations=declarations)]
    return {"model": request["model"], "contents": contents, "config": types.GenerateContentConfig(**config)}


def take(response, answer):
    """Adds a response, or a piece of one, to the answer."""
    [candidate] = response.candidates
    for part in candidate.content.parts:
        if part.function_call:
            call = part.function_call
            answer.calls.append({"id": call.id, "name": call.name, "arguments": json.dumps(call.args)})
        elif part.thought:
            answer.reasoning += part.text
        elif part.text:
            answer.text += part.text
    if candidate.finish_reason:
        plain = "tool_calls" if answer.calls else "stop"
        answer.finish = FINISHES.get(candidate.finish_reason.value, plain)
    if usage := response.usage_metadata:
        output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        answer.usage = {"prompt_tokens": usage.prompt_token_count, "completion_tokens": output}


class Unfinished(Exception):
    """A stream that ended without a finish reason, which the SDK for Python does not raise."""

    status_code = 502


class Failed(Exception):
    """An error of the API, with its status."""

    def __init__(self, error):
        super().__init__(str(error))
        self.status_code = error.code


class Gemini:
    """google-genai: streams and non-streaming requests."""

    sees = {"text", "reasoning", "calls", "usage"}
    sees_errors_as = {"status", "message"}

    def stream(self, request):
        answer = Answer()
        try:
            for chunk in client().models.generate_content_stream(**as_gemini(request)):
                take(chunk, answer)
        except errors.APIError as error:
            answer.error = Failed(error)
        return answer

    def whole(self, request):
        answer = Answer()
        try:
            take(client().models.generate_content(**as_gemini(request)), answer)
        except errors.APIError as error:
            answer.error = Failed(error)
        return answer

    def leave(self, request):
        chunks = client().models.generate_content_stream(**as_gemini(request))
        next(chunk for chunk in chunks if chunk.text)
        chunks.close()
