"""An MCP server for tests, on stdio, that asks people, offers prompts and runs calls as tasks. It needs only Python's
standard library."""

import itertools
import json
import queue
import sys
import threading
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
LOCK = threading.Lock()
NUMBERS = itertools.count()
# The client's answers, by the id of the request.
ANSWERS = {}
CAPABILITIES = {}
# The metadata of notifications, as of version 2026-07-28.
SUBSCRIPTION = {}
# What was learned outside of calls.
LATER = queue.Queue()


def write(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def begin(method, params):
    """Sends a request, and returns its id."""
    id = f"own-{next(NUMBERS)}"
    ANSWERS[id] = queue.Queue()
    write({"id": id, "method": method, "params": params})
    return id


def ask(method, params):
    """Sends a request, and returns the result or the error."""
    answer = ANSWERS[begin(method, params)].get()
    return answer.get("result", answer.get("error"))


def ask_later():
    time.sleep(0.2)
    LATER.put(ask("elicitation/create", QUESTION))


QUESTION = {
    "message": "Which one?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "title": "Name"}, "count": {"type": "integer", "minimum": 1}},
        "required": ["name"],
    },
}


def call(params):
    name, arguments = params["name"], params.get("arguments") or {}
    if name in ("job", "marked_job"):
        return create_task(params) if MODE == "modern" or "task" in params else {**text("not as a task"), "isError": True}
    if name == "cancelled":
        return text(CANCELLED)
    if name == "capabilities":
        return text(CAPABILITIES)
    if name == "ask":
        ids = [begin("elicitation/create", question) for question in arguments.get("questions", [QUESTION])]
        return text([(answer := ANSWERS[id].get()).get("result", answer.get("error")) for id in ids])
    if name == "ask_one_by_one":
        return text([ask("elicitation/create", QUESTION)["action"] for _ in range(arguments["count"])])
    if name == "withdraw":
        id = begin("elicitation/create", QUESTION)
        time.sleep(0.3)
        for _ in range(1000):
            write({"method": "notifications/cancelled", "params": {"requestId": id}})
        return text("withdrawn")
    if name == "ask_later":
        threading.Thread(target=ask_later, daemon=True).start()
    if name == "later":
        return text(LATER.get())
    if name == "other":
        return text([ask(method, {}) for method in ("sampling/createMessage", "roots/list", "unknown/method")])
    if name == "change_prompts":
        CHANGED.set()
        for _ in range(arguments.get("count", 1)):
            write({"method": "notifications/prompts/list_changed", "params": SUBSCRIPTION})
    if name == "opens":
        return opens(arguments)
    if name == "rounds":
        return rounds(params, arguments)
    return text(arguments)


OPENED = []


def opens(arguments):
    """Fails until its page was opened as often as the arguments say."""
    if len(OPENED) >= arguments["times"]:
        return text("opened")
    OPENED.append(1)
    page = {"mode": "url", "message": "Sign in", "url": "https://example.org/", "elicitationId": "1"}
    data = {"elicitations": arguments.get("pages", [page])}
    return {"refusal": {"code": -32042, "message": "sign in", "data": data}}


def rounds(params, arguments):
    """Asks in results, as of version 2026-07-28."""
    if "inputResponses" in params and not arguments.get("again"):
        return {"resultType": "complete", **text([params["inputResponses"], params["requestState"]])}
    request = {"method": "elicitation/create", "params": {"mode": "form", **QUESTION}}
    if arguments.get("sampling"):
        request = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    asked = {f"q{n}": request for n in range(arguments.get("count", 1))}
    return {"resultType": "input_required", "inputRequests": asked, "requestState": "state"}


# Set when the list of prompts has changed.
CHANGED = threading.Event()


def prompts(params):
    """Lists prompts. In some modes, no client should accept them all unchanged."""
    if MODE == "silent-prompts":
        time.sleep(1000)
    cursor = int(params.get("cursor") or 0)
    if MODE == "endless-prompts":
        many = [{"name": f"p{cursor}-{n}", "description": "x" * 10_000} for n in range(30)]
        return {"prompts": many, "nextCursor": str(cursor + 1)}
    if MODE == "hostile-prompts":
        names = ["", "a\nb", "x" * 129, "\u202eb", "ok", "ok"]
        odd = [{"name": "args", "arguments": [{"name": str(n)} for n in range(33)]}, {"name": "arg", "arguments": [{"name": ""}]}]
        told = {"name": "told", "title": "a\x1b[2Jb", "description": "c\r\nd" * 1000}
        return {"prompts": [*({"name": name} for name in names), *odd, told]}
    who = {"name": "who", "description": "Whom", "required": True}
    listed = [{"name": "greet", "title": "Greet", "arguments": [who, {"name": "tone"}]}, {"name": "huge"}, {"name": "files"}]
    return {"prompts": listed + ([{"name": "after"}] if CHANGED.is_set() else [])}


