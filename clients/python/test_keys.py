"""Named keys and their limits, as the SDKs see them: over TLS with a private certificate authority, with HTTP/1.1 and HTTP/2."""

import os
import re
import ssl
import subprocess
import time
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from ipaddress import ip_address

import anthropic
import httpx2
import openai
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from stand import STAND, TIMEOUT

HELLO = [{"role": "user", "content": "Hello"}]

# The clients' keys and their limits. Each test has its own client, so that its limits are unused.
KEYS = {
    "some": 'models = ["plain"]',
    "paced-openai": "requests_per_minute = 30",
    "paced-anthropic": "requests_per_minute = 30",
    "counted": "requests_per_minute = 1000\ntokens_per_minute = 100_000",
    "busy-openai": "streams = 1",
    "busy-anthropic": "streams = 1",
    "spent-openai": "tokens_per_month = 10",
    "spent-anthropic": "tokens_per_month = 10",
}


def key_of(name):
    return f"sk-of-{name}-0123456789"


class Authority:
    """A certificate authority that signs the server's certificate."""

    def __init__(self, folder):
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of these tests")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        self.pem = self.sign(self.name, self.key, constraints).public_bytes(serialization.Encoding.PEM)

    def sign(self, name, key, constraints, *extensions):
        begin = datetime.now() - timedelta(days=1)
        builder = x509.CertificateBuilder(self.name, name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(begin).not_valid_after(begin + timedelta(days=7))
        builder = builder.add_extension(constraints, critical=True)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def serve(self):
        """Writes a certificate for 127.0.0.1, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        certificate = self.sign(x509.Name([]), key, x509.BasicConstraints(ca=False, path_length=None), alternative)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self.folder / "key.pem").write_bytes(pem)
        (self.folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def trusted(self):
        return ssl.create_default_context(cadata=self.pem.decode())


def configuration(folder):
    keys = "".join(f'[[keys]]\nname = "{name}"\nkey = "{key_of(name)}"\n{rules}\n' for name, rules in KEYS.items())
    models = "".join(
        f'[[upstreams]]\nname = "{name}"\ndialect = "chat"\nbase_url = "{STAND["upstream"]}/{scenario}"\n'
        f'[[models]]\nname = "{name}"\nupstream = "{name}"\n'
        for name, scenario in {"plain": "plain", "other": "plain", "endless": "endless"}.items()
    )
    return f"""
listen = "127.0.0.1:0"
state_dir = "{folder}/state"
store = "off"
[tls]
cert = "cert.pem"
key = "file:key.pem"
{keys}{models}"""


class Served:
    """A running toolwire whose clients need keys."""

    def __init__(self, url, authority):
        self.url, self.authority = url, authority

    def http(self, http2=False, answers=None):
        """A client that trusts the authority. Appends the responses that it receives to `answers`."""
        hooks = {"response": [] if answers is None else [lambda response: answers.append((time.monotonic(), response))]}
        return httpx2.Client(verify=self.authority.trusted(), http2=http2, event_hooks=hooks)

    def openai(self, name, key=None, max_retries=0, **http):
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key=key or key_of(name), max_retries=max_retries, timeout=TIMEOUT,
            http_client=self.http(**http),
        )

    def anthropic(self, name, key=None, max_retries=0, **http):
        return anthropic.Anthropic(
            base_url=self.url, api_key=key or key_of(name), max_retries=max_retries, timeout=TIMEOUT,
            http_client=self.http(**http),
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    authority = Authority(folder)
    authority.serve()
    config, log = folder / "toolwire.toml", folder / "log"
    config.write_text(configuration(folder), "utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWIRE_")}
    with open(log, "wb") as output:
        command = [STAND["binary"], "serve", "--config", str(config)]
        process = subprocess.Popen(command, stderr=output, env=environment)
    try:
        deadline = time.monotonic() + TIMEOUT
        while not (said := re.search(rb"on (https://[0-9.:]+)", log.read_bytes())):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.02)
        yield Served(said[1].decode(), authority)
    finally:
        process.terminate()
        process.wait(TIMEOUT)


class OpenAI:
    sdk = openai
    limits = ["x-ratelimit-limit-requests", "x-ratelimit-limit-tokens"]
    remaining = "x-ratelimit-remaining-requests"
    budget = openai.RateLimitError, 429

    def client(self, served, name, **options):
        return served.openai(name, **options)

    def ask(self, client, model="plain"):
        response = client.chat.completions.with_raw_response.create(model=model, messages=HELLO, max_tokens=5)
        return response.headers, response.parse().choices[0].message.content

    def stream(self, client, model):
        return client.chat.completions.create(model=model, messages=HELLO, stream=True)


class Anthropic:
    sdk = anthropic
    limits = ["anthropic-ratelimit-requests-limit", "anthropic-ratelimit-tokens-limit"]
    remaining = "anthropic-ratelimit-requests-remaining"
    # The SDK has no specific class for 402.
    budget = anthropic.APIStatusError, 402

    def client(self, served, name, **options):
        return served.anthropic(name, **options)

    def ask(self, client, model="plain"):
        response = client.messages.with_raw_response.create(model=model, messages=HELLO, max_tokens=5)
        return response.headers, response.parse().content[0].text

    def stream(self, client, model):
        return client.messages.create(model=model, messages=HELLO, max_tokens=5, stream=True)


SDKS = pytest.mark.parametrize("sdk", [OpenAI(), Anthropic()], ids=["openai", "anthropic"])


def own(name, sdk):
    """The name of the SDK's own copy of this key."""
    return f"{name}-{sdk.sdk.__name__}"


@contextmanager
def raising(error, status):
    with pytest.raises(error) as raised:
        yield raised
    assert raised.value.status_code == status
    assert "sk-of" not in str(raised.value), "the message repeats a key"


@SDKS
@pytest.mark.parametrize(("http2", "version"), [(False, "HTTP/1.1"), (True, "HTTP/2")])
def test_key_is_accepted_over_tls(served, sdk, http2, version):
    answers = []
    with closing(sdk.client(served, "counted", http2=http2, answers=answers)) as client:
        headers, text = sdk.ask(client)
        chunks = list(sdk.stream(client, "plain"))
    assert "✓" in text and len(chunks) > 2
    assert [response.http_version for _, response in answers] == [version] * 2
    assert [headers[name] for name in sdk.limits] == ["1000", "100000"]


@SDKS
def test_authority_that_is_not_trusted_ends_the_connection(served, sdk):
    stranger = Served(served.url, Authority(served.authority.folder))
    with closing(sdk.client(stranger, "counted")) as client, pytest.raises(sdk.sdk.APIConnectionError):
        sdk.ask(client)


@SDKS
@pytest.mark.parametrize("key", ["sk-of-nobody", key_of("some")[:-1]])
def test_wrong_key_is_rejected(served, sdk, key):
    with closing(sdk.client(served, "some", key=key)) as client, raising(sdk.sdk.AuthenticationError, 401):
        sdk.ask(client)


@SDKS
def test_model_that_is_not_allowed_is_neither_served_nor_listed(served, sdk):
    with closing(sdk.client(served, "some")) as client:
        assert [model.id for model in client.models.list()] == ["plain"]
        assert "✓" in sdk.ask(client)[1]
        with raising(sdk.sdk.PermissionDeniedError, 403) as raised:
            sdk.ask(client, "other")
        assert "`some`" in str(raised.value), "it names the client"
        with raising(sdk.sdk.PermissionDeniedError, 403):
            client.models.retrieve("other")
    # Only clients that may request every model learn which models exist.
    for name, error, status in [("some", sdk.sdk.PermissionDeniedError, 403), ("counted", sdk.sdk.NotFoundError, 404)]:
        with closing(sdk.client(served, name)) as client, raising(error, status):
            sdk.ask(client, "nonesuch")


@SDKS
def test_sdk_waits_as_long_as_the_limit_of_requests_says(served, sdk):
    name, answers = own("paced", sdk), []
    with closing(sdk.client(served, name)) as client:
        with raising(sdk.sdk.RateLimitError, 429) as raised:
            # The allowance refills by one request every two seconds.
            for _ in range(200):
                assert sdk.ask(client)[0][sdk.limits[0]] == "30"
    headers = raised.value.response.headers
    assert headers[sdk.remaining] == "0"
    assert 1 <= int(headers["retry-after"]) <= 2 and 1 <= int(headers["retry-after-ms"]) <= 2000
    with closing(sdk.client(served, name, max_retries=1, answers=answers)) as client:
        assert "✓" in sdk.ask(client)[1]
    (refused, refusal), (asked_again, response) = answers
    assert (refusal.status_code, response.status_code) == (429, 200)
    assert asked_again - refused >= int(refusal.headers["retry-after-ms"]) / 1000


@SDKS
def test_limit_of_streams_holds_until_one_is_closed(served, sdk):
    name = own("busy", sdk)
    with closing(sdk.client(served, name)) as client:
        stream = sdk.stream(client, "endless")
        next(iter(stream))
        with raising(sdk.sdk.RateLimitError, 429) as raised:
            sdk.ask(client)
        assert int(raised.value.response.headers["retry-after"]) > 0
        stream.close()
        # The slot is free once toolwire has noticed the disconnect.
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                assert "✓" in sdk.ask(client)[1]
                break
            except sdk.sdk.RateLimitError:
                assert time.monotonic() < deadline
                time.sleep(0.05)


@SDKS
def test_budget_that_is_used_up_is_not_asked_for_again(served, sdk):
    name, answers = own("spent", sdk), []
    (error, status), month = sdk.budget, re.compile(r"tokens in a month.*new ones from 20\d\d-\d\d-01")
    with closing(sdk.client(served, name, max_retries=2, answers=answers)) as client:
        # A request is admitted while any budget is left. This one exceeds it.
        assert "✓" in sdk.ask(client)[1]
        with raising(error, status) as raised:
            sdk.ask(client)
    assert month.search(str(raised.value)), raised.value
    assert [response.status_code for _, response in answers] == [200, status], "the SDK has tried again"
    assert raised.value.response.headers["x-should-retry"] == "false"
