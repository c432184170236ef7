"""Lists the types in the SDKs' own definitions, and makes one instance of each.

A type is found in a union of the SDK, such as all input items of Responses, or as a member of a request. An instance has all
members, one alternative of each, and texts of its own, so that a test can see where they go.
"""

import importlib
import inspect
import re
import types
from typing import Annotated, Literal, Union, get_args, get_origin

import typing_extensions

# The unions and classes to read: dialect, kind, the package's module, and the name in it. A name with `[]` is the type of the
# elements, and a name after a dot that of a member.
ROOTS = [
    ("chat", "member", "openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming"),
    ("chat", "message", "openai.types.chat", "ChatCompletionMessageParam"),
    ("chat", "message member", "openai.types.chat", "ChatCompletionAssistantMessageParam"),
    ("chat", "part", "openai.types.chat", "ChatCompletionContentPartParam"),
    ("chat", "part", "openai.types.chat.chat_completion_assistant_message_param", "ContentArrayOfContentPart"),
    ("chat", "call", "openai.types.chat", "ChatCompletionMessageToolCallUnionParam"),
    ("chat", "tool", "openai.types.chat", "ChatCompletionToolUnionParam"),
    ("chat", "tool choice", "openai.types.chat", "ChatCompletionToolChoiceOptionParam"),
    ("chat", "response format", "openai.types.chat.completion_create_params", "ResponseFormat"),
    ("chat", "chunk member", "openai.types.chat", "ChatCompletionChunk"),
    ("chat", "choice member", "openai.types.chat.chat_completion_chunk", "Choice"),
    ("chat", "delta member", "openai.types.chat.chat_completion_chunk", "ChoiceDelta"),
    ("responses", "member", "openai.types.responses.response_create_params", "ResponseCreateParamsStreaming"),
    ("responses", "item", "openai.types.responses", "ResponseInputItemParam"),
    ("responses", "part", "openai.types.responses", "ResponseInputContentParam"),
    ("responses", "part", "openai.types.responses.response_output_message_param", "Content"),
    ("responses", "part of a result", "openai.types.responses", "ResponseFunctionCallOutputItemParam"),
    ("responses", "tool", "openai.types.responses", "ToolParam"),
    ("responses", "tool choice", "openai.types.responses.response_create_params", "ToolChoice"),
    ("responses", "text format", "openai.types.responses", "ResponseFormatTextConfigParam"),
    ("responses", "output item", "openai.types.responses", "ResponseOutputItem"),
    ("responses", "annotation", "openai.types.responses.response_output_text", "Annotation"),
    ("responses", "event", "openai.types.responses", "ResponseStreamEvent"),
    ("messages", "member", "anthropic.types.beta.message_create_params", "MessageCreateParamsStreaming"),
    ("messages", "block", "anthropic.types.beta", "BetaContentBlockParam"),
    ("messages", "block of a result", "anthropic.types.beta.beta_tool_result_block_param", "Content"),
    ("messages", "image source", "anthropic.types.beta.beta_image_block_param", "Source"),
    ("messages", "document source", "anthropic.types.beta.beta_request_document_block_param", "Source"),
    ("messages", "tool", "anthropic.types.beta", "BetaToolUnionParam"),
    ("messages", "tool choice", "anthropic.types.beta", "BetaToolChoiceParam"),
    ("messages", "thinking", "anthropic.types.beta", "BetaThinkingConfigParam"),
    ("messages", "citation", "anthropic.types.beta", "BetaTextCitationParam"),
    ("messages", "output block", "anthropic.types.beta", "BetaContentBlock"),
    ("messages", "delta", "anthropic.types.beta", "BetaRawContentBlockDelta"),
    ("messages", "event", "anthropic.types.beta", "BetaRawMessageStreamEvent"),
    ("gemini", "part member", "google.genai.types", "Part"),
    ("gemini", "tool member", "google.genai.types", "Tool"),
    ("gemini", "config member", "google.genai.types", "GenerateContentConfig"),
    ("gemini", "candidate member", "google.genai.types", "Candidate"),
    ("mcp", "tool member", "mcp_types", "Tool"),
    ("mcp", "annotation of a tool", "mcp_types", "ToolAnnotations"),
    ("mcp", "list member", "mcp_types", "ListToolsResult"),
    ("mcp", "result member", "mcp_types", "CallToolResult"),
    ("mcp", "result type", "mcp_types._types", "_CoreResultType"),
    ("mcp", "content", "mcp_types", "ContentBlock"),
    ("mcp", "text resource member", "mcp_types", "TextResourceContents"),
    ("mcp", "binary resource member", "mcp_types", "BlobResourceContents"),
    ("mcp", "request of the server", "mcp_types", "ServerRequest"),
    ("mcp", "notification of the server", "mcp_types", "ServerNotification"),
    ("mcp", "request of the client", "mcp_types", "ClientRequest"),
    ("mcp", "notification of the client", "mcp_types", "ClientNotification"),
]

