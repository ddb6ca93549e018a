"""Groups of writes that belong together, and the receipt that each of them leaves.

Cassandra has no pipelines: a group is many statements under way at once, each with an answer of its own. So a group may
be done in part; its receipt says which part, and every group here may be sent again as a whole.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from limpet.clock import Clock
from limpet.model.errors import CannotGoOn, Definite, Indefinite
from limpet.receipts import Action, Ambiguous, CommandFailure, Receipt, Recorder, Role, Transport, Verdict
from limpet.receipts.types import FAILURES_KEPT_MAX
from limpet.urlstore.cassandra.guarded import AT_ONCE_MAX, each

CLIENT: Final = "cassandra-driver"

T = TypeVar("T")
R = TypeVar("R")


class Trade(NamedTuple):
    """What a group is for: its name, what its rows are to the crawl, the kind of statement, what a failure asks for."""

    operation: str
    role: Role
    statement: str
    action: Action = Action.RETRY


ADMIT: Final = Trade("rows.admit", Role.AUTHORITY, "INSERT url")
CLAIM: Final = Trade("rows.claim", Role.CLAIM, "UPDATE url IF")
RENEW: Final = Trade("rows.renew", Role.CLAIM, "UPDATE url IF")
HAND_BACK: Final = Trade("rows.hand_back", Role.CLAIM, "UPDATE url IF")
EXPIRE: Final = Trade("rows.expire", Role.AUTHORITY, "UPDATE url IF")
COUNT_HOSTS: Final = Trade("hosts.count", Role.DERIVED_INDEX, "INSERT host_urls")
COUNT_REJECTS: Final = Trade("rejects.count", Role.DERIVED_INDEX, "INSERT reject")
DELIVER: Final = Trade("notices.deliver", Role.DERIVED_INDEX, "UPDATE notice")
ACCEPT: Final = Trade("parse.accept", Role.AUTHORITY, "INSERT parse IF")
CANCEL: Final = Trade("rows.cancel", Role.AUTHORITY, "UPDATE url IF")
UNCANCEL: Final = Trade("rows.uncancel", Role.AUTHORITY, "UPDATE url IF")
REARM: Final = Trade("rows.rearm", Role.AUTHORITY, "UPDATE url IF")
WAIT_OUT: Final = Trade("rows.wait_out", Role.AUTHORITY, "UPDATE url IF")
REENTER: Final = Trade("sweep.reenter", Role.DERIVED_INDEX, "UPDATE url IF", Action.REPAIR)
LIST_UNPARSED: Final = Trade("sweep.unparsed", Role.DERIVED_INDEX, "INSERT unparsed", Action.REPAIR)
TRADES: Final = (
    ADMIT,
    CLAIM,
    RENEW,
    HAND_BACK,
    EXPIRE,
    COUNT_HOSTS,
    COUNT_REJECTS,
    DELIVER,
    ACCEPT,
    CANCEL,
    UNCANCEL,
    REARM,
    WAIT_OUT,
    REENTER,
    LIST_UNPARSED,
)
"""Every group of writes of this room; docs/urlstore-cassandra.md says of each how it is replayed and repaired."""


class Batches:
    """Sends groups and records them. `crawl`, `incarnation` and `target` are what receipts call them."""

    def __init__(self, recorder: Recorder, clock: Clock, *, crawl: str, incarnation: str, target: str) -> None:
        self._recorder, self._clock = recorder, clock
        self._crawl, self._incarnation, self._target = crawl, incarnation, target
        self._number = 0

    async def each(self, trade: Trade, items: Iterable[T], act: Callable[[T], Awaitable[R]]) -> list[R]:
        """`act` on every item, chunk by chunk, a receipt for each. Raises what the first failure of a chunk raises."""
        waiting = list(items)
        self._number += 1
        chunks = [waiting[begin : begin + AT_ONCE_MAX] for begin in range(0, len(waiting), AT_ONCE_MAX)]
        results: list[R] = []
        for number, chunk in enumerate(chunks, 1):
            at_us, began = self._clock.wall_us(), self._clock.monotonic()
            answers = await asyncio.gather(*(act(item) for item in chunk), return_exceptions=True)
            latency_us = int((self._clock.monotonic() - began) * 1e6)
            await self._recorder.record(self._receipt(trade, answers, (number, len(chunks)), (at_us, latency_us)))
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                results.append(answer)
        return results

    def _receipt(
        self, trade: Trade, answers: Sequence[object], chunk: tuple[int, int], timed: tuple[int, int]
    ) -> Receipt:
        failures = [
            CommandFailure(index=index, command=trade.statement, code=_code(answer))
            for index, answer in enumerate(answers)
            if isinstance(answer, BaseException)
        ]
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, Indefinite)]
        job = f"{self._incarnation}/{self._number}"
        return Receipt(
            operation=trade.operation,
            target=self._target,
            crawl=self._crawl,
            job=job,
            attempt=f"{job}/1",
            roles=((trade.role, len(answers)),),
            client=CLIENT,
            commands=len(answers),
            chunk=chunk[0],
            chunks=chunk[1],
            classes={trade.statement: len(answers)},
            transport=Transport.TIMED_OUT if unknown else Transport.COMPLETE,
            at_us=timed[0],
            latency_us=timed[1],
            succeeded=len(answers) - len(failures),
            failed=len(failures),
            failures=tuple(failures[:FAILURES_KEPT_MAX]),
            ambiguous=Ambiguous(begin=unknown[0], end=unknown[-1] + 1) if unknown else None,
            idempotent=True,
            action=trade.action if failures else Action.NONE,
            verdict=Verdict.UNKNOWN if failures else Verdict.ADMITTED,
        )


class Unrecorded:
    """The same without receipts: for readers, and for tests of something else."""

    async def each(self, trade: Trade, items: Iterable[T], act: Callable[[T], Awaitable[R]]) -> list[R]:  # noqa: ARG002
        """See `Batches.each`."""
        return await each(items, act)


Groups = Batches | Unrecorded
UNRECORDED: Final = Unrecorded()


def _code(error: BaseException) -> str:
    for kind, code in ((Indefinite, "INDEFINITE"), (Definite, "DEFINITE"), (CannotGoOn, "REFUSED")):
        if isinstance(error, kind):
            return code
    return "ERR"
