"""A client's connection with HTTP/2, for one request. `curl` speaks it, since Python's library does not."""

import asyncio
import json

from http1 import Broken


class Http2Connection:
    """Has the methods of `http1.Connection`."""

    def __init__(self, certificate):
        self.certificate, self.port, self.process = certificate, None, None

    async def open(self, port, receive_buffer=None):
        self.close()
        self.port = port

    def close(self, reset=False):
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
        self.process = None

    async def send(self, method, path, key, body=None):
        command = ["curl", "--silent", "--no-buffer", "--http2", "--cacert", self.certificate, "--dump-header", "-"]
        command += ["--request", method, "--header", f"authorization: Bearer {key}", "--header", "expect:"]
        command += ["--header", "content-type: application/json", "--data-binary", "@-"]
        command.append(f"https://localhost:{self.port}{path}")
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        self.process.stdin.write(json.dumps(body).encode() if body is not None else b"")
        self.process.stdin.close()
        try:
            lines = (await self.process.stdout.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        except asyncio.IncompleteReadError as error:
            raise Broken("closed before the head") from error
        if not lines[0].startswith("HTTP/2 "):
            raise ValueError(f"not HTTP/2: {lines[0]}")
        return int(lines[0].split(" ")[1]), dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)

    async def data(self, headers):
        process = self.process
        while piece := await process.stdout.read(1 << 16):
            yield piece
        if await process.wait() != 0:
            raise Broken(f"curl ended with {process.returncode}")
