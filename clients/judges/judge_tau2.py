"""tau2: the gold actions of its tasks as calls, executed in its environments, rewarded by its evaluator.

The upstream writes one action per response: in six formats as their models do, in the others as toolwire writes them into a history.
Each task is played in one format of each kind, over one client API. Actions of the user happen in a second conversation. The client
executes what it received. Reward: database, assertions, actions and communication, as `EvaluationType.ALL` has it. The rest of the
history is compared, too: of the six formats' calls, how many stand in the next prompt as the model wrote them.
"""

import asyncio
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from unittest.mock import MagicMock

import apis
import exchange
import formats
import program

DOMAINS = {"airline": ("airline", 10), "retail": ("retail", 12), "telecom": ("telecom_full", 120)}
"""The registry's name of all tasks, and which share of them a run plays that is not nightly."""


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages that tau2 imports to call models and show tables, which are not used here."""

    names = {"litellm", "langfuse", "pandas", "fastapi", "uvicorn", "redis", "gymnasium", "plotly", "matplotlib", "seaborn"}

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        pass


def load():
    """Imports tau2, whose data is in its package."""
    sys.meta_path.insert(0, Absent())
    package = Path(importlib.util.find_spec("tau2").origin).parent
    os.environ["TAU2_DATA_DIR"] = str(package / "data")
    from loguru import logger

    logger.remove()
    from tau2.data_model import message, simulation
    from tau2.evaluator import evaluator
    from tau2.registry import registry

    return registry, message, simulation, evaluator


class Upstream:
    """Answers with the text that a conversation's next answer has, and keeps what the prompt's assistant turns were.

    `prefixes` counts, by conversation, the characters of earlier prompts with their answers, and how many of them the next prompt
    begins with: what a server with a cache of prefixes does not compute again.
    """

    def __init__(self):
        self.next, self.seen, self.earlier, self.prefixes = {}, {}, {}, {}

    def answer(self, asked):
        turns = [(turn["role"], turn.get("content") or "") for turn in asked["messages"]]
        key = next(found[1] for _, content in turns if (found := re.search(r"\[conversation (\d+)\]", content)))
        self.seen[key] = [content for role, content in turns if role == "assistant"]
        text = self.next.get(key, "ok")
        self.compare_prefix(key, "".join(f"{role}\n{content}\n" for role, content in turns), text)
        return exchange.Script(text)

    def compare_prefix(self, key, prompt, text):
        counts = self.prefixes.setdefault(key, Counter())
        if earlier := self.earlier.get(key):
            counts["earlier"] += len(earlier)
            counts["again"] += len(os.path.commonprefix([earlier, prompt]))
        self.earlier[key] = f"{prompt}assistant\n{text.strip()}"


class Conversation:
    """One side's tools and turns, in one format over one API."""

    count = 0

    def __init__(self, judge, client, format, spoken, api, tools):
        Conversation.count += 1
        self.judge, self.client, self.format, self.api = judge, client, format, api
        self.written = formats.WRITERS[format][1] if spoken else None
        self.key, self.calls, self.texts = str(Conversation.count), 0, []
        self.tools = [(each["name"], each["description"], each["parameters"]) for each in tools]
        self.turns = [("user", f"[conversation {self.key}] Do what the task needs.")]

    async def rendered(self, actions):
        """Has toolwire write the actions' calls into a history, and returns their texts."""
        turns = list(self.turns)
        for index, action in enumerate(actions):
            turns.append(("call", f"call_{index}", action.name, json.dumps(action.arguments, ensure_ascii=False)))
            turns.append(("result", f"call_{index}", "ok"))
        await self.client.ask("chat", apis.request("chat", self.format, self.tools, [*turns, ("user", "Go on.")]))
        return self.judge.upstream.seen[self.key]

    def write(self, actions):
        """The texts of the responses, as this format's models write them."""
        for number, action in enumerate(actions):
            said = f"I'll do that now.{formats.SPOKEN[self.format]}" if self.format in formats.SPOKEN and number % 2 else ""
            yield said + self.written([(action.name, action.arguments)], number)

    async def begin(self, actions):
        self.texts = list(self.write(actions)) if self.written else await self.rendered(actions)

    async def call(self, action):
        """Returns the call that the client receives when the model makes this one, and what is wrong with the response."""
        text = self.texts[self.calls]
        self.calls += 1
        self.judge.upstream.next[self.key] = text
        got = await self.client.ask(self.api, apis.request(self.api, self.format, self.tools, self.turns, stream=self.calls % 2 == 0))
        self.compare_history()
        said = "I'll do that now." if text.startswith("I'll do that now.") else ""
        fault = exchange.difference([(action.name, action.arguments)], got)
        if not fault and (got["text"].strip() != said or got["finish"] != apis.FINISHED[self.api]):
            fault = "text or finish"
        if not got["calls"]:
            return None, f"{fault}: {got['text']!r} {got['error']}"
        id, name, arguments = got["calls"][0]
        if said:
            self.turns.append(("said", got["text"]))
        self.turns.append(("call", id, name, arguments))
        return (id, name, arguments), fault and f"{fault}: {name} {arguments[:300]}"

    def compare_history(self):
        if self.written:
            for wrote, stands in zip(self.texts, self.judge.upstream.seen[self.key]):
                self.judge.history[self.format, wrote.strip() == stands.strip()] += 1

    def end(self):
        self.judge.upstream.earlier.pop(self.key, None)
        counts = self.judge.upstream.prefixes.pop(self.key, Counter())
        if self.written:
            self.judge.prefixes[self.format] += counts


