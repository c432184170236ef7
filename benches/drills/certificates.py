"""Certificates with any dates, made by `openssl`."""

import subprocess
import time

CONFIGURATION = """\
[ca]
default_ca = own
[own]
new_certs_dir = {folder}
database = {folder}/index
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
[server]
subjectAltName = IP:127.0.0.1
"""


class Authority:
    """Signs certificates for 127.0.0.1."""

    def __init__(self, folder):
        self.folder, self.certificate = folder, folder / "authority.pem"
        folder.mkdir()
        (folder / "index").touch()
        (folder / "openssl.cnf").write_text(CONFIGURATION.format(folder=folder))
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650", "-subj",
                     "/CN=drills", "-keyout", folder / "authority.key", "-out", self.certificate)
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout",
                     folder / "server.key", "-out", folder / "server.csr")

    @staticmethod
    def openssl(*arguments):
        ran = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
        if ran.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]}: {ran.stderr}")

    def signed(self, path, expires_in):
        """Writes a certificate that expires in so many seconds, or did before now, and its key to the same file."""
        day = lambda seconds: time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
        config, made = self.folder / "openssl.cnf", self.folder / "made.pem"
        self.openssl("ca", "-config", config, "-batch", "-notext", "-keyfile", self.folder / "authority.key", "-cert",
                     self.certificate, "-in", self.folder / "server.csr", "-out", made, "-extensions", "server", "-startdate",
                     day(min(0, expires_in) - 86400), "-enddate", day(expires_in))
        whole = made.read_text() + (self.folder / "server.key").read_text()
        # Replaced as a whole, as certificate managers do.
        fresh = path.with_suffix(".new")
        fresh.write_text(whole)
        fresh.replace(path)
