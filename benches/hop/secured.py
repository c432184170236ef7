"""The same targets over TLS: certificates, and an HAProxy that speaks TLS for the client and the mock.

Reader and mock support neither TLS nor HTTP/2, so that they stay as cheap as they are. HAProxy, which runs on their core, adds
both: in front of the target, it converts the reader's connections to TLS (or HTTP/2 over TLS). Behind the target, it terminates
TLS.
"""

import subprocess
from typing import NamedTuple

from options import ARGS, WORK
from processes import MOCK, free_port, start, stop, wait_for


class Mode(NamedTuple):
    # How the client reaches the target. None means plain HTTP/1.1.
    client: str | None = None
    # Whether the target reaches its upstream over TLS.
    upstream: bool = False


NO_TLS = Mode()
# By the name of the case.
MODES = {
    "client": Mode("http/1.1"),
    "upstream": Mode(upstream=True),
    "h2": Mode("h2"),
    "h2-upstream": Mode("h2", True),
}
CERT, KEY, BOTH = WORK / "cert.pem", WORK / "key.pem", WORK / "both.pem"


def certificate():
    """Creates the certificate of all servers, unless it exists."""
    if CERT.exists():
        return
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext".split()
    command += ["subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    command += ["-keyout", KEY, "-out", CERT]
    subprocess.run(command, check=True, capture_output=True)
    BOTH.write_bytes(CERT.read_bytes() + KEY.read_bytes())


class Shell:
    """TLS around one target. The client connects to `front`, and the target connects to `back`."""

    def __init__(self, mode, target, mock):
        certificate()
        self.front = free_port() if mode.client else target
        self.back = free_port() if mode.upstream else mock
        parts = [HEAD]
        if mode.client:
            parts.append(FRONT.format(listen=self.front, target=target, alpn=mode.client, ca=CERT))
        if mode.upstream:
            parts.append(BACK.format(listen=self.back, mock=mock, both=BOTH))
        self.config = WORK / f"shell-{target}.cfg"
        self.config.write_text("".join(parts))
        self.process = None

    def up(self):
        self.process = start([ARGS.haproxy, "-db", "-f", self.config], MOCK, stderr=subprocess.DEVNULL)
        wait_for(self.front)
        wait_for(self.back)

    def down(self):
        stop(self.process)


HEAD = """
global
  nbthread 1
  maxconn 9500
  ssl-server-verify none
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout connect 5s
  timeout client 600s
  timeout server 600s
"""
FRONT = """
frontend client
  bind 127.0.0.1:{listen} backlog 4096
  default_backend target
backend target
  server target 127.0.0.1:{target} ssl ca-file {ca} sni str(localhost) alpn {alpn} pool-purge-delay 120s
"""
BACK = """
frontend upstream
  bind 127.0.0.1:{listen} ssl crt {both} alpn http/1.1 backlog 4096
  default_backend mock
backend mock
  server mock 127.0.0.1:{mock} pool-purge-delay 120s
"""