def filled(params):
    name, arguments = params["name"], params.get("arguments") or {}
    user = lambda content: {"role": "user", "content": content}
    if name == "huge":
        return {"messages": [user({"type": "text", "text": "x" * 100_000}) for _ in range(3)]}
    if name == "files":
        image = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
        page = {"type": "resource", "resource": {"uri": "test://a", "text": "a page"}}
        return {"messages": [user(image), {"role": "assistant", "content": page}]}
    if name == "greet":
        said = f"Greet {arguments['who']} {arguments.get('tone')}: secret-word"
        return {"description": "A greeting", "messages": [user({"type": "text", "text": said})]}
    return None


# The tasks by id: how often each was looked at, and the arguments of its call.
TASKS = {}
CANCELLED = []


def create_task(params):
    """Begins a task. Its arguments say how it goes."""
    arguments = params.get("arguments") or {}
    id = arguments.get("id", f"task-{next(NUMBERS)}")
    TASKS[id] = {"looks": 0, "arguments": arguments, "answers": None}
    if MODE == "modern":
        return {"resultType": "task", **task_state(id)}
    return {"task": task_state(id), "ttl": params["task"]["ttl"]}


def task_state(id):
    task, times = TASKS[id], {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
    arguments, looks = task["arguments"], task["looks"]
    status = "working" if looks < arguments.get("looks", 1) else arguments.get("status", "completed")
    state = {"taskId": id, "status": status, **times}
    state |= {"ttlMs": None, "pollIntervalMs": 100} if MODE == "modern" else {"ttl": None, "pollInterval": 100}
    if arguments.get("says"):
        state["statusMessage"] = f"step {looks}"
    if status == "input_required" and task["answers"]:
        state["status"] = status = "completed"
    if MODE == "modern" and status == "completed":
        state["result"] = text(["done", task["answers"]])
    if MODE == "modern" and status == "failed":
        state["error"] = {"code": -32000, "message": "it went wrong"}
    if MODE == "modern" and status == "input_required":
        state["inputRequests"] = {"q": {"method": "elicitation/create", "params": {"mode": "form", **QUESTION}}}
    return state


def task(method, params):
    id = params["taskId"]
    if id not in TASKS:
        return None
    if method == "tasks/cancel":
        CANCELLED.append(id)
        return {"resultType": "complete"}
    if method == "tasks/update":
        TASKS[id]["answers"] = params["inputResponses"]
        return {"resultType": "complete"}
    arguments = TASKS[id]["arguments"]
    if method == "tasks/result":
        if arguments.get("status") == "input_required":
            return text(["done", ask("elicitation/create", QUESTION)])
        return {**text(["done", None]), "isError": arguments.get("status") == "failed"}
    TASKS[id]["looks"] += 1
    state = task_state(id)
    state["taskId"] = arguments.get("other", id)
    return {"resultType": "complete", **state} if MODE == "modern" else state


TOOLS = ["cancelled", "opens", "change_prompts", "capabilities", "ask", "ask_one_by_one", "withdraw", "ask_later", "later", "other", "rounds", "echo"]


def answer(method, params):
    if method == "initialize":
        CAPABILITIES.update(params["capabilities"])
        server = {"name": "interactive", "version": "1"}
        capabilities = {"tools": {}, "prompts": {"listChanged": True}}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": server}
    if method == "server/discover" and MODE == "modern":
        capabilities = {"tools": {}, "prompts": {"listChanged": True}}
        supported = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        return {"resultType": "complete", **supported, "ttlMs": 0, "cacheScope": "public"}
    if method == "tools/list":
        listed = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
        marked = {"name": "marked_job" if MODE == "modern" else "job", "execution": {"taskSupport": "required"}}
        listed["tools"].append({**marked, "inputSchema": {"type": "object"}})
        if MODE == "modern":
            listed["tools"].append({"name": "job", "inputSchema": {"type": "object"}})
        return {"resultType": "complete", **listed, "ttlMs": 100000, "cacheScope": "public"}
    if method == "tools/call":
        return call(params)
    if method.startswith("tasks/"):
        return task(method, params)
    if method == "prompts/list":
        return {"resultType": "complete", **prompts(params), "ttlMs": 100000, "cacheScope": "public"}
    if method == "prompts/get":
        return filled(params)
    return None


def reply(message):
    found = answer(message["method"], message.get("params") or {})
    found = found or {"refusal": {"code": -32601, "message": "unknown method"}}
    write({"id": message["id"], **({"error": found["refusal"]} if "refusal" in found else {"result": found})})


for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "subscriptions/listen":
        SUBSCRIPTION["_meta"] = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        accepted = {**SUBSCRIPTION, "notifications": message["params"]["notifications"]}
        write({"method": "notifications/subscriptions/acknowledged", "params": accepted})
        continue
    if "method" not in message:
        ANSWERS[message["id"]].put(message)
    elif "id" in message:
        threading.Thread(target=reply, args=(message,), daemon=True).start()
