"""A client's connection: one request at a time, with control over how it reads and how it ends."""

import asyncio
import json
import socket
import struct
import time


# Seconds after which a handshake has taken so long that toolwire may have given it up, which it does after ten. Only a
# machine that has too much to do is so slow.
HANDSHAKE = 8


class Broken(Exception):
    """The connection ended before the response did."""


class Connection:
    def __init__(self, tls=None):
        self.tls, self.reader, self.writer = tls, None, None

    async def open(self, port, receive_buffer=None):
        if self.writer is not None and not self.reader.at_eof() and receive_buffer is None:
            return
        for _ in range(3):
            began = time.monotonic()
            await self.connect(port, receive_buffer)
            if time.monotonic() - began < HANDSHAKE:
                return

    async def connect(self, port, receive_buffer):
        self.close()
        taken = socket.socket()
        taken.setblocking(False)
        if receive_buffer:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(taken, ("127.0.0.1", port))
            self.reader, self.writer = await asyncio.open_connection(
                sock=taken, limit=receive_buffer or 1 << 16, ssl=self.tls,
                server_hostname="localhost" if self.tls else None)
        except OSError:
            taken.close()
            raise

    def close(self, reset=False):
        if self.writer is None:
            return
        # A connection that is already lost has no socket.
        taken = self.writer.get_extra_info("socket")
        if reset and taken is not None and taken.fileno() >= 0:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        self.reader = self.writer = None

    async def send(self, method, path, key, body=None):
        """Sends a request and returns the response's status and headers."""
        data = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\nhost: soak\r\nauthorization: Bearer {key}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        try:
            self.writer.write(head.encode() + data)
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Broken(str(error)) from error
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        return int(lines[0].split(" ")[1]), headers

    async def data(self, headers):
        """Yields the pieces of a body. Ends when the body does, and raises if the connection ends before that."""
        try:
            if "content-length" in headers:
                yield await self.reader.readexactly(int(headers["content-length"]))
            elif headers.get("transfer-encoding") == "chunked":
                while True:
                    size = int(await self.reader.readuntil(b"\r\n"), 16)
                    while size > 0:
                        piece = await self.reader.read(min(size, 1 << 16))
                        if not piece:
                            raise Broken("closed within a chunk")
                        size -= len(piece)
                        yield piece
                        if size == 0:
                            break
                    else:
                        await self.reader.readexactly(2)
                        return
                    await self.reader.readexactly(2)
            else:
                raise Broken("a body without framing")
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Broken(str(error) or "closed") from error
        if headers.get("connection") == "close":
            self.close()


async def asked(port, path, key="none", method="GET", tls=None):
    """Returns the status and the body of a small request on its own connection."""
    connection = Connection(tls)
    await connection.open(port)
    try:
        status, headers = await connection.send(method, path, key)
        body = b"".join([piece async for piece in connection.data(headers)])
        return status, body
    finally:
        connection.close()


def frames(buffer):
    """Returns the data of the complete events in `buffer` (a bytearray), and leaves the remainder in it."""
    found = []
    while (end := buffer.find(b"\n\n")) >= 0:
        data = [line[5:].strip() for line in bytes(buffer[:end]).split(b"\n") if line.startswith(b"data:")]
        del buffer[:end + 2]
        if data:
            found.append(b"\n".join(data))
    return found
