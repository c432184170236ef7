"""An upstream for what fixtures cannot do: react to the request, notice a disconnect, break the connection.

The first segment of the path selects the scenario. For example, the base URL `http://…/loop` selects the tool loop, and
`http://…/loop/hermes` a tool loop with the call in this format. `GET /state/SCENARIO` returns `{"open", "left", "count", "requests"}`:
the number of open responses, of responses whose reader has disconnected, and of requests, and the bodies of the latest requests.
`GET /go/SCENARIO` lets a waiting response continue.
"""

import base64
import json
import re
import struct
import sys
import threading
from collections import Counter, defaultdict, deque
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import agent_model
import answers
import matrix
import whole
from answers import PATIENCE, Gone, turns_of

# The call to make, and its text in each format.
CITY = {"city": "Paris"}
EXAMPLES = {}


def loop(request, answer):
    """Calls the tool. Once the request contains the result, in any form, responds with text that contains the result."""
    turns = turns_of(request)
    answer.begin()
    if "18 °C" in text_of(turns[-1]):
        answer.text("It is ", "18 °C", ".")
        answer.finish("stop")
    elif answer.variant in EXAMPLES:
        call = EXAMPLES[answer.variant]
        if any("user:get_weather" in text_of(turn) for turn in turns):
            call = call.replace("get_weather", "user:get_weather")
        # Split the call inside the marker, the name and the arguments, as a tokenizer would.
        answer.text(*(call[at : at + 5] for at in range(0, len(call), 5)))
        answer.finish("stop")
    else:
        answer.call("get_weather", json.dumps(CITY))
        answer.finish("tool_calls")


def plays(request, answer):
    """Makes the calls that the user's message lists as JSON after `PLAY `, one in each response, then says what follows them."""
    turns = turns_of(request)
    # Turns before that are examples.
    [(at, found)] = [(at, found) for at, turn in enumerate(turns) if (found := PLAY.search(str(turn["content"])))]
    script, _ = json.JSONDecoder().raw_decode(found[1])
    steps = sum(turn["role"] == "assistant" for turn in turns[at:])
    answer.begin()
    if steps == len(script["calls"]):
        answer.text(script["answer"])
        answer.finish("stop")
        return
    call = script["calls"][steps]
    if answer.variant == "hermes":
        call = f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
        answer.text(*(call[at : at + 5] for at in range(0, len(call), 5)))
        answer.finish("stop")
    else:
        answer.call(call["name"], json.dumps(call["arguments"]))
        answer.finish("tool_calls")


PLAY = re.compile("PLAY (.*)")


def endless(_request, answer):
    """Sends text until the reader disconnects."""
    answer.begin()
    for number in range(PATIENCE * 20):
        answer.text(f"{number} ")
        answer.wait(0.05)


def silent(_request, answer):
    """Sends nothing, not even headers."""
    answer.wait(PATIENCE)


def slow(_request, answer):
    """Pauses for longer than the keep-alive interval, before the headers and in the middle."""
    answer.wait(1)
    answer.begin()
    answer.text("slow ")
    answer.wait(1)
    answer.text("but sure")
    answer.finish("stop")


def dies_in_text(_request, answer):
    """Closes the connection in the middle of the text, with incomplete HTTP framing."""
    answer.begin()
    answer.text("It is ", "eight")


def dies_in_call(_request, answer):
    """Closes the connection in the middle of a call's arguments."""
    answer.begin()
    answer.call("get_weather", '{"city": "Pa')


def dies_in_written_call(_request, answer):
    """Closes the connection in the middle of a call that is written as text."""
    answer.begin()
    answer.text("<tool_call>", '{"name": "get_weather", "argu', 'ments": {"city": "Pa')


def reset(_request, answer):
    """Resets the connection, which may discard what was sent before."""
    answer.begin()
    answer.text("It is ")
    answer.reset()


def halves(_request, answer):
    """Sends the first half of a call, and the second half only after the test has confirmed the first."""
    answer.begin()
    answer.call("get_weather", '{"city": "Pa')
    answer.wait_for_go()
    answer.more('ris"}')
    answer.finish("tool_calls")


def written_halves(_request, answer):
    """Does the same with a call that is written as text."""
    answer.begin()
    answer.text("<tool_call>", '{"name": "get_weather", "argu', 'ments": {"city": "Pa')
    answer.wait_for_go()
    answer.text('ris"}}', "</tool_call>")
    answer.finish("stop")


