"""The six drills."""

import datetime
import os
import shutil
import socket
import ssl
import struct
import subprocess
import time
from pathlib import Path

from certificates import Authority
from drill import Drill
from program import Broken, until
from upstream import Upstream

HOUR, DAY = 3600, 86400


class LeftOut(Exception):
    """The machine lacks what the drill needs."""


class Disk(Drill):
    """The disk of `state_dir` is full, and has space again."""

    def play(self):
        if "DRILLS_MAY_MOUNT" not in os.environ:
            raise LeftOut("it needs `unshare --mount`")
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "drill", disk], capture_output=True, text=True)
        if mounted.returncode:
            raise LeftOut(mounted.stderr.strip())
        self.prepare(Upstream(), f'state_dir = "{disk}/state"')
        ledger, ballast = self.ledger, disk / "ballast"

        self.begins("full")
        self.fill(ballast)
        ledger.load(12, 2)
        self.served("responses and turns are kept in memory")
        self.logged("ERROR", "stored values cannot be written to disk")
        self.measured("toolwire_store_unwritten", lambda value: value > 0, "ToolwireStateUnwritten", 'file="store.redb"')
        self.measured("toolwire_store_failures_total", lambda value: value > 0, "ToolwireStoreFails")
        self.ready()
        ledger.setting()
        self.refused("admin", "500 not_saved")
        ledger.key()
        self.refused("keys add", "No space left")
        ledger.check_responses()
        self.doctor("the disk is full")

        self.begins("freed")
        ballast.unlink()
        self.logged("INFO", "stored values are written to disk again")
        self.measured("toolwire_store_unwritten", lambda value: value == 0)
        ledger.load(4, 1)
        self.served("responses and turns")
        ledger.check()
        if damaged := [path.name for path in (disk / "state").iterdir() if "damaged" in path.name]:
            raise Broken(f"files were set aside: {damaged}")
        self.program.restart()
        self.kept()

    @staticmethod
    def fill(path):
        file = os.open(path, os.O_WRONLY | os.O_CREAT)
        try:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        os.write(file, bytes(size))
                except OSError:
                    pass
        finally:
            os.close(file)

    def clean(self):
        super().clean()
        subprocess.run(["umount", self.folder / "disk"], capture_output=True)


class Damage(Drill):
    """Two of the files in `state_dir` are damaged, and one is replaced by a copy."""

    def play(self):
        self.prepare(Upstream())
        ledger, state = self.ledger, self.folder / "state"
        ledger.check()
        self.program.stop()
        shutil.copytree(state, self.folder / "copy")
        for name in ("store.redb", "usage.redb"):
            content = bytearray((state / name).read_bytes())
            content[::997] = bytes(byte ^ 0x5A for byte in content[::997])
            (state / name).write_bytes(content)

        self.begins("damaged")
        self.doctor("store.redb is damaged")
        self.program.start()
        self.logged("ERROR", "the store is damaged")
        self.measured("toolwire_store_damaged_files_total", lambda value: value == 2, "ToolwireStateDamaged")
        self.ready()
        answer = self.program.ask("GET", f"/v1/responses/{next(iter(ledger.responses))}")
        if answer.status != 404:
            raise Broken(f"a response that is lost: {answer}")
        self.sees("client", answer)
        before = dict(ledger.responses)
        ledger.responses.clear()
        ledger.load(4, 1)
        self.served("new responses and turns")
        self.kept()
        self.program.restart()
        ledger.check()

        self.begins("copy")
        self.program.stop()
        shutil.copy(self.folder / "copy/store.redb", state / "store.redb")
        self.program.start()
        # What was stored since the copy was made went to the file that it replaced.
        ledger.responses = before
        self.kept()


