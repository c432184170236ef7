"""Writes the streams in this folder. Their frames are encoded by this script, which shares no code with toolwire, and
read back by botocore (1.44.8), which is what Amazon's own SDK reads them with: `pip install botocore`."""

import binascii
import json
import pathlib
import random
import string
import struct

from botocore.eventstream import EventStreamBuffer

LETTERS = string.ascii_letters + string.digits
RANDOM = random.Random(7)


def header(name, value):
    name, value = name.encode(), value.encode()
    return bytes([len(name)]) + name + b"\x07" + struct.pack(">H", len(value)) + value


def frame(headers, payload):
    headers = b"".join(header(name, value) for name, value in headers.items())
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    checked = lengths + struct.pack(">I", binascii.crc32(lengths)) + headers + payload
    return checked + struct.pack(">I", binascii.crc32(checked))


def event(kind, **members):
    """An event, padded as Bedrock pads it."""
    members["p"] = LETTERS[: RANDOM.randint(1, 40)]
    payload = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    return frame({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def delta(index, **delta):
    return event("contentBlockDelta", contentBlockIndex=index, delta=delta)


def block(index, *deltas, **start):
    first = [event("contentBlockStart", contentBlockIndex=index, start=start)] if start else []
    return first + [delta(index, **one) for one in deltas] + [event("contentBlockStop", contentBlockIndex=index)]


def end(reason, **counts):
    usage = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18, **counts}
    return [event("messageStop", stopReason=reason), event("metadata", metrics={"latencyMs": 321}, usage=usage)]


def texts(*pieces):
    return [{"text": piece} for piece in pieces]


def inputs(*pieces):
    return [{"toolUse": {"input": piece}} for piece in pieces]


def exception(kind, **members):
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps(members).encode())


BEGIN = [event("messageStart", role="assistant")]
STREAMS = {
    "text": BEGIN + block(0, *texts("Hel", "lo, ", "wörld 😀", "!\n")) + end("end_turn"),
    "calls": BEGIN
    + block(0, *texts("I look."))
    + block(
        1,
        *inputs("", '{"ci', 'ty": "Par', 'is"}'),
        toolUse={"toolUseId": "tooluse_A1", "name": "get_weather"},
    )
    + block(2, *inputs('{"city": "Rome"}'), toolUse={"toolUseId": "tooluse_B2", "name": "get_weather"})
    + block(3, *inputs(""), toolUse={"toolUseId": "tooluse_C3", "name": "now"})
    + end("tool_use"),
    "reasoning": BEGIN
    + block(
        0,
        {"reasoningContent": {"text": "Let me "}},
        {"reasoningContent": {"text": "see."}},
        {"reasoningContent": {"signature": "c2ln"}},
        {"reasoningContent": {"signature": "bmVk"}},
    )
    + block(1, {"reasoningContent": {"redactedContent": "aGlkZGVu"}})
    + block(2, *texts("42"))
    + end("end_turn", cacheReadInputTokens=100, cacheWriteInputTokens=20, totalTokens=138),
    "exception": BEGIN + [delta(0, text="Hel"), exception("throttlingException", message="Too many tokens")],
}

for name, frames in STREAMS.items():
    stream = b"".join(frames)
    buffer = EventStreamBuffer()
    buffer.add_data(stream)
    assert len(list(buffer)) == len(frames)
    pathlib.Path(__file__).with_name(f"{name}.bin").write_bytes(stream)
