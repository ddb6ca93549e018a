"""Pipelines to one server: bounded chunks, a receipt for each, one repetition after a broken connection.

What a failure does: a command that the server refuses by itself (out of memory, a key of another kind) is left to the
caller, and its receipt says what follows; a server that does not answer, or refuses to serve, is `SeenUnavailable`.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from limpet.clock import Clock
from limpet.model.errors import UsageError
from limpet.receipts import Action, Ambiguous, Receipt, Recorder, Role, Transport, Verdict, classes_of
from limpet.receipts.types import FAILURES_KEPT_MAX
from limpet.seen.port import SeenUnavailable
from limpet.seen.redis.address import Address
from limpet.seen.redis.link import CLIENT, Command, Exchange, Link
from limpet.seen.redis.server import hello, unfit, version

SECONDS_MAX: Final = 2.0
COMMANDS_MAX: Final = 256
ARGUMENTS_MAX: Final = 64
REFUSING: Final = frozenset(
    {"LOADING", "BUSY", "MASTERDOWN", "READONLY", "NOAUTH", "WRONGPASS", "NOPERM", "CLUSTERDOWN", "MOVED", "ASK"}
)
"""Codes of a server that serves nobody at present, or not here."""


@dataclass(frozen=True)
class Bounds:
    """Of one pipeline: seconds from connecting to the last reply, commands, arguments a command."""

    seconds_max: float = SECONDS_MAX
    commands_max: int = COMMANDS_MAX
    arguments_max: int = ARGUMENTS_MAX


@dataclass(frozen=True)
class Trade:
    """What a pipeline is for: its name in receipts, and what to do when some of its commands fail."""

    operation: str
    action: Action
    verdict: Verdict


HELLO: Final = Trade("seen.hello", Action.RETRY, Verdict.UNKNOWN)


@dataclass(frozen=True)
class Names:
    """What receipts and messages call things: the crawl, this incarnation, the shard, the repair of lost marks."""

    crawl: str
    incarnation: str
    shard: int
    repair: str


class Pipelines:
    """Connects when it is first used; calls take turns. `facts` must be what the server holds under `facts_key`."""

    def __init__(
        self,
        address: Address,
        names: Names,
        *,
        facts_key: bytes,
        facts: bytes,
        recorder: Recorder,
        clock: Clock,
        bounds: Bounds,
    ) -> None:
        self.bounds = bounds
        self._names = names
        self._facts_key, self._facts = facts_key, facts
        self._recorder, self._clock = recorder, clock
        self._link = Link(address, seconds_max=bounds.seconds_max)
        self._server = ""
        self._jobs = 0
        self._lock = asyncio.Lock()

    async def close(self) -> None:
        """Drop the connection; the next call makes another."""
        async with self._lock:
            await self._link.close()

    async def run_all(self, trade: Trade, commands: Sequence[Command]) -> list[Exchange]:
        """Like `run`, but one command that fails is `SeenUnavailable` too."""
        done = await self.run(trade, commands)
        for exchange in done:
            if exchange.failures:
                raise SeenUnavailable(self._names.shard, f"{exchange.failures[0].command} {exchange.failures[0].code}")
        return done

    async def run(self, trade: Trade, commands: Sequence[Command]) -> list[Exchange]:
        """Chunk by chunk; a failed one ends the rest. Each leaves a receipt."""
        self._jobs += 1
        chunks = list(_chunks(commands, self.bounds.commands_max))
        async with self._lock:
            return [await self._chunk(trade, chunk, (number, len(chunks))) for number, chunk in enumerate(chunks, 1)]

    async def _chunk(self, trade: Trade, commands: Sequence[Command], chunk: tuple[int, int]) -> Exchange:
        """Twice at most, since a kept connection may have died while nobody looked; all of it may be repeated."""
        for attempt in (1, 2):
            if not self._link.connected:
                await self._greet()
            done = await self._exchange(trade, commands, chunk, attempt)
            if done.transport is Transport.COMPLETE:
                break
            if done.transport is not Transport.DISCONNECTED or attempt == 2:
                raise SeenUnavailable(self._names.shard, done.why)
        if refusal := _refusal(done):
            raise SeenUnavailable(self._names.shard, f"it says {refusal}")
        return done

    async def _exchange(
        self, trade: Trade, commands: Sequence[Command], chunk: tuple[int, int], attempt: int
    ) -> Exchange:
        at_us, began = self._clock.wall_us(), self._clock.monotonic()
        done = await self._link.exchange(commands)
        latency_us = int((self._clock.monotonic() - began) * 1e6)
        await self._recorder.record(self._receipt(trade, done, chunk, attempt, (at_us, latency_us)))
        return done

    def _receipt(
        self, trade: Trade, done: Exchange, chunk: tuple[int, int], attempt: int, timed: tuple[int, int]
    ) -> Receipt:
        count, failures, job = len(done.commands), done.failures, f"{self._names.incarnation}/{self._jobs}"
        complete = done.transport is Transport.COMPLETE
        answered = 0 if done.transport is Transport.GARBLED else len(done.replies)
        action, verdict = trade.action, trade.verdict
        if not complete or _refusal(done):
            action, verdict = Action.RETRY, Verdict.UNKNOWN
        elif not failures:
            action, verdict = Action.NONE, Verdict.ADMITTED
        return Receipt(
            operation=trade.operation,
            target=f"seen/{self._names.shard}",
            crawl=self._names.crawl,
            job=job,
            attempt=f"{job}/{attempt}",
            roles=((Role.CACHE, count),),
            client=CLIENT,
            server=self._server,
            commands=count,
            chunk=chunk[0],
            chunks=chunk[1],
            arguments_max=max((len(command) - 1 for command in done.commands), default=0),
            classes=classes_of(command[0].decode() for command in done.commands),
            transport=done.transport,
            at_us=timed[0],
            latency_us=timed[1],
            succeeded=max(0, answered - len(failures)),
            failed=len(failures),
            failures=tuple(failures[:FAILURES_KEPT_MAX]),
            ambiguous=None if complete or not done.sent else Ambiguous(begin=answered, end=count),
            idempotent=True,
            acquired_before=attempt > 1,
            action=action,
            repair=self._names.repair if action is Action.REBUILD else "",
            verdict=verdict,
        )

    async def _greet(self) -> None:
        """Look at a server before it is asked anything. What it does not let us see is not judged."""
        done = await self._exchange(HELLO, hello(self._facts_key, self._facts), (1, 1), 1)
        if done.transport is not Transport.COMPLETE:
            raise SeenUnavailable(self._names.shard, done.why)
        if refusal := _refusal(done, REFUSING - {"NOPERM"}):
            await self._link.close()
            raise SeenUnavailable(self._names.shard, f"it says {refusal}")
        wrong = unfit(done.replies, self._facts)
        if wrong:
            await self._link.close()
            raise UsageError(f"seen shard {self._names.shard} at {self._link.address}: {wrong}")
        self._server = version(done.replies)


def _refusal(done: Exchange, codes: frozenset[str] = REFUSING) -> str:
    """The code with which the server says that it serves nobody; empty when it serves."""
    return next((failure.code for failure in done.failures if failure.code in codes), "")


def _chunks(commands: Sequence[Command], size: int) -> Iterator[Sequence[Command]]:
    for begin in range(0, len(commands), size):
        yield commands[begin : begin + size]
