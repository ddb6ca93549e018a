"""One driver's consumer for many partitions, and the thread that polls it.

The thread never waits for the event loop: what it fetches goes into the inbox of its partition, and a full inbox pauses
that partition alone. Because it always polls, slow work never makes the group think that this process is dead.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from limpet.bus.kafka.cluster import Place
from limpet.bus.kafka.errors import error_of
from limpet.bus.kafka.inbox import Inbox
from limpet.bus.port import Message, Position

T = TypeVar("T")

POLL_SECONDS: Final = 0.1
BATCH_MESSAGES: Final = 500
_LOG = logging.getLogger("limpet.kafka")

Committed = Callable[[KafkaError | None, list[TopicPartition]], None]


class Reader:
    """Polls until it is closed. `wake` is called on the event loop with the places that have news."""

    def __init__(self, config: dict[str, Any], *, wake: Callable[[set[Place]], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = wake
        self._committed: Committed | None = None
        self.driver = confluent_kafka.Consumer(
            {**config, "on_commit": self._on_commit, "error_cb": self._heard, "logger": _LOG}
        )
        self.inboxes: dict[Place, Inbox] = {}
        self._stopping = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._serve, name="kafka-reader", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    # -- on the event loop -------------------------------------------------------------------------------------------
    def assign(self, place: Place, inbox: Inbox) -> None:
        """Fetch a partition from the inbox's next offset on; again, if it is fetched already."""
        if place in self.inboxes:
            self.unassign(place)
        self.begin({place: inbox})

    def begin(self, inboxes: dict[Place, Inbox]) -> None:
        """Fetch what is not fetched yet. What was paused in an earlier assignment would still be: it is resumed."""
        self.inboxes.update(inboxes)
        parts = [TopicPartition(*place, inbox.next) for place, inbox in inboxes.items()]
        self.driver.incremental_assign(parts)
        self.driver.resume(parts)

    def unassign(self, place: Place) -> None:
        """Stop fetching a partition."""
        if self.inboxes.pop(place, None) is not None:
            with contextlib.suppress(KafkaException):  # a rebalance may have been faster
                self.driver.incremental_unassign([TopicPartition(*place)])

    def resume(self, place: Place) -> None:
        """Fetch on after a pause."""
        with contextlib.suppress(KafkaException):  # no longer assigned
            self.driver.resume([TopicPartition(*place)])

    async def commit(self, offsets: dict[Place, int]) -> dict[Place, KafkaError | None]:
        """One commit request, one at a time; what became of each. Raises KafkaException; waits without a bound."""
        wanted = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        answer: asyncio.Future[dict[Place, KafkaError | None]] = self._loop.create_future()

        def told(error: KafkaError | None, parts: list[TopicPartition]) -> None:
            found = {(part.topic, part.partition): part.error or error for part in parts}
            if {(part.topic, part.partition): part.offset for part in parts} == offsets:  # not of an older request
                self._call(lambda: _resolve(answer, found))

        self._committed = told
        self.driver.commit(offsets=wanted, asynchronous=True)
        return await answer

    async def close(self) -> None:
        """Leave the group and stop."""
        self._stopping = True
        if self._thread.is_alive():
            await asyncio.shield(self._ended)

    # -- on the polling thread ---------------------------------------------------------------------------------------
    def _serve(self) -> None:
        while not self._stopping:
            try:
                first = self.driver.poll(POLL_SECONDS)
                if first is not None:  # `consume` alone would wait for a full batch
                    self._sort([first, *self.driver.consume(BATCH_MESSAGES, 0)])
            except KafkaException as exception:
                self._fail(error_of(exception))
        with contextlib.suppress(KafkaException, RuntimeError):
            self.driver.close()
        self._call(lambda: _resolve(self._ended, None))

    def _sort(self, fetched: list[Any]) -> None:
        """Every message into the inbox of its partition."""
        found: dict[Place, list[Message]] = {}
        news: set[Place] = set()
        for message in fetched:
            place = (message.topic(), message.partition())
            error = message.error()
            if error is None:
                headers = tuple(message.headers() or ())
                position = Position(place[1], 0, message.offset())
                found.setdefault(place, []).append(Message(position, message.value() or b"", headers))
            else:
                news |= self._fail_one(place, error)
        for place, messages in found.items():
            inbox = self.inboxes.get(place)
            if inbox is not None:
                news.add(place)
                if inbox.put(messages):
                    self._pause(place)
        if news:
            self._call(lambda: self._wake(news))

    def _pause(self, place: Place) -> None:
        with contextlib.suppress(KafkaException):  # no longer assigned
            self.driver.pause([TopicPartition(*place)])

    def _fail_one(self, place: Place, error: KafkaError) -> set[Place]:
        """An error about one partition, or about all of them when the driver names none."""
        if not error.fatal() and (error.retriable() or error.code() in TRANSIENT):
            return set()
        _LOG.warning("kafka consumer: %s[%s]: %s", *place, error.str())
        hit = {place} & set(self.inboxes) if place[0] is not None else set(self.inboxes)
        for each in hit:
            inbox = self.inboxes.get(each)
            if inbox is not None:
                inbox.fail(error)
        return hit

    def _fail(self, error: KafkaError) -> None:
        for inbox in list(self.inboxes.values()):
            inbox.fail(error)
        self._call(lambda: self._wake(set(self.inboxes)))

    def _on_commit(self, error: KafkaError | None, parts: list[TopicPartition]) -> None:
        told = self._committed
        if told is not None:
            told(error, parts)

    def _heard(self, error: KafkaError) -> None:
        _LOG.warning("kafka consumer: %s", error.str())
        if error.fatal() or error.code() in FATAL:
            self._fail(error)

    def _call(self, what: Callable[[], Any]) -> None:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop is closed: nobody waits
            self._stopping = True


def _resolve(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


TRANSIENT: Final = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001 - the driver's public names of local errors begin so
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
    }
)
"""The driver goes on by itself after these."""

FATAL: Final = frozenset({KafkaError._FATAL, KafkaError._AUTHENTICATION})  # noqa: SLF001
