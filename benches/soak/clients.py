"""The clients: each sends one request after the other, in varying ways, and reports every outcome to the accounts."""

import asyncio
import random
import time

import apis
from answers import CUTS, EVERYWHERE, STATUSES, Answer, turns
from configuration import FEW, FEW_STREAMS, KEY, MODELS, PROCESSES
from http1 import Broken, Connection, frames
from http2 import Http2Connection

RESPONSES_LIMIT = 240
# For clients that must not read far ahead. If a slow client's buffer were smaller than the largest packet of the loopback
# interface, 64 KiB, the kernel's timers would determine how fast the client is.
RECEIVE_BUFFERS = {"slow": 1 << 18, "stops": 1 << 14}
SLOW_BYTES_PER_SECOND = 48 << 10
# One in so many clients speaks HTTP/2.
HTTP2_EVERY = 20
# In seconds. Longer than `write_timeout` in the configuration.
STOPPED = 45


class Exchange:
    """One request and its outcome."""

    def __init__(self, answer, model, stream, manner, key, turn=0):
        self.answer, self.model, self.stream, self.manner, self.key, self.turn = answer, model, stream, manner, key, turn
        self.began, self.ended = time.monotonic(), None
        self.status, self.outcome, self.message = None, None, ""

    async def run(self, connection, port, body):
        small = RECEIVE_BUFFERS.get(self.manner)
        try:
            async with asyncio.timeout(RESPONSES_LIMIT):
                await connection.open(port, small)
                self.status, headers = await connection.send("POST", self.stream.path, self.key, body)
                if self.status == 200:
                    await self.read(connection, headers)
                else:
                    self.outcome = "refused"
                    self.message = b"".join([piece async for piece in connection.data(headers)]).decode()
        except TimeoutError:
            self.outcome, self.message = "no end", f"after {RESPONSES_LIMIT} s"
        except (Broken, OSError) as error:
            self.outcome, self.message = "aborted", f"{type(error).__name__}: {error}"
        except (ValueError, KeyError, TypeError) as error:
            self.outcome, self.message = "malformed", repr(error)
        self.ended = time.monotonic()
        if self.outcome != "complete":
            connection.close(reset=self.manner == "leaves" and self.answer.id % 2 == 0)
        return self

    async def read(self, connection, headers):
        buffer, stream, read = bytearray(), self.stream, 0
        has_stopped = False
        async for piece in connection.data(headers):
            buffer += piece
            read += len(piece)
            for data in frames(buffer):
                stream.event(data)
            if self.manner == "leaves" and len(stream.text) > self.answer.at:
                self.outcome = "left"
                return
            if self.manner == "slow":
                await asyncio.sleep(len(piece) / SLOW_BYTES_PER_SECOND)
            if self.manner == "stops" and read > 1 << 16 and not has_stopped:
                has_stopped = True
                await asyncio.sleep(STOPPED)
        if stream.end is None:
            self.message = "the body ended without the API's end"
        self.outcome = stream.end or "unfinished"


class Clients:
    def __init__(self, args, stage, accounts):
        self.args, self.stage, self.port, self.accounts = args, stage, stage.port, accounts
        self.is_over, self.last_id = False, 0
        # When each stored response was complete, and its id.
        self.stored = []

    def connection(self, number=0):
        """Returns a connection for the client of this number."""
        if self.stage.tls and number % HTTP2_EVERY == HTTP2_EVERY - 1:
            return Http2Connection(self.stage.folder / "cert.pem")
        return Connection(self.stage.tls)

    def next_id(self):
        self.last_id += 1
        return self.last_id

    async def slot(self, number):
        """A client that is never idle for long."""
        dice = random.Random(self.args.seed * 1_000_003 + number)
        connection = self.connection(number)
        await asyncio.sleep(dice.uniform(0, min(20, self.args.minutes * 10)))
        while not self.is_over:
            exchange = await self.session(dice, connection, number)
            if exchange.outcome != "complete":
                await asyncio.sleep(dice.uniform(0.5, 2))
        connection.close()

    async def session(self, dice, connection, number):
        answer, model, manner = self.chosen(dice, number)
        api = dice.choice(list(apis.KNOWN))
        # The first clients share a key that allows fewer streams than there are such clients.
        key = FEW if number < 2 * FEW_STREAMS else KEY
        exchange = await self.asks(connection, api, answer, model, manner, key)
        if exchange.outcome != "complete":
            return exchange
        if answer.kind == "mixed":
            again = Exchange(answer, model, apis.KNOWN[api](), manner, key, turn=1)
            body = exchange.stream.request(model.name, exchange.stream.history(answer), True)
            return await self.accounted(again, connection, body)
        if api == "responses" and answer.kind == "text" and dice.random() < 0.5:
            next_ = answer._replace(id=self.next_id(), fate="whole", before=answer.id)
            return await self.asks(connection, api, next_, model, "reads", key, exchange.stream.id)
        return exchange

    async def asks(self, connection, api, answer, model, manner, key, before=None):
        stream = apis.KNOWN[api]()
        exchange = Exchange(answer, model, stream, manner, key)
        tools = answer.kind in ("call", "mixed")
        body = stream.request(model.name, [{"role": "user", "content": answer.tag}], tools)
        if before:
            body["previous_response_id"] = before
        return await self.accounted(exchange, connection, body)

    async def accounted(self, exchange, connection, body):
        self.accounts.open += 1
        try:
            await exchange.run(connection, self.port, body)
        finally:
            self.accounts.open -= 1
        self.accounts.add(exchange)
        stream = exchange.stream
        if exchange.outcome == "complete" and exchange.key == KEY and isinstance(stream, apis.Responses):
            self.stored.append((exchange.ended, stream.id))
        return exchange

    def chosen(self, dice, number):
        model = dice.choice(MODELS)
        id = self.next_id()
        if number % 100 == 50:
            return Answer(id, "large", 256, "whole", 0, EVERYWHERE, 0), model, "slow"
        if number % 250 == 51:
            return Answer(id, "large", 2500, "whole", 0, EVERYWHERE, 0), model, "stops"
        kind = dice.choices(["text", "call", "hop", "hops", "mixed"], [45, 20, 15, 5, 15])[0]
        tokens = dice.randrange(12, 100)
        fate, where, manner = "whole", EVERYWHERE, "reads"
        chance = dice.random()
        if chance < 0.12:
            fate = dice.choice(CUTS + STATUSES)
            if len(model.processes) > 1:
                where = dice.randrange(PROCESSES)
        elif chance < 0.20:
            manner = "leaves"
        answer = Answer(id, kind, tokens, fate, 0, where, 0)
        if fate not in STATUSES or dice.random() < 0.2:
            # The second turn of a mixed answer is a request of its own, which does not fail.
            sent = turns(answer)[:1] if kind == "mixed" else turns(answer)
            answer = answer._replace(at=dice.randrange(sum(len(turn.tokens) for turn in sent)))
        return answer, model, manner
