"""What toolwire has acknowledged to its clients and its operator, and whether it still knows that."""

import json
from concurrent.futures import ThreadPoolExecutor

from program import Broken, until
from upstream import INPUT_TOKENS, OUTPUT_TOKENS

NOTE = {"type": "function", "function": {"name": "note", "description": "Notes a text.", "parameters": {
    "type": "object", "properties": {"text": {"type": "string"}}}}}


class Ledger:
    def __init__(self, program, upstream, used=None):
        self.program, self.upstream, self.used = program, upstream, used or program.used
        self.number, self.responses, self.turns, self.keys = 0, {}, [], []
        self.setting_path, self.setting_value, self.may_run = "execution.max_running", None, False
        self.requests, self.refused, self.earlier = 0, [], (0, 0)

    def next(self):
        self.number += 1
        return self.number

    # Each of these asks for one thing. If toolwire acknowledges it, it is put down; otherwise, how it was refused.

    def generated(self, path, body):
        answer = self.program.ask("POST", path, body)
        # A request that an upstream failed was admitted, and counts.
        self.requests += answer.status in (200, 502)
        if answer.status == 200:
            return answer.json
        self.refused.append(str(answer))
        return None

    def response(self, after=None):
        """A stored response, which continues the one with the id `after`."""
        said = f"{self.next()}"
        body = {"model": "m", "input": said} | ({"previous_response_id": after} if after else {})
        if found := self.generated("/v1/responses", body):
            history = [*self.responses[after], said] if after else [said]
            text = found["output"][-1]["content"][0]["text"]
            if not text.startswith(f"said {', '.join(history)};"):
                raise Broken(f"the response to {history} begins with {text[:80]!r}")
            self.responses[found["id"]] = history

    def turn(self):
        """A turn with a hosted call, whose result toolwire has to keep, and a call that the client runs."""
        question = {"role": "user", "content": f"turn {self.next()}"}
        body = {"model": "m", "messages": [question], "tools": [NOTE]}
        if found := self.generated("/v1/chat/completions", body):
            message = found["choices"][0]["message"]
            [call] = message["tool_calls"]
            if call["function"]["name"] != "note":
                raise Broken(f"the client gets the call {call}")
            self.turns.append([question, message, {"role": "tool", "tool_call_id": call["id"], "content": "noted"}])

    def setting(self):
        """A setting that is saved over the admin API."""
        value = 100 + self.next()
        answer = self.program.admin("PATCH", "settings", {self.setting_path: value})
        if answer.status == 200:
            self.setting_value = value
        else:
            self.refused.append(str(answer))

    def permission(self):
        """That hosted tools may run, which is remembered."""
        answer = self.program.admin("POST", "permissions/allow_all", {})
        if answer.status == 200:
            self.may_run = True
        else:
            self.refused.append(str(answer))

    def key(self):
        """A key that `toolwire keys add` makes."""
        status, made, error = self.program.command("keys", "add", "--json", f"client-{self.next()}")
        if status == 0:
            self.keys.append(json.loads(made)["key"])
        else:
            self.refused.append(error.strip())

    def load(self, responses=20, turns=3, side_by_side=4):
        """Responses, half of which continue earlier ones, and turns."""
        known = list(self.responses)
        with ThreadPoolExecutor(side_by_side) as pool:
            tasks = [pool.submit(self.response, known[place] if place < len(known) // 2 else None) for place in range(responses)]
            tasks += [pool.submit(self.turn) for _ in range(turns)]
            for task in tasks:
                task.result()

    def begin(self):
        """Makes state of every kind before anything is wrong."""
        self.permission()
        self.setting()
        self.key()
        self.load()
        if self.refused:
            raise Broken(f"refused although nothing is wrong: {self.refused}")

    def month_begins(self):
        """From now on, usage counts for another month. Returns a function that goes back to this month."""
        before, answered, requests = self.earlier, self.upstream.answers, self.requests
        self.earlier = (requests, answered)

        def back():
            self.earlier = (before[0] + self.requests - requests, before[1] + self.upstream.answers - answered)
        return back

    # The checks.

    def check(self, responses=True):
        """Checks that everything that was acknowledged is known, and counted once. Returns a summary."""
        self.check_usage()
        if responses:
            self.check_responses()
        self.check_turns()
        self.check_operator()
        self.check_usage()
        kept = f"{len(self.responses)} responses, " if responses else ""
        requests, answers = self.requests - self.earlier[0], self.upstream.answers - self.earlier[1]
        return (f"{kept}{len(self.turns)} turns, {len(self.keys)} keys, the setting and the permission; "
                f"counted: {requests} requests, {answers * (INPUT_TOKENS + OUTPUT_TOKENS)} tokens")

    def check_responses(self):
        for id, history in self.responses.items():
            answer = self.program.ask("GET", f"/v1/responses/{id}")
            if answer.status != 200 or f"said {', '.join(history)};" not in answer.text:
                raise Broken(f"the stored response {id} ({history}) is lost: {answer}")

    def check_turns(self):
        """Completes each turn, as its client does, and looks for the result of the hosted call."""
        for messages in self.turns:
            found = self.generated("/v1/chat/completions", {"model": "m", "messages": messages, "tools": [NOTE]})
            text = found and found["choices"][0]["message"]["content"]
            result = json.dumps({"key": messages[0]["content"].replace("r", "w")}, separators=(",", ":"))
            if text != f"{result} / noted":
                raise Broken(f"the result in the deferred turn of {messages[0]} is lost: {text or self.refused[-1]}")

    def check_operator(self):
        for key in self.keys:
            # toolwire looks at the file every two seconds.
            until("a key that was made is known", lambda: self.program.ask("GET", "/v1/models", key=key).status == 200)
        settings = json.dumps(self.program.admin("GET", "settings").json)
        if self.setting_value and f'"value": {self.setting_value}' not in settings:
            raise Broken(f"the saved setting {self.setting_path} = {self.setting_value} is lost")
        if self.may_run and not self.program.admin("GET", "permissions").json["rules"]:
            raise Broken("a remembered permission is lost")

    def expected_usage(self):
        answers = self.upstream.answers - self.earlier[1]
        return {"requests": self.requests - self.earlier[0], "input_tokens": answers * INPUT_TOKENS,
                "output_tokens": answers * OUTPUT_TOKENS}

    def check_usage(self):
        """The tokens of a response count when it has ended, which may be a moment after its client has it."""
        try:
            until("usage", lambda: self.used() == self.expected_usage())
        except Broken:
            raise Broken(f"usage is {self.used()}, not {self.expected_usage()}") from None