# The modules whose headers are listed, by dialect.
HEADERS = {
    "chat": ["openai._client", "openai._base_client", "openai.resources.chat.completions.completions"],
    "responses": [
        "openai._client",
        "openai._base_client",
        "openai.resources.responses.responses",
        "openai.types.beta.response_create_params",
    ],
    "messages": ["anthropic._client", "anthropic._base_client", "anthropic.resources.beta.messages.messages"],
    "gemini": ["google.genai._api_client"],
}
HEADER = re.compile(r"""["']((?:x|anthropic|openai|retry|request|content|user|idempotency)(?:-[a-z]+)+|authorization)["']""", re.I)

# Headers that the SDKs of HTTP APIs send only if their users name them.
ON_REQUEST = ["idempotency-key", "openai-beta"]

# Members that belong to the SDK rather than to the request.
OF_THE_SDK = {"betas", "user_profile_id", "workspace_id", "httpOptions", "shouldReturnHttpResponse"}

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJcOkw7zDtsOfCjIgMCBvYmoKZW5kb2JqCg=="
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}

# Values of members that must have a form of their own.
FORMS = {
    "call_id": "call_1",
    "tool_use_id": "use_1",
    "tool_call_id": "call_1",
    "approval_request_id": "id_1",
    "arguments": '{"a":"arguments_text_0"}',
    "partial_json": '{"a":"arguments_text_0"}',
    "input_schema": SCHEMA,
    "parameters": SCHEMA,
    "schema": SCHEMA,
    "output_schema": SCHEMA,
    "file_data": f"data:application/pdf;base64,{PDF}",
    "encrypted_content": "encrypted_text",
    "max_tokens": 100,
    "n": 1,
    "top_p": 0.5,
    "role": "user",
    "image_url": f"data:image/png;base64,{PNG}",
}


class Instances:
    """Makes instances of types, with texts that no other member of the instance has."""

    def __init__(self):
        self.made = 0

    def of(self, kind, key="", path=()):
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (Annotated, typing_extensions.Required, typing_extensions.NotRequired):
            return self.of(arguments[0], key, path)
        if key in FORMS and not (is_record(kind) or origin is Literal or is_list(kind)):
            if not any(is_record(one) for one in arguments):
                return FORMS[key]
        if origin is Literal:
            return arguments[0]
        if origin in (Union, types.UnionType):
            return self.of(preferred(arguments, path), key, path)
        if is_list(kind):
            element = arguments[0] if arguments else str
            value = self.of(element, key, path)
            return [] if value is None else [value]
        if is_record(kind):
            return None if kind in path else self.record(kind, key, path)
        if origin is dict or kind is dict:
            return {"key": self.of(arguments[1], key, path) if arguments else self.text(key)}
        if kind is bool:
            return True
        if kind is int:
            return 1
        if kind is float:
            return 0.5
        if kind is type(None):
            return None
        if inspect.isclass(kind) and issubclass(kind, str) and hasattr(kind, "__members__"):
            return list(kind)[-1].value
        return self.text(key)

    def text(self, key):
        self.made += 1
        if key == "id" or key.endswith("_id"):
            return f"{key}_1"
        if key.endswith(("url", "uri", "source")):
            return f"https://example.com/{key}_{self.made}"
        return f"{key}_text_{self.made}"

    def record(self, kind, key, path):
        made = {}
        for name, member in hints(kind).items():
            value = self.of(member, name, (*path, kind))
            if value is not None and value != []:
                made[name] = value
        if "AllowedTools" in kind.__name__ or "ToolChoiceAllowed" in kind.__name__:
            allowed = {"name": "name_text_1"}
            made["tools"] = [{"type": "function", **(allowed if "type" in made else {"function": allowed})}]
        if "data" in made:
            of_type = {"application/pdf": PDF, "image/jpeg": PNG, "wav": PDF}
            made["data"] = of_type.get(made.get("media_type", made.get("format")), made["data"])
        if made.get("media_type") == "image/jpeg":
            made["media_type"] = "image/png"
        return made


