#!/usr/bin/env python3
"""One upstream process. It serves every dialect on one port, at one token per tick. `run` kills it and starts it again.

    upstream.py PORT NUMBER PACE [FOLDER]

It speaks TLS with the certificate in FOLDER, if that is given.

GET /ledger returns what it has done since it was started.
"""

import asyncio
import json
import resource
import socket
import struct
import sys
from pathlib import Path

import answers
import certificates
from dialects import KNOWN

PORT, NUMBER, PACE = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
TLS = certificates.serving(Path(sys.argv[4])) if len(sys.argv) > 4 else None
# `open` are answers in progress, `left` those that toolwire broke off, and `faulty` requests that lack something.
LEDGER = {"whole": 0, "calls": 0, "failed": 0, "left": 0, "open": 0, "faulty": 0, "untagged": 0}
FAULTY = []


async def serve(reader, writer):
    try:
        while await exchange(reader, writer):
            pass
    except (OSError, asyncio.IncompleteReadError, ValueError):
        pass
    finally:
        writer.close()


async def exchange(reader, writer):
    """Handles one request. Returns whether the connection stays open."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    length = next((int(one.split(":")[1]) for one in head if one.lower().startswith("content-length:")), 0)
    body = await reader.readexactly(length)
    if path == "/ledger":
        return await plain(writer, 200, LEDGER | {"wrong": FAULTY[:5]})
    dialect = KNOWN.get(path.split("/")[1])
    answer = answers.requested(body)
    if method != "POST" or dialect is None or answer is None:
        LEDGER["untagged"] += method == "POST"
        return await plain(writer, 404, {"error": {"message": "soak: there is nothing"}})
    number, wrong = answers.turn_of(answer, body)
    if wrong:
        LEDGER["faulty"] += 1
        FAULTY.append(f"{path} {answer.tag} {wrong}: {body.decode(errors='replace')[:4000]}")
        return await plain(writer, 418, dialect.refusal(418) | {"wrong": wrong})
    LEDGER["open"] += 1
    try:
        return await respond(writer, dialect, answer, number)
    except OSError:
        LEDGER["left"] += 1
        raise
    finally:
        LEDGER["open"] -= 1


async def plain(writer, status, value):
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} Soak\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return True


async def respond(writer, dialect, answer, number):
    turn = answers.turns(answer)[number]
    fails = answers.fails_in(answer, number, NUMBER)
    if fails is not None and answer.fate in answers.STATUSES:
        LEDGER["failed"] += 1
        return await plain(writer, answer.fate, dialect.refusal(answer.fate))
    begin, middle, end = dialect.frames(answer, number, turn)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {dialect.content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(head.encode() + b"".join(map(chunk, begin)))
    for frame in middle if fails is None else middle[:fails]:
        if answer.kind != "large":
            await asyncio.sleep(1 / PACE)
        writer.write(chunk(frame))
        await writer.drain()
        if writer.transport.is_closing():
            raise ConnectionError
    if fails is None:
        writer.write(chunk(b"".join(end)) + b"0\r\n\r\n")
        await writer.drain()
        LEDGER["whole"] += 1
        LEDGER["calls"] += len(turn.calls)
        return True
    LEDGER["failed"] += 1
    return await fail(writer, dialect, answer.fate)


async def fail(writer, dialect, fate):
    if fate == "rst":
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
        return False
    if fate == "fin":
        return False
    writer.write((chunk(dialect.error()) if fate == "err" else b"") + b"0\r\n\r\n")
    await writer.drain()
    return True


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


async def main():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    server = await asyncio.start_server(serve, "127.0.0.1", PORT, limit=1 << 20, backlog=4096, ssl=TLS)
    await server.serve_forever()


asyncio.run(main())