class Certificate(Drill):
    """The listeners' certificate expires and is renewed, then that of an upstream."""

    def play(self):
        if not shutil.which("openssl"):
            raise LeftOut("it needs openssl")
        authority = Authority(self.folder / "authority")
        own, other = self.folder / "own.pem", self.folder / "upstream.pem"
        authority.signed(own, 90 * DAY)
        authority.signed(other, DAY)
        self.prepare(
            Upstream(other), more=f'[tls]\ncert = "{own}"\nkey = "file:{own}"', authority=authority.certificate,
            of_upstream=f'tls = {{ ca = "{authority.certificate}" }}')
        ledger = self.ledger

        self.begins("expired")
        authority.signed(own, -1)
        self.logged("ERROR", "the certificate has expired")
        self.measured("toolwire_tls_certificate_expiry_seconds", lambda value: value < time.time(), "ToolwireCertificateExpires")
        try:
            self.program.ask("GET", "/readyz")
            raise Broken("a client accepts an expired certificate")
        except ssl.SSLError as error:
            self.sees("client", error)
        self.measured("toolwire_tls_handshake_failures_total", lambda value: value > 0)
        self.doctor("the certificate expired at")

        self.begins("renewed")
        authority.signed(own, 90 * DAY)
        self.logged("INFO", "the certificate was exchanged")
        ledger.load(4, 1)
        self.served("with the new certificate")
        ledger.check()

        self.begins("upstream's expired")
        authority.signed(other, -1)
        self.upstream.shows(other)
        ledger.response()
        self.refused("client", "certificate expired")
        self.measured("toolwire_upstream_errors_total", lambda value: value > 0, "ToolwireUpstreamFails", 'upstream="u"')
        self.ready()
        self.doctor("the upstream has to renew its certificate")

        self.begins("renewed")
        authority.signed(other, DAY)
        self.upstream.shows(other)
        ledger.load(4, 1)
        self.served("over TLS")
        self.program.restart()
        self.kept()


class Clock(Drill):
    """The system's clock jumps by a day and an hour, ahead and back, and the program starts with a wrong one."""

    def play(self):
        if not shutil.which("cc"):
            raise LeftOut("it needs a C compiler")
        library = self.folder / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, Path(__file__).with_name("clock.c")], check=True)
        # Jumps must not cross the end of a month by accident.
        now = datetime.datetime.now(datetime.timezone.utc)
        self.right = int(now.replace(day=15, hour=12).timestamp() - time.time())
        (self.folder / "clock").write_bytes(struct.pack("q", self.right))
        self.prepare(
            Upstream(clock_offset=self.right),
            environment={"LD_PRELOAD": str(library), "DRILL_CLOCK": str(self.folder / "clock")})
        ledger = self.ledger

        self.jumps("a day ahead", DAY, "ahead")
        ledger.load(4, 1)
        ledger.check()
        self.doctor("seconds ahead of the upstream's")
        self.jumps("right again", 0, "back")
        self.kept()
        self.jumps("an hour back", -HOUR, "back")
        ledger.load(4, 1)
        ledger.check()
        self.jumps("right again", 0, "ahead")
        self.kept()

        self.begins("next month")
        self.moved(20 * DAY)
        goes_back = ledger.month_begins()
        ledger.load(2, 0)
        ledger.check_usage()
        self.sees("client", f"a new budget; used: {self.program.used()}")
        self.moved(0)
        goes_back()
        ledger.check_usage()

        self.begins("wrong start")
        self.program.stop()
        self.moved(-400 * DAY)
        self.program.start()
        goes_back = ledger.month_begins()
        ledger.generated("/v1/responses", {"model": "m", "input": "not stored", "store": False})
        ledger.check_usage()
        self.moved(0)
        goes_back()
        self.kept()
        self.program.restart()
        ledger.check()

    def moved(self, seconds):
        with open(self.folder / "clock", "r+b") as clock:
            clock.write(struct.pack("q", self.right + seconds))

    def jumps(self, phase, seconds, direction):
        before = self.program.metric("toolwire_clock_jumps_total")
        self.begins(phase)
        self.moved(seconds)
        self.logged("WARN", f"the system's clock was set {direction}")
        self.measured("toolwire_clock_jumps_total", lambda value: value == before + 1, "ToolwireClockSet")
        self.ready()