class Judge:
    def __init__(self):
        self.registry, self.message, self.simulation, self.evaluator = load()
        self.upstream, self.faults, self.history = Upstream(), [], Counter()
        self.prefixes, self.known = defaultdict(Counter), {}
        self.tasks, self.calls = Counter(), 0

    def environment(self, domain, task):
        environment, start = self.registry.get_env_constructor(domain)(), task.initial_state
        environment.set_state(
            initialization_data=start and start.initialization_data,
            initialization_actions=start and start.initialization_actions,
            message_history=(start and start.message_history) or [],
        )
        return environment

    async def play(self, client, item):
        domain, task, format, spoken, api = item
        environment = self.environment(domain, task)
        criteria = task.evaluation_criteria
        actions = criteria.actions or []
        sides, trajectory = {}, list((task.initial_state and task.initial_state.message_history) or [])
        for action in actions:
            side = action.requestor
            if side not in sides:
                sides[side] = Conversation(self, client, format, spoken, api, self.schemas(domain, environment, side))
                await sides[side].begin([each for each in actions if each.requestor == side])
            received, fault = await sides[side].call(action)
            self.calls += 1
            if fault:
                self.faults.append(f"{domain} {task.id}, {format} over {api}: {fault}")
            if not received:
                break
            self.execute(domain, environment, sides[side], received, trajectory)
        for conversation in sides.values():
            conversation.end()
        told = " ".join(criteria.communicate_info or []) or "Done."
        trajectory.append(self.message.AssistantMessage(role="assistant", content=told))
        reward = self.reward(domain, task, trajectory)
        self.tasks[domain, reward == 1.0] += 1
        if reward != 1.0:
            self.faults.append(f"{domain} {task.id}, {format} over {api}: reward {reward}")

    def execute(self, domain, environment, conversation, received, trajectory):
        id, name, arguments = received
        side = "user" if any(tool["name"] == name for tool in self.schemas(domain, environment, "user")) else "assistant"
        call = self.message.ToolCall(id=id, name=name, arguments=json.loads(arguments), requestor=side)
        kind = self.message.UserMessage if side == "user" else self.message.AssistantMessage
        response = environment.get_response(call)
        trajectory += [kind(role=side, content=None, tool_calls=[call]), response]
        conversation.turns.append(("result", id, response.content))

    def schemas(self, domain, environment, side):
        """Returns the side's tools. They are those of the domain, and take long to create."""
        if (domain, side) not in self.known:
            has_tools = side == "assistant" or environment.user_tools
            tools = (environment.get_tools() if side == "assistant" else environment.get_user_tools()) if has_tools else []
            self.known[domain, side] = [tool.openai_schema["function"] for tool in tools]
        return self.known[domain, side]

    def reward(self, domain, task, trajectory):
        ended = self.simulation.TerminationReason.USER_STOP
        run = self.simulation.SimulationRun(
            id="1", task_id=task.id, start_time="", end_time="", duration=0, termination_reason=ended, messages=trajectory
        )
        every = self.evaluator.EvaluationType.ALL
        return self.evaluator.evaluate_simulation(run, task, every, solo_mode=False, domain=domain).reward

    def work(self, complete, taught):
        own = list(formats.WRITERS)
        rest = [format for format in taught if format not in own]
        api = list(apis.WRITERS)
        number = 0
        for domain, (name, share) in DOMAINS.items():
            for task in self.registry.get_tasks_loader(name)()[:: 1 if complete else share]:
                number += 1
                yield domain, task, own[number % len(own)], True, api[number // len(own) % 3]
                yield domain, task, rest[number % len(rest)], False, api[number % 3]


async def play(judge, complete):
    taught = program.taught_formats()
    port = await exchange.listen(judge.upstream.answer)
    with program.serving(port, {name: f'tools = "{name}"\nexamples = 0' for name in taught}) as served:
        await exchange.share(served, judge.work(complete, taught), judge.play)


def judge(options):
    found = Judge()
    asyncio.run(play(found, options.nightly))
    tasks = found.tasks
    rows = ["| domain | tasks, each in two formats | reward 1.0 |", "|---|---|---|"]
    for domain in DOMAINS:
        played = tasks[domain, True] + tasks[domain, False]
        rows.append(f"| {domain} | {played // 2:,} | {tasks[domain, True]:,} of {played:,} |")
    rows += ["", f"Of {found.calls:,} calls, {len(found.faults)} differ. In the histories, so many calls are as the model wrote them:"]
    rows += ["", "| format | calls | as written | prefix kept |", "|---|---|---|---|"]
    for format in formats.WRITERS:
        same, all = found.history[format, True], found.history[format, True] + found.history[format, False]
        kept = found.prefixes[format]["again"] / found.prefixes[format]["earlier"]
        rows.append(f"| {format} | {all:,} | {100 * same / all:.1f} % | {100 * kept:.2f} % |")
    if not options.nightly:
        print(*rows, sep="\n")
        return [], [], found.faults[:20]
    return rows, [], found.faults[:20]
