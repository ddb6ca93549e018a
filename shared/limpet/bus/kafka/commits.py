"""Commits of many partitions in few requests, one request at a time, never backwards."""

import asyncio
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from limpet.bus.kafka.cluster import Cluster, Place
from limpet.bus.kafka.errors import REBALANCING, error_of, refusal
from limpet.bus.kafka.reader import Reader
from limpet.model.errors import Indefinite, LimpetError

REPEATED: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._WAIT_COORD,  # noqa: SLF001 - the driver's public names of local errors begin so
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._IN_PROGRESS,  # noqa: SLF001
    }
)
AGAIN_SECONDS: Final = 0.1


class RebalancingError(Exception):
    """The commit met a rebalance; repeat it if the partition is still ours."""


class Commits:
    """The commits of one group by one reader.

    Kafka takes any offset from anybody who may commit. So what the group committed is asked before each request, and an
    offset below it is not sent: a reader that was replaced and does not know it yet does not set the group back. One
    that was stopped between question and request still could; that costs duplicates, and the next commit of the new
    reader mends it.
    """

    def __init__(self, cluster: Cluster, reader: Reader, group: str) -> None:
        self._cluster = cluster
        self._reader = reader
        self._group = group
        self._wanted: dict[Place, int] = {}
        self._durable: dict[Place, int] = {}
        self._turn = asyncio.Lock()

    def begin(self, place: Place, offset: int) -> None:
        """A partition is read from its committed offset on."""
        self._durable[place] = offset
        self._wanted.pop(place, None)

    async def commit(self, place: Place, offset: int) -> None:
        """Return when the group's offset is durably at `offset` or beyond.

        Raises `RebalancingError`; `Indefinite` when no answer came; `DeniedError`. Callers share requests: who waits
        while one is under way goes with the next.
        """
        self._wanted[place] = max(offset, self._wanted.get(place, 0))
        async with self._turn:
            if self._durable.get(place, 0) >= offset:
                return
            batch, self._wanted = {place: offset, **self._wanted}, {}
            failed = await self._request(batch)
        if place in failed:
            raise self._error(failed[place], place)

    async def _request(self, batch: dict[Place, int]) -> dict[Place, KafkaError]:
        """What could not be committed."""
        theirs = await self._cluster.committed(self._group, batch)
        self._durable.update({place: max(offset, self._durable.get(place, 0)) for place, offset in theirs.items()})
        ahead = {place: offset for place, offset in batch.items() if offset > theirs.get(place, 0)}
        if not ahead:
            return {}
        end = self._cluster.clock.monotonic() + self._cluster.settings.request_seconds_max
        while True:
            answers = await self._send(ahead)
            failed = {place: error for place, error in answers.items() if error is not None}
            self._durable.update({place: ahead[place] for place in answers if place not in failed})
            again = {place: ahead[place] for place, error in failed.items() if error.code() in REPEATED}
            if not again or self._cluster.clock.monotonic() >= end:
                return failed
            ahead = again
            await self._cluster.clock.sleep(AGAIN_SECONDS)

    async def _send(self, ahead: dict[Place, int]) -> dict[Place, KafkaError | None]:
        try:
            async with asyncio.timeout(self._cluster.settings.request_seconds_max):
                return await self._reader.commit(ahead)
        except KafkaException as exception:
            return dict.fromkeys(ahead, error_of(exception))
        except TimeoutError:
            return dict.fromkeys(ahead, KafkaError(KafkaError._TIMED_OUT_QUEUE))  # noqa: SLF001 - not to be repeated

    def _error(self, error: KafkaError, place: Place) -> Exception:
        what = f"committing {place[0]}[{place[1]}] for group {self._cluster.settings.group(self._group)}"
        if error.code() in REBALANCING:
            return RebalancingError(f"{what}: {error.name()}")
        refused: LimpetError | None = refusal(error, what)
        return refused or Indefinite(f"{what}: {error.name()}: {error.str()}")