def hints(kind):
    """The members of a record, by their names on the wire."""
    if hasattr(kind, "model_fields"):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    return typing_extensions.get_type_hints(kind, include_extras=True)


def is_record(kind):
    return typing_extensions.is_typeddict(kind) or inspect.isclass(kind) and hasattr(kind, "model_fields")


def is_list(kind):
    origin = get_origin(kind)
    return origin is not None and inspect.isclass(origin) and origin is not dict and origin is not Literal and (
        origin is list or getattr(origin, "__name__", "") in ("Iterable", "Sequence", "SequenceNotStr", "List")
    )


def preferred(alternatives, path):
    """The alternative of which an instance is made: a record that is not an error, then a list, then the first."""
    alternatives = [one for one in alternatives if one is not type(None) and "Error" not in getattr(one, "__name__", "")]
    for wanted in (is_record, is_list):
        for one in alternatives:
            bare = get_args(one)[0] if get_origin(one) is Annotated else one
            if wanted(bare) and bare not in path:
                return one
    return alternatives[0] if alternatives else type(None)


def alternatives(kind):
    """The records and literals that a union consists of."""
    origin = get_origin(kind)
    if origin is Annotated:
        return alternatives(get_args(kind)[0])
    if origin in (Union, types.UnionType) or is_list(kind):
        return [found for one in get_args(kind) for found in alternatives(one)]
    if origin is Literal:
        return list(get_args(kind))
    return [kind] if is_record(kind) else []


# The members that tell the records of a union apart.
KEYS = ("type", "role", "method")


def name_of(record):
    """The values of the member that tells the records of a union apart."""
    members = hints(record)
    for key in KEYS:
        if key in members:
            kind = members[key]
            while get_origin(kind) in (Annotated, typing_extensions.Required, typing_extensions.NotRequired):
                kind = get_args(kind)[0]
            values = [value for value in flat_literals(kind)]
            if values:
                return values
    return []


def flat_literals(kind):
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [value for one in get_args(kind) for value in flat_literals(one)]


def listed():
    """All types: dialect, kind, name and an instance."""
    found = {}
    for dialect, kind, module, name in ROOTS:
        value = getattr(importlib.import_module(module), name)
        entries = found.setdefault(dialect, {}).setdefault(kind, {})
        if kind.endswith(("member", "of a tool")):
            for key, member in hints(value).items():
                if key not in OF_THE_SDK:
                    entries.setdefault(key, Instances().of(member, key))
            continue
        for one in alternatives(value):
            if isinstance(one, str):
                entries.setdefault(one, one)
                continue
            for literal in name_of(one):
                made = Instances().of(one)
                for key in KEYS:
                    if key in hints(one):
                        made[key] = literal
                        break
                entries.setdefault(literal, made)
    for dialect, modules in HEADERS.items():
        others = {"chat": ON_REQUEST, "responses": ON_REQUEST, "messages": ON_REQUEST[:1], "gemini": []}[dialect]
        found[dialect]["header"] = dict.fromkeys(sorted({*headers_in(modules), *others}))
    return found


def headers_in(modules):
    found = set()
    for module in modules:
        for match in HEADER.finditer(inspect.getsource(importlib.import_module(module))):
            found.add(match[1].lower())
    return found
