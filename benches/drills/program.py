"""A running toolwire, as its operator and its clients see it."""

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import time

KEY, ADMIN = "drill-key", "drill-admin"

# The longest that anything may take, in seconds. It is generous, since machines that test are busy.
PATIENCE = 30


class Broken(Exception):
    """A rule of the drill does not hold."""


def until(what, found):
    """Waits until `found` returns something true, and returns that."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.05)
    raise Broken(f"{what}: not within {PATIENCE} seconds")


class Answer:
    def __init__(self, status, body):
        self.status, self.text = status, body.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.text)

    def __str__(self):
        try:
            error = self.json["error"]
            return f"{self.status} {error.get('code') or error.get('type')}: {error['message']}"
        except (ValueError, KeyError, TypeError, AttributeError):
            return f"{self.status} {self.text.strip()[:200]}"


class Program:
    """`toolwire serve` with the configuration in `folder`, which also gets the log."""

    def __init__(self, binary, folder, authority=None, environment=None, prefix=()):
        self.binary, self.folder, self.authority, self.prefix = binary, folder, authority, prefix
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWIRE_")}
        self.environment |= environment or {}
        self.log_file, self.process, self.port = folder / "toolwire.log", None, 0

    def start(self):
        begin = len(self.log)
        command = [*self.prefix, self.binary, "serve", "--config", self.folder / "toolwire.toml"]
        with open(self.log_file, "ab") as log:
            # Signals stay as Python has them: SIGXFSZ is ignored, so that writes beyond a limit only fail.
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment, start_new_session=True, restore_signals=False)
        address = re.compile(r"on https?://127\.0\.0\.1:(\d+)")
        found = until("toolwire listens", lambda: address.search(self.log, begin) or self.process.poll() is not None)
        if found is True:
            raise Broken(f"toolwire does not start: {self.log[begin:].strip()}")
        self.port = int(found[1])

    def stop(self):
        """Stops it as an operator does. Its exit status must be 0."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE)
        if status != 0:
            raise Broken(f"toolwire ends with the status {status}")

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def restart(self):
        self.stop()
        self.start()

    def command(self, *arguments):
        """Runs another command of the program with the same configuration. Returns its status and its two outputs."""
        command = [*self.prefix, self.binary, *arguments, "--config", self.folder / "toolwire.toml"]
        ran = subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=PATIENCE * 2)
        return ran.returncode, ran.stdout, ran.stderr

    @property
    def log(self):
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def connection(self, trusting=False):
        """A connection; `trusting` accepts certificates that have expired, too."""
        if self.authority:
            context = ssl._create_unverified_context() if trusting else ssl.create_default_context(cafile=self.authority)
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, key=KEY, trusting=False):
        connection = self.connection(trusting)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
            response = connection.getresponse()
            return Answer(response.status, response.read())
        finally:
            connection.close()

    def admin(self, method, path, body=None):
        return self.ask(method, f"/admin/{path}", body, ADMIN)

    def metric(self, name, labels=""):
        """Returns the sum of a metric over its labels, or of those series whose labels contain `labels`."""
        text = self.ask("GET", "/metrics", trusting=True).text
        found = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for series, value in found if labels in series)

    def used(self, name="team"):
        """Returns the requests and the tokens that a client has used in this month."""
        [client] = [client for client in self.admin("GET", "keys").json["keys"] if client["name"] == name]
        return client["used"]
