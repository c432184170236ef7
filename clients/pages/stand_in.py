"""Stands in for vLLM, llama-server and Ollama, whose command lines and addresses the pages use: stand_in.py PROGRAM ARGUMENTS…

The model knows nothing of tools: requests that declare any fail, as they do with these servers. It calls the tool that its prompt
describes in the hermes format."""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lisbon"}}\n</tool_call>'
REFUSALS = {
    "vllm": '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    "llama-server": "tools param requires --jinja flag",
    "ollama": "the model does not support tools",
}


class Handler(BaseHTTPRequestHandler):
    program, model = "", ""

    def log_message(self, *_):
        pass

    def reply(self, status, value, kind="application/json"):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        lists = {"/v1/models": {"object": "list", "data": [{"id": self.model, "object": "model"}]}}
        if self.program == "ollama":
            lists |= {"/api/version": {"version": "0.12.6"}, "/api/tags": {"models": [{"name": self.model, "model": self.model}]}}
        found = lists.get(self.path)
        self.reply(200 if found else 404, found or {})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "tools" in request:
            return self.reply(400, {"error": {"message": REFUSALS[self.program]}})
        is_taught = "<tool_call>" in json.dumps(request["messages"])
        text = CALL if is_taught and request["model"] == self.model else "I do not know."
        pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
        if self.path == "/api/chat":
            said = [{"message": {"role": "assistant", "content": piece}, "done": False} for piece in pieces]
            said.append({"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"})
            lines = [json.dumps({"model": self.model, "created_at": "2026-01-01T00:00:00Z", **line}) + "\n" for line in said]
            return self.reply(200, "".join(lines).encode(), "application/x-ndjson")
        said = [({"content": piece}, None) for piece in pieces] + [({}, "stop")]
        chunks = [{"index": 0, "delta": delta, "finish_reason": finish} for delta, finish in said]
        known = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": self.model}
        events = [f"data: {json.dumps({**known, 'choices': [chunk]})}\n\n" for chunk in chunks]
        return self.reply(200, ("".join(events) + "data: [DONE]\n\n").encode(), "text/event-stream")


def serve(program, model, ready):
    Handler.program, Handler.model = program, model
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["STAND_IN_PORT"])), Handler)
    print(ready, flush=True)
    server.serve_forever()


match sys.argv[1:]:
    case ["vllm", "serve", model]:
        serve("vllm", model, "INFO:     Application startup complete.")
    case ["llama-server", "-hf", name]:
        port = os.environ["STAND_IN_PORT"]
        model = name.rpartition("/")[2].removesuffix("-GGUF")
        serve("llama-server", model, f"main: server is listening on http://127.0.0.1:{port} - starting the main loop")
    case ["ollama", "pull", model]:
        # The service runs already.
        service = subprocess.Popen([sys.executable, __file__, "ollama serve", model], stdout=subprocess.PIPE)
        service.stdout.readline()
        print("success")
    case ["ollama serve", model]:
        serve("ollama", model, "Listening")
    case ["cargo", "run", "--release", "--", "demo"]:
        os.execvp("toolwire", ["toolwire", "demo", "--listen", os.environ["TOOLWIRE_LISTEN"]])
    case ["cargo", "run", "--release", "--", *arguments]:
        os.execvp("toolwire", ["toolwire", *arguments])
    case other:
        sys.exit(f"unexpected: {other}")
