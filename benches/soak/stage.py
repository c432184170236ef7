"""The processes of a run: toolwire, the upstreams, and a store if the run has its own."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import certificates
import configuration
from http1 import Broken, asked
from options import HERE


def free_ports(count):
    taken = [socket.socket() for _ in range(count)]
    for one in taken:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


class Stage:
    def __init__(self, args, folder):
        self.args, self.folder, self.began = args, folder, time.monotonic()
        self.port, self.store_port, *self.upstream_ports = free_ports(2 + configuration.PROCESSES)
        self.upstreams, self.toolwire, self.redis = [None] * configuration.PROCESSES, None, None
        self.tls = None
        self.has_store_process = args.store == "redis"
        self.store = f"redis://127.0.0.1:{self.store_port}" if self.has_store_process else args.store

    async def start(self):
        (self.folder / "state").mkdir(mode=0o700)
        if not self.args.plain:
            certificates.made(self.folder)
            self.tls = certificates.trusting(self.folder)
        if self.has_store_process:
            await self.start_store()
        for process in range(configuration.PROCESSES):
            await self.start_upstream(process)
        self.configure(0)
        log = open(self.folder / "toolwire.log", "wb")
        command = [self.args.toolwire, "serve", "--config", self.folder / "toolwire.toml", "--log-level", "warn"]
        self.toolwire = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        await self.listens(self.port, self.toolwire)

    async def listens(self, port, process, limit=30):
        end = time.monotonic() + limit
        while time.monotonic() < end and process.poll() is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(0.1)
        log = self.folder / "toolwire.log"
        raise RuntimeError(f"nothing listens on port {port}\n" + (log.read_text() if log.exists() else ""))

    def configure(self, variant):
        configuration.written(self.folder, self.port, self.upstream_ports, self.store, self.tls is not None, variant)

    def reload(self):
        os.kill(self.toolwire.pid, signal.SIGHUP)

    async def start_upstream(self, process):
        port = self.upstream_ports[process]
        log = open(self.folder / f"upstream-{process}.log", "ab")
        command = [sys.executable, HERE / "upstream.py", str(port), str(process), str(self.args.pace)]
        if self.tls_of(process):
            command.append(self.folder)
        self.upstreams[process] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        await self.listens(port, self.upstreams[process])

    def kill_upstream(self, process):
        self.upstreams[process].kill()
        self.upstreams[process].wait()

    async def start_store(self):
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if program is None:
            raise RuntimeError("--store redis needs redis-server or valkey-server (apt-get install redis-server)")
        log = open(self.folder / "store.log", "ab")
        command = [program, "--port", str(self.store_port), "--bind", "127.0.0.1", "--dir", self.folder]
        command += ["--appendonly", "yes", "--appendfsync", "always"]
        self.redis = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        await self.listens(self.store_port, self.redis)

    async def restart_store(self, pause):
        self.redis.kill()
        self.redis.wait()
        await asyncio.sleep(pause)
        await self.start_store()

    def tls_of(self, process):
        """Returns the TLS settings for requests to this upstream. `None` if it does not speak TLS."""
        return self.tls if process == configuration.WITH_TLS else None

    async def ledgers(self):
        ports = enumerate(self.upstream_ports)
        return [await asked(port, "/ledger", tls=self.tls_of(process)) for process, port in ports]

    async def asked(self, path, key="none"):
        """Returns the status and the body of a small request to toolwire. A machine that stands still for seconds may break
        a connection, so there are three attempts."""
        for _ in range(2):
            try:
                return await asked(self.port, path, key, tls=self.tls)
            except (Broken, OSError):
                await asyncio.sleep(1)
        return await asked(self.port, path, key, tls=self.tls)

    def stop(self):
        """Ends all processes. Returns the exit status of toolwire, which gets time to shut down by itself."""
        for process in self.upstreams + [self.redis]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        if self.toolwire is None:
            return None
        self.toolwire.terminate()
        try:
            return self.toolwire.wait(30)
        except subprocess.TimeoutExpired:
            self.toolwire.kill()
            self.toolwire.wait()
            return "killed"