class Redis(Drill):
    """The Redis on which instances share their state is killed and started again."""

    redis = None

    def play(self):
        self.server = shutil.which("redis-server") or shutil.which("valkey-server")
        self.client = shutil.which("redis-cli") or shutil.which("valkey-cli")
        if not self.server or not self.client:
            raise LeftOut("it needs redis-server and redis-cli")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start_server()
        self.prepare(Upstream(), f'store = "redis://127.0.0.1:{self.port}/0"', permission="allow", used=self.counted)
        ledger = self.ledger
        ledger.check()
        stored = next(iter(ledger.responses))

        self.begins("killed")
        self.redis.kill()
        self.redis.wait()
        for _ in range(4):
            ledger.response()
        ledger.turn()
        self.served("what needs nothing from the store")
        ledger.response(after=stored)
        self.refused("client", "503 store_unavailable")
        self.logged("ERROR", "the store cannot be used")
        self.measured("toolwire_store_away", lambda value: value == 1, "ToolwireStoreAway")
        self.measured("toolwire_unchecked_requests_total", lambda value: value >= 5)
        self.ready()
        ledger.permission()
        self.refused("admin", "503 store_unavailable")
        self.doctor("cannot be used")

        self.begins("started")
        self.start_server()
        self.logged("INFO", "the store can be used again")
        self.measured("toolwire_store_away", lambda value: value == 0)
        self.doctor("has no `maxmemory`")
        ledger.response(after=stored)
        self.served("a stored response is continued")
        ledger.check()
        self.program.restart()
        self.kept()

    def start_server(self):
        command = [self.server, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder]
        with open(self.folder / "redis.log", "ab") as log:
            self.redis = subprocess.Popen(
                [*command, "--appendonly", "yes", "--appendfsync", "always"], stdout=log, stderr=log, start_new_session=True)
        until("Redis answers", lambda: self.said("ping") == "PONG")

    def said(self, *command):
        asked = subprocess.run([self.client, "-p", str(self.port), "--raw", *command], capture_output=True, text=True)
        return asked.stdout.strip()

    def counted(self):
        """What the server has counted; an instance learns of its last requests with the next one."""
        words = self.said("eval", "return redis.call('hgetall', redis.call('keys', 'toolwire:limits:*:20*')[1])", "0").split()
        counts = dict(zip(words[::2], words[1::2]))
        return {name: int(counts.get(key, 0)) for name, key in
                (("requests", "requests"), ("input_tokens", "input"), ("output_tokens", "output"))}

    def clean(self):
        super().clean()
        if self.redis:
            self.redis.kill()
            self.redis.wait()


class Files(Drill):
    """Idle connections fill the table of open files, and are closed."""

    idle = ()

    def play(self):
        if not shutil.which("prlimit"):
            raise LeftOut("it needs prlimit")
        self.prepare(Upstream(), prefix=["prlimit", "--nofile=96:96"])
        ledger = self.ledger

        self.begins("full")
        self.idle = [self.connected() for _ in range(300)]
        self.logged("WARN", "Raise the limit of open files")
        self.measured("toolwire_descriptor_shortages_total", lambda value: value > 0, "ToolwireFilesRunShort")
        self.ready()
        ledger.load(8, 0, side_by_side=1)
        self.served("idle connections make room")
        self.doctor("96 files may be open")

        self.begins("freed")
        self.let_go()
        ledger.load(8, 1)
        self.served("responses and turns")
        ledger.check()
        self.program.restart()
        self.kept()

    def connected(self):
        idle = socket.socket()
        idle.settimeout(10)
        idle.connect(("127.0.0.1", self.program.port))
        return idle

    def let_go(self):
        for idle in self.idle:
            idle.close()

    def clean(self):
        self.let_go()
        super().clean()


ALL = {"disk": Disk, "damage": Damage, "certificate": Certificate, "clock": Clock, "redis": Redis, "files": Files}
