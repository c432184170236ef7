"""toolwire adapter for canitoolcall: replays fixtures through a running `toolwire serve`.

toolwire is a proxy, so nothing of it is called directly. A scripted upstream in this module sends a fixture's raw output as the
`content` of a chat completion, as a server without tool and reasoning parsers does. toolwire reads calls and reasoning from it, and
the adapter reads toolwire's response as an OpenAI client does.

    client (this module) → toolwire serve → scripted upstream (this module)

- Configuration: one upstream and one model, `"*"`, with all defaults. The model that the client names is the reference model's
  repository, from which toolwire derives the format. No setting depends on the fixture.
- Request: the fixture's tools, and its thinking mode in `chat_template_kwargs`, spelled as the model's template spells it. toolwire
  never sees the prompt.
- The upstream's finish reason is `length` for truncated fixtures, otherwise `stop`. Stop tokens are not sent: servers cut them.
- Streams: each group of ids is one SSE event with the text that the group adds, decoded with the fixture's tokenizer (an incomplete
  UTF-8 sequence waits for the next group). Without `transformers`, units are characters instead of tokens, which is stricter, since
  events may then end within a special token; `parser_config` records which.

To run it in the suite, as `canitoolcall/adapters/toolwire.py` with the entry
`"toolwire": "canitoolcall.adapters.toolwire:ToolwireAdapter"` in `ENGINES`; or without a change:

    canitoolcall run --engine canitoolcall_adapter:ToolwireAdapter --env PYTHONPATH=FOLDER

`CANITOOLCALL_TOOLWIRE_BIN` names the program; default: `toolwire` in PATH. Requires only the standard library.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from canitoolcall.adapters.base import Adapter, AdapterUnavailable, ReplayInput, Support, ToolSpec, trusts_remote_code
from canitoolcall.chunking import TokensPerStep
from canitoolcall.results import ParsedToolCall, ParseResult, StreamAccumulator

BIN_ENV = "CANITOOLCALL_TOOLWIRE_BIN"
STARTING = 60
"""How long toolwire may take to print its address, in seconds."""
THINKING_SPELLINGS = {"deepseek": "thinking", "kimi": "thinking"}
"""The templates' name for the thinking mode, by family. Others use `enable_thinking`."""


def chat_chunk(stream: bool, **choice: Any) -> dict[str, Any]:
    kind = "chat.completion.chunk" if stream else "chat.completion"
    return {"id": "c", "object": kind, "created": 1, "model": "m", "choices": [{"index": 0, **choice}]}


