"""Faults from outside. Their schedule is derived from the seed."""

import asyncio
import os
import random
import signal
import time

import configuration


class Outage:
    """A period in which responses may fail: those of one upstream process, or of the store (`process` is `None`)."""

    def __init__(self, what, process=None):
        self.what, self.process = what, process
        self.began, self.ended = time.monotonic(), None

    def concerns(self, exchange):
        if self.process is None:
            # Only requests that need a value fail, and only because the store is away: it must never lack the value.
            return (exchange.answer.before != 0 or exchange.turn > 0) and exchange.status == 503
        return self.process in exchange.model.processes

    def over(self):
        self.ended = time.monotonic()


class Faults:
    def __init__(self, args, stage, outages):
        self.args, self.stage, self.outages = args, stage, outages
        self.dice = random.Random(args.seed)
        self.log, self.broken_rules, self.variant, self.under_way = [], [], 0, None

    async def run(self):
        """Causes one fault after the other, about four per minute. Each kind occurs once before any occurs again,
        except that the store is restarted at its own interval."""
        kinds = [self.kill, self.pause, self.reload, self.reload_invalid]
        restarted = time.monotonic()
        while True:
            self.dice.shuffle(kinds)
            for kind in kinds:
                await asyncio.sleep(self.dice.uniform(8, 18))
                await self.cause(kind)
                if self.stage.has_store_process and time.monotonic() - restarted > self.args.restart_store * 60:
                    restarted = time.monotonic()
                    await self.cause(self.restart_store)

    async def cause(self, kind):
        self.under_way = asyncio.ensure_future(self.logged(kind))
        await asyncio.shield(self.under_way)

    async def logged(self, kind):
        began = time.monotonic()
        what = await kind()
        self.log.append({"seconds": round(began - self.stage.began, 1), "what": what})

    async def ends(self, schedule):
        """Ends the schedule, but completes a fault that is under way: what was killed is started again."""
        schedule.cancel()
        if self.under_way is not None:
            await self.under_way

    async def kill(self):
        process = self.dice.randrange(configuration.PROCESSES)
        outage = Outage("upstream killed", process)
        self.outages.append(outage)
        self.stage.kill_upstream(process)
        await asyncio.sleep(self.dice.uniform(0.5, 5))
        await self.stage.start_upstream(process)
        outage.over()
        return f"upstream {process} killed and started again"

    async def pause(self):
        """Pauses an upstream. No response may fail because of it, since the pause is shorter than every timeout."""
        process = self.dice.randrange(configuration.PROCESSES)
        pid = self.stage.upstreams[process].pid
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(self.dice.uniform(2, 6))
        os.kill(pid, signal.SIGCONT)
        return f"upstream {process} paused"

    async def reload(self):
        self.variant += 1
        self.stage.configure(self.variant)
        self.stage.reload()
        name = f"variant-{self.variant}"
        if not await self.becomes(name):
            self.broken_rules.append(f"the reload to {name} did not take effect")
        return f"reloaded to {name}"

    async def reload_invalid(self):
        path = self.stage.folder / "toolwire.toml"
        whole = path.read_text()
        # Half of a file may be a valid one, unless it ends inside a string.
        half = whole[:whole.index("http://", len(whole) // 2)]
        path.write_text(self.dice.choice([
            whole.replace('dialect = "chat"', 'dialect = "chatter"'), whole + "\n[limits\n", "", half,
        ]))
        self.stage.reload()
        await asyncio.sleep(self.dice.uniform(2, 4))
        if self.variant and not await self.becomes(f"variant-{self.variant}"):
            self.broken_rules.append("an invalid configuration replaced a valid one")
        path.write_text(whole)
        self.stage.reload()
        return "an invalid file, and back"

    async def becomes(self, name, limit=15):
        """Waits until a model of this name is listed, for at most `limit` seconds. Returns whether it is."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            status, body = await self.stage.asked("/v1/models", configuration.KEY)
            if status == 200 and f'"{name}"'.encode() in body:
                return True
            await asyncio.sleep(0.5)
        return False

    async def restart_store(self):
        outage = Outage("store restarted")
        self.outages.append(outage)
        await self.stage.restart_store(self.dice.uniform(0.5, 4))
        outage.over()
        return "store restarted"
