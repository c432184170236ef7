"""The certificate of toolwire's listener and of the upstream that speaks TLS."""

import ssl
import subprocess


def made(folder):
    """Makes a certificate for this machine, which is its own authority, and its key."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    command += ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subprocess.run(command, check=True, capture_output=True)


def trusting(folder):
    """Returns the TLS settings of a client that trusts only this certificate."""
    return ssl.create_default_context(cafile=folder / "cert.pem")


def serving(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context