def bounce(_request, answer):
    """Calls a client tool over Lumo's own channel and without arguments. When asked again, makes a correct call."""
    answer.begin()
    if answer.number % 2 == 0:
        answer.object({"object": "chat.tool_call", "tool_call": {"id": "n1", "name": "get_weather", "arguments": "{}"}})
        answer.text("I do not have access to that.")
        answer.finish("stop")
    else:
        answer.call("get_weather", json.dumps(CITY))
        answer.finish("tool_calls")


def searches(request, answer):
    """Runs a search as Lumo does itself, before the call to the client's tool and before the response."""
    answer.begin()
    result = json.dumps({"results": [{"title": "Paris", "url": "https://weather.example/paris", "description": "mild"}]})
    search = {"id": f"s{answer.number}", "name": "web_search", "arguments": json.dumps({"query": "weather Paris"})}
    answer.object({"object": "chat.tool_call", "tool_call": search})
    answer.object({"object": "chat.tool_result", "tool_result": {"call_id": search["id"], "content": result}})
    if "18 °C" in text_of(turns_of(request)[-1]):
        answer.text("It is ", "18 °C", ".")
        answer.finish("stop")
    else:
        answer.call("get_weather", json.dumps(CITY))
        answer.finish("tool_calls")


def flaky(_request, answer):
    """Refuses two of every three requests."""
    if answer.number % 3 < 2:
        answer.refuse()
    else:
        answer.begin()
        answer.text("Here again.")
        answer.finish("stop")


def embeds(request, answer):
    """Returns embeddings in either of the API's two formats. A text's embedding is its length and its index."""
    texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
    vectors = [[float(len(text)), float(number)] for number, text in enumerate(texts)]
    if request.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack("<2f", *vector)).decode() for vector in vectors]
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    answer.json({"object": "list", "model": request["model"], "data": data, "usage": usage})


ACTS = [
    embeds,
    loop,
    endless,
    silent,
    slow,
    flaky,
    bounce,
    searches,
    plays,
    halves,
    written_halves,
    dies_in_text,
    dies_in_call,
    dies_in_written_call,
    reset,
]

SCENARIOS = {act.__name__.replace("_", "-"): act for act in ACTS} | matrix.ACTS | agent_model.ACTS


def text_of(turn):
    """Returns a complete turn as text."""
    return json.dumps(turn, ensure_ascii=False)


# How many of a scenario's request bodies are kept.
KEPT = 10


class State:
    """What the upstream has seen, by scenario."""

    def __init__(self):
        self.lock = threading.Lock()
        self.seen = defaultdict(Counter)
        self.requests = defaultdict(lambda: deque(maxlen=KEPT))
        self.go = defaultdict(lambda: threading.Semaphore(0))

    def begin(self, scenario, body):
        """Counts a request to `scenario` and its open response. Returns the number of earlier requests."""
        with self.lock:
            self.requests[scenario].append(body)
            self.seen[scenario].update(open=1, count=1)
            return self.seen[scenario]["count"] - 1

    def add(self, scenario, **changes):
        with self.lock:
            self.seen[scenario].update(changes)

    def json(self, scenario):
        with self.lock:
            counts = {key: self.seen[scenario][key] for key in ("open", "left", "count")}
            bodies = b", ".join(self.requests[scenario])
        return b'%s, "requests": [%s]}' % (json.dumps(counts).encode()[:-1], bodies)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state = State()

    def do_GET(self):
        _, what, scenario = self.path.split("/")
        if what == "go":
            self.state.go[scenario].release()
        body = self.state.json(scenario)
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        _, scenario, variant, *_ = self.path.split("/")
        body = self.rfile.read(int(self.headers["content-length"]))
        request = json.loads(body)
        self.close_connection = True
        number = self.state.begin(scenario, body)
        try:
            dialect = answers.of_path(self.path)
            options = {"variant": variant, "go": self.state.go[scenario]}
            if scenario in matrix.ACTS and whole.is_wanted(dialect, self.path, request):
                dialect = partial(whole.Whole, dialect)
            answer = dialect(self.connection, request, number, **options)
            SCENARIOS[scenario](request, answer)
        except Gone:
            self.state.add(scenario, left=1)
        finally:
            self.state.add(scenario, open=-1)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # It is not an error if a connection is closed before it is used.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def start(examples):
    """Starts the upstream, which runs in threads of this process until it is shut down.

    `examples` maps each format to a call to get_weather for Paris.
    """
    EXAMPLES.update(examples)
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
