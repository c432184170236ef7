"""Writes a conversation as a request of one of the client APIs.

Turns are ("user", text), ("said", text), ("call", id, name, arguments as text) and ("result", id, text); tools are triples of name,
description and JSON Schema. `choice` is "auto" or "required".
"""

import json

FINISHED = {"chat": "tool_calls", "messages": "tool_use", "responses": "completed"}


def request(api, model, tools, turns, stream=True, choice="auto"):
    return WRITERS[api](model, tools, turns, choice) | {"stream": stream}


def chat(model, tools, turns, choice):
    function = lambda name, text, schema: {"name": name, "description": text, "parameters": schema}
    tools = [{"type": "function", "function": function(*tool)} for tool in tools]
    return {"model": model, "messages": chat_messages(turns), "tools": tools, "tool_choice": choice}


def chat_messages(turns):
    messages = []
    for kind, *rest in turns:
        last = messages[-1] if messages else {}
        if kind == "user":
            messages.append({"role": "user", "content": rest[0]})
        elif kind == "result":
            messages.append({"role": "tool", "tool_call_id": rest[0], "content": rest[1]})
        else:
            if last.get("role") != "assistant":
                last = {"role": "assistant", "content": None}
                messages.append(last)
            if kind == "said":
                last["content"] = rest[0]
            else:
                id, name, arguments = rest
                call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
                last.setdefault("tool_calls", []).append(call)
    return messages


def messages(model, tools, turns, choice):
    tools = [{"name": name, "description": text, "input_schema": schema} for name, text, schema in tools]
    choice = {"type": "any" if choice == "required" else "auto"}
    history = []
    for kind, *rest in turns:
        role = "assistant" if kind in ("said", "call") else "user"
        if not history or history[-1]["role"] != role:
            history.append({"role": role, "content": []})
        if kind == "call":
            id, name, arguments = rest
            block = {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
        elif kind == "result":
            block = {"type": "tool_result", "tool_use_id": rest[0], "content": rest[1]}
        else:
            block = {"type": "text", "text": rest[0]}
        history[-1]["content"].append(block)
    return {"model": model, "max_tokens": 4096, "messages": history, "tools": tools, "tool_choice": choice}


def responses(model, tools, turns, choice):
    function = lambda name, text, schema: {"name": name, "description": text, "parameters": schema}
    tools = [{"type": "function", "strict": False} | function(*tool) for tool in tools]
    items = []
    for kind, *rest in turns:
        if kind == "user":
            items.append({"role": "user", "content": rest[0]})
        elif kind == "said":
            items.append({"role": "assistant", "content": rest[0]})
        elif kind == "call":
            items.append({"type": "function_call", "call_id": rest[0], "name": rest[1], "arguments": rest[2]})
        else:
            items.append({"type": "function_call_output", "call_id": rest[0], "output": rest[1]})
    return {"model": model, "input": items, "tools": tools, "tool_choice": choice, "store": False}


WRITERS = {"chat": chat, "messages": messages, "responses": responses}