class _Upstream(ThreadingHTTPServer):
    """A chat server that answers with the script that the last message names."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Exchange)
        self.scripts: dict[str, tuple[Sequence[str], str]] = {}


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Upstream

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        pieces, finish = self.server.scripts[asked["messages"][-1]["content"]]
        if asked.get("stream"):
            chunks = [chat_chunk(True, delta={"content": piece}, finish_reason=None) for piece in pieces if piece]
            chunks.append(chat_chunk(True, delta={}, finish_reason=finish))
            body, kind = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n", "text/event-stream"
        else:
            message = {"role": "assistant", "content": "".join(pieces)}
            body, kind = json.dumps(chat_chunk(False, message=message, finish_reason=finish)), "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())


class ToolwireAdapter(Adapter):
    name: ClassVar[str] = "toolwire"
    pinned_version: ClassVar[str] = "0.1.0"
    supports_text_deltas: ClassVar[bool] = True
    tokens_per_step: ClassVar[TokensPerStep] = "many"
    """Upstreams may send several tokens in one event (vLLM and SGLang do)."""

    model_settings: ClassVar[str] = ""
    """Lines for `[[models]]`. None: all defaults."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        self._upstream: _Upstream | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._address = ""
        self._tokenizers: dict[tuple[str, str | None], Any] = {}

    # -- engine identity -------------------------------------------------------

    def _program(self) -> str:
        program = os.environ.get(BIN_ENV) or shutil.which("toolwire")
        if not program or not Path(program).is_file():
            raise AdapterUnavailable(f"there is no toolwire in PATH, nor at ${BIN_ENV}")
        return program

    def version(self) -> str:
        said = subprocess.run([self._program(), "--version"], capture_output=True, check=True, encoding="utf-8").stdout
        return said.split()[-1]

    def supports(self, family: str, model: str) -> Support:
        return Support(True)

    # -- the server --------------------------------------------------------------

    def configuration(self) -> str:
        port = self._upstream.server_port if self._upstream else 0
        upstream = f'[[upstreams]]\nname = "fixtures"\ndialect = "chat"\nbase_url = "http://127.0.0.1:{port}/v1"\n'
        return f'listen = "127.0.0.1:0"\n{upstream}[[models]]\nname = "*"\nupstream = "fixtures"\n{self.model_settings}'

    def _start(self) -> None:
        with self._lock:
            if self._process is not None:
                return
            self._upstream = _Upstream()
            threading.Thread(target=self._upstream.serve_forever, daemon=True).start()
            self._folder = tempfile.TemporaryDirectory(prefix="canitoolcall-toolwire-")
            file = Path(self._folder.name) / "toolwire.toml"
            file.write_text(f'state_dir = "{self._folder.name}"\n{self.configuration()}', encoding="utf-8")
            environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLWIRE_")}
            command = [self._program(), "serve", "--config", str(file)]
            self._process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
            self._address = self._printed_address(self._process)

    @staticmethod
    def _printed_address(process: subprocess.Popen[bytes]) -> str:
        """Returns the address in toolwire's log, and reads on so that the pipe never fills."""
        found: list[str] = []
        lines: list[str] = []
        done = threading.Event()

        def read() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                said = re.search(rb"on http://([0-9.:]+)", line)
                if said and not found:
                    found.append(said[1].decode())
                    done.set()
                if not found:
                    lines.append(line.decode("utf-8", "replace"))
            done.set()

        threading.Thread(target=read, daemon=True).start()
        done.wait(STARTING)
        if not found:
            process.kill()
            raise AdapterUnavailable("toolwire does not start: " + "".join(lines))
        return found[0]

    def close(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.terminate()
                self._process.wait()
                self._process = None
            if self._upstream is not None:
                self._upstream.shutdown()
                self._upstream.server_close()
            if self._folder is not None:
                self._folder.cleanup()

    # -- what the client sends ---------------------------------------------------

    def chat_template_kwargs(self, raw: ReplayInput) -> dict[str, Any]:
        """What a client of an engine sends to choose the thinking mode."""
        return {} if raw.thinking is None else {THINKING_SPELLINGS.get(raw.family, "enable_thinking"): raw.thinking}

    def parser_config(self, raw: ReplayInput) -> dict[str, Any]:
        return {
            "model": raw.model,
            "configuration": re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", self.configuration()),
            "chat_template_kwargs": self.chat_template_kwargs(raw),
            "units": "tokens" if self._tokenizer(raw) is not None else "characters",
            "finish_reason": self._finish(raw),
        }

    @staticmethod
    def _finish(raw: ReplayInput) -> str:
        return "length" if raw.truncated else "stop"

    # -- tokens ------------------------------------------------------------------

    def _tokenizer(self, raw: ReplayInput) -> Any:
        """The fixture's tokenizer, or None without `transformers` or for tokenizers of `mistral_common`."""
        pin = raw.tokenizer
        if raw.tokenizer_mode != "hf":
            return None
        repo, revision = (pin.repo, pin.revision) if pin is not None else (raw.model, raw.revision)
        if (repo, revision) not in self._tokenizers:
            try:
                from transformers import AutoTokenizer
            except ImportError:
                self._tokenizers[repo, revision] = None
            else:
                remote = trusts_remote_code(repo, revision)
                loaded = AutoTokenizer.from_pretrained(repo, revision=revision, trust_remote_code=remote)
                self._tokenizers[repo, revision] = loaded
        return self._tokenizers[repo, revision]

    def units(self, raw: ReplayInput) -> list[int]:
        tokenizer = self._tokenizer(raw)
        if tokenizer is None:
            return [ord(character) for character in raw.text]
        if raw.token_ids is not None:
            return list(raw.token_ids)
        return [int(unit) for unit in tokenizer.encode(raw.text, add_special_tokens=False)]

    def special_token_ids(self, raw: ReplayInput) -> Collection[int] | None:
        tokenizer = self._tokenizer(raw)
        if tokenizer is None:
            return None
        special = {int(unit) for unit in tokenizer.all_special_ids}
        special.update(int(unit) for unit, token in tokenizer.added_tokens_decoder.items() if token.special)
        return frozenset(special)

    def _texts(self, raw: ReplayInput, chunks: Sequence[Sequence[int]]) -> Iterator[str]:
        """The text that each group of ids adds, as incremental detokenizers send it."""
        tokenizer = self._tokenizer(raw)
        if tokenizer is None:
            yield from ("".join(map(chr, chunk)) for chunk in chunks)
            return
        ids: list[int] = []
        sent = ""
        for number, chunk in enumerate(chunks, 1):
            ids.extend(chunk)
            text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            if text.endswith("\ufffd") and number < len(chunks):
                continue
            yield text[len(sent) :]
            sent = text

    # -- replay ------------------------------------------------------------------

    def parse(self, raw: ReplayInput, tools: Sequence[ToolSpec]) -> ParseResult:
        return self._ask(raw, [raw.text], tools, stream=False)

    def parse_stream(self, raw: ReplayInput, chunks: Sequence[Sequence[int]], tools: Sequence[ToolSpec]) -> ParseResult:
        return self._ask(raw, list(self._texts(raw, chunks)), tools, stream=True)

    def parse_stream_text(self, raw: ReplayInput, deltas: Sequence[str], tools: Sequence[ToolSpec]) -> ParseResult:
        return self._ask(raw, deltas, tools, stream=True)

    def _ask(self, raw: ReplayInput, pieces: Sequence[str], tools: Sequence[ToolSpec], *, stream: bool) -> ParseResult:
        self._start()
        assert self._upstream is not None
        key = f"{raw.fixture_id} {next(self._keys)}"
        self._upstream.scripts[key] = (pieces, self._finish(raw))
        body: dict[str, Any] = {"model": raw.model, "stream": stream, "messages": [{"role": "user", "content": key}]}
        if tools:
            body["tools"] = [dict(tool) for tool in tools]
        if kwargs := self.chat_template_kwargs(raw):
            body["chat_template_kwargs"] = kwargs
        connection = http.client.HTTPConnection(self._address, timeout=60)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            status, text = response.status, response.read().decode()
        finally:
            connection.close()
            del self._upstream.scripts[key]
        if status != 200:
            return ParseResult(exception=f"HTTP {status}: {text[:300]}")
        return self._streamed(text) if stream else self._complete(json.loads(text))

    @staticmethod
    def _complete(response: dict[str, Any]) -> ParseResult:
        message = response["choices"][0]["message"]
        calls = (call["function"] for call in message.get("tool_calls") or ())
        return ParseResult(
            content=message.get("content") or None,
            reasoning_content=message.get("reasoning_content") or None,
            tool_calls=tuple(ParsedToolCall(call["name"], call["arguments"]) for call in calls),
        )

    @staticmethod
    def _streamed(text: str) -> ParseResult:
        received = StreamAccumulator()
        for line in text.split("\n"):
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[len("data: ") :])
            if "error" in event:
                return received.result(exception=f"Error: {event['error']}")
            for choice in event.get("choices") or ():
                received.add_openai_delta(choice.get("delta") or {})
        return received.result()
