"""Writes the scripted upstream's non-streaming responses."""

import json

import answers
from answers import FAILURE, INPUT_TOKENS, OUTPUT_TOKENS, Answer


class Whole(Answer):
    """Collects what a scenario writes, for a single JSON response. `dialect` is the class that would write the stream."""

    def __init__(self, dialect, *arguments, **options):
        super().__init__(*arguments, **options)
        self.dialect = dialect
        self.texts, self.thoughts, self.made = "", "", []

    def begin(self):
        pass

    def text(self, *texts):
        self.texts += "".join(texts)

    def reasoning(self, *texts):
        self.thoughts += "".join(texts)

    def call(self, name, arguments):
        self.made.append((f"call_up{self.number}x{len(self.made)}", name, arguments))

    def finish(self, reason):
        body = json.dumps(BODIES[self.dialect](self, reason)).encode()
        self._respond(b"200 OK", body, len(body))

    def fail(self):
        body = json.dumps({"error": {"message": FAILURE, "type": "server_error", "code": "broken"}}).encode()
        self._respond(b"500 Broken", body, len(body))

    def cut(self):
        """Sends only half of the response's body."""
        self._respond(b"200 OK", b'{"id": "up", "choices": [{"mess', 1000)

    def error_body(self, status):
        return self.dialect.error_body(self, status)

    def _respond(self, status, body, length):
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\nconnection: close\r\n" % status
        self.send(head + b"content-length: %d\r\n\r\n%s" % (length, body))


def chat(answer, reason):
    message = {"role": "assistant", "content": answer.texts or None}
    if answer.thoughts:
        message["reasoning_content"] = answer.thoughts
    if answer.made:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in answer.made
        ]
    counts = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
    return {
        "id": "chatcmpl-up",
        "object": "chat.completion",
        "created": 1712000000,
        "model": "up",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": counts | {"total_tokens": INPUT_TOKENS + OUTPUT_TOKENS},
    }


def messages(answer, reason):
    blocks = []
    if answer.thoughts:
        blocks.append({"type": "thinking", "thinking": answer.thoughts, "signature": "c2lnbmF0dXJl"})
    if answer.texts:
        blocks.append({"type": "text", "text": answer.texts})
    blocks += [
        {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
        for id, name, arguments in answer.made
    ]
    reasons = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    head = {"id": "msg_up", "type": "message", "role": "assistant", "model": "up", "content": blocks}
    return head | {"stop_reason": reasons[reason], "stop_sequence": None, "usage": usage}


def responses(answer, reason):
    output = []
    if answer.thoughts:
        summary = [{"type": "summary_text", "text": answer.thoughts}]
        output.append({"id": "rs_up", "type": "reasoning", "summary": summary})
    if answer.texts:
        content = [{"type": "output_text", "text": answer.texts, "annotations": []}]
        message = {"id": "msg_up", "type": "message", "role": "assistant", "status": "completed"}
        output.append(message | {"content": content})
    output += [
        {"id": f"fc_{id}", "type": "function_call", "status": "completed", "call_id": id, "name": name, "arguments": arguments}
        for id, name, arguments in answer.made
    ]
    is_cut = reason == "length"
    counts = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    return {
        "id": "resp_up",
        "object": "response",
        "created_at": 1712000000,
        "model": "up",
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "error": None,
        "output": output,
        "usage": counts | {"total_tokens": INPUT_TOKENS + OUTPUT_TOKENS},
    }


def gemini(answer, reason):
    parts = [{"text": answer.thoughts, "thought": True}] if answer.thoughts else []
    parts += [{"text": answer.texts}] if answer.texts else []
    parts += [{"functionCall": {"name": name, "args": json.loads(arguments)}} for _, name, arguments in answer.made]
    finish = "MAX_TOKENS" if reason == "length" else "STOP"
    counts = {"promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS}
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": finish}
    usage = counts | {"totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "up", "responseId": "up"}


def interactions(answer, reason):
    def text(text):
        return [{"type": "text", "text": text}]

    steps = [{"type": "thought", "signature": "c2ln", "summary": text(answer.thoughts)}] if answer.thoughts else []
    steps += [{"type": "model_output", "content": text(answer.texts)}] if answer.texts else []
    steps += [
        {"type": "function_call", "id": id, "name": name, "arguments": json.loads(arguments)}
        for id, name, arguments in answer.made
    ]
    status = {"stop": "completed", "tool_calls": "requires_action", "length": "incomplete"}[reason]
    usage = {"total_input_tokens": INPUT_TOKENS, "total_output_tokens": OUTPUT_TOKENS}
    return {"id": "v1_up", "object": "interaction", "status": status, "model": "up", "steps": steps, "usage": usage}


def bedrock(answer, reason):
    thought = {"text": answer.thoughts, "signature": "c2ln"}
    content = [{"reasoningContent": {"reasoningText": thought}}] if answer.thoughts else []
    content += [{"text": answer.texts}] if answer.texts else []
    content += [
        {"toolUse": {"toolUseId": id, "name": name, "input": json.loads(arguments)}} for id, name, arguments in answer.made
    ]
    usage = {"inputTokens": INPUT_TOKENS, "outputTokens": OUTPUT_TOKENS, "totalTokens": INPUT_TOKENS + OUTPUT_TOKENS}
    message = {"role": "assistant", "content": content}
    return {"output": {"message": message}, "stopReason": answers.BEDROCK_REASONS[reason], "usage": usage}


def ollama(answer, reason):
    message = {"role": "assistant", "content": answer.texts}
    if answer.thoughts:
        message["thinking"] = answer.thoughts
    if answer.made:
        message["tool_calls"] = [
            {"function": {"name": name, "arguments": json.loads(arguments)}} for _, name, arguments in answer.made
        ]
    counts = {"prompt_eval_count": INPUT_TOKENS, "eval_count": OUTPUT_TOKENS}
    done = {"done": True, "done_reason": "length" if reason == "length" else "stop"}
    return {"model": "up", "created_at": "2026-11-23T00:00:00.000000Z", "message": message} | done | counts


BODIES = {
    answers.Chat: chat,
    answers.Messages: messages,
    answers.Responses: responses,
    answers.Gemini: gemini,
    answers.Interactions: interactions,
    answers.Bedrock: bedrock,
    answers.Ollama: ollama,
}


def is_wanted(dialect, path, request):
    """Whether a request in `dialect` asks for a non-streaming response."""
    if dialect is answers.Gemini:
        return not path.split("?")[0].endswith(":streamGenerateContent")
    if dialect is answers.Bedrock:
        return path.endswith("/converse")
    return dialect in BODIES and not request.get("stream", dialect is answers.Ollama)
