"""Converts the responses of three APIs to the same form: status, text, reasoning, calls, finish, error, usage, warn."""

import json


def events(data):
    """Parses an event stream into pairs of name and data."""
    found = []
    for block in data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n"):
        name, lines = None, []
        for line in block.split("\n"):
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                lines.append(line[5:].lstrip(" "))
        if lines:
            found.append((name, "\n".join(lines)))
    return found


def read(api, status, data, stream):
    got = {"status": status, "text": "", "reasoning": "", "calls": [], "finish": None, "error": None, "usage": None}
    got["bytes"] = data
    if status != 200:
        try:
            got["error"] = json.loads(data)
        except ValueError:
            got["error"] = data.decode("utf-8", "replace")
        return got
    if stream:
        parts = [json.loads(part) for _, part in events(data) if part != "[DONE]"]
        STREAMS[api](got, parts)
    else:
        WHOLE[api](got, json.loads(data))
    return got


def chat_message(got, message):
    got["text"] += message.get("content") or ""
    got["reasoning"] += message.get("reasoning_content") or message.get("reasoning") or ""


def chat_whole(got, body):
    choice = body["choices"][0]
    chat_message(got, choice["message"])
    for call in choice["message"].get("tool_calls") or []:
        function = call.get("function") or {}
        custom = call.get("custom") or {}
        got["calls"].append(
            (call["id"], function.get("name") or custom.get("name"), function.get("arguments") or custom.get("input"))
        )
    got.update(finish=choice["finish_reason"], usage=body.get("usage"), warn=body.get("toolwire"))


def chat_stream(got, chunks):
    calls = {}
    for chunk in chunks:
        got["error"] = chunk.get("error") or got["error"]
        got["usage"] = chunk.get("usage") or got["usage"]
        got["warn"] = chunk.get("toolwire") or got.get("warn")
        for choice in chunk.get("choices", []):
            delta = choice.get("delta", {})
            chat_message(got, delta)
            for part in delta.get("tool_calls") or []:
                call = calls.setdefault(part["index"], ["", "", ""])
                function = part.get("function") or {}
                for place, piece in enumerate((part.get("id"), function.get("name"), function.get("arguments"))):
                    call[place] += piece or ""
            got["finish"] = choice.get("finish_reason") or got["finish"]
    got["calls"] = [tuple(calls[index]) for index in sorted(calls)]


def messages_blocks(got, blocks):
    for block, arguments in blocks:
        if block["type"] == "text":
            got["text"] += block["text"]
        elif block["type"] == "thinking":
            got["reasoning"] += block["thinking"]
        elif block["type"] == "tool_use":
            got["calls"].append((block["id"], block["name"], arguments or json.dumps(block["input"])))


def messages_whole(got, body):
    messages_blocks(got, [(block, None) for block in body["content"]])
    got.update(finish=body["stop_reason"], usage=body["usage"], warn=body.get("toolwire"))


def messages_stream(got, parts):
    blocks = {}
    for part in parts:
        kind = part["type"]
        if kind == "content_block_start":
            blocks[part["index"]] = [dict(part["content_block"]), ""]
        elif kind == "content_block_delta":
            block, delta = blocks[part["index"]], part["delta"]
            if delta["type"] == "input_json_delta":
                block[1] += delta["partial_json"]
            for field in ("text", "thinking"):
                if delta["type"] == field + "_delta":
                    block[0][field] += delta[field]
        elif kind == "message_delta":
            got.update(finish=part["delta"]["stop_reason"], usage=part["usage"], warn=part.get("toolwire"))
        elif kind == "error":
            got["error"] = part["error"]
    messages_blocks(got, [blocks[index] for index in sorted(blocks)])


def responses_whole(got, body):
    got.update(finish=body["status"], usage=body.get("usage"), error=body.get("error") or got["error"])
    got["warn"] = (body.get("metadata") or {}).get("toolwire_warnings")
    for item in body["output"]:
        if item["type"] == "message":
            got["text"] += "".join(part.get("text") or part.get("refusal") or "" for part in item["content"])
        elif item["type"] == "reasoning":
            parts = (item.get("summary") or []) + (item.get("content") or [])
            got["reasoning"] += "".join(part["text"] for part in parts)
        elif item["type"] == "function_call":
            got["calls"].append((item["call_id"], item["name"], item["arguments"]))
        elif item["type"] == "custom_tool_call":
            got["calls"].append((item["call_id"], item["name"], "CUSTOM:" + item["input"]))


def responses_stream(got, parts):
    for part in parts:
        if part["type"] == "error":
            got["error"] = part
        if part["type"] in ("response.completed", "response.incomplete", "response.failed"):
            responses_whole(got, part["response"])


WHOLE = {"chat": chat_whole, "messages": messages_whole, "responses": responses_whole}
STREAMS = {"chat": chat_stream, "messages": messages_stream, "responses": responses_stream}
