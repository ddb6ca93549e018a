"""Messages on their way: one driver's producer, one thread that hears what became of them, confirms in bulk.

The thread runs `poll`, in which the driver calls back for each message. A publish waits on one future for all of its
messages, and the event loop is woken once for everything that one `poll` brought.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from limpet.bus.kafka.errors import error_of
from limpet.clock.port import Clock

POLL_SECONDS: Final = 0.1
FULL_SECONDS: Final = 0.005
FLUSH_SECONDS: Final = 1.0
_LOG = logging.getLogger("limpet.kafka")

Headers = tuple[tuple[str, bytes], ...]


class Outgoing(msgspec.Struct, frozen=True):
    """One message to send."""

    partition: int
    payload: bytes
    headers: Headers = ()


class Driver(Protocol):
    """What is used of `confluent_kafka.Producer`."""

    def produce(
        self, topic: str, value: bytes, *, partition: int, headers: Any, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        """Queue one message; BufferError when the queue is full."""
        ...

    def poll(self, timeout: float) -> int:
        """Wait for news and call back."""
        ...

    def flush(self, timeout: float) -> int:
        """Wait until nothing is on its way."""
        ...

    def purge(self) -> None:
        """Give up what is on its way."""
        ...


class Receipts:
    """What became of the messages of one publish: an offset or an error for each, in their order."""

    def __init__(self, count: int, future: asyncio.Future[None]) -> None:
        self.offsets = [-1] * count
        self.errors: dict[int, KafkaError] = {}
        self.future = future
        self._left = count
        self._lock = threading.Lock()  # a refusal comes on the event loop's thread, a delivery on the polling one

    def fail(self, index: int, error: KafkaError) -> bool:
        """This message is not confirmed; whether it was the last to be settled."""
        self.errors[index] = error
        return self._one_less()

    def confirm(self, index: int, offset: int) -> bool:
        """This message lies at `offset`; whether it was the last to be settled."""
        self.offsets[index] = offset
        return self._one_less()

    def _one_less(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left == 0

    def settle(self) -> None:
        """Tell who waits."""
        if not self.future.done():
            self.future.set_result(None)


class Delivery:
    """One driver's producer until it is closed or fails for good (`failed`). Use it on one event loop."""

    def __init__(
        self, config: dict[str, Any], clock: Clock, *, make: Callable[[dict[str, Any]], Any] = Producer
    ) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._driver: Driver = make({**config, "error_cb": self._heard, "logger": _LOG})
        self._order = asyncio.Lock()
        self._settled: list[Receipts] = []  # of the polling thread alone
        self._under_way: dict[Receipts, float] = {}  # since when
        self._stopping = False
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.failed: KafkaError | None = None
        self.confirmed = float("-inf")  # when something was last confirmed
        threading.Thread(target=self._serve, name="kafka-delivery", daemon=True).start()

    async def send(self, topic: str, messages: Sequence[Outgoing]) -> Receipts:
        """Queue all messages in order, wait until each is settled."""
        receipts = Receipts(len(messages), self._loop.create_future())
        self._under_way[receipts] = self._clock.monotonic()
        try:
            async with self._order:
                for index, message in enumerate(messages):
                    await self._queue(topic, message, receipts, index)
            await receipts.future
        finally:
            del self._under_way[receipts]
        if len(receipts.errors) < len(messages):
            self.confirmed = self._clock.monotonic()
        return receipts

    async def _queue(self, topic: str, message: Outgoing, receipts: Receipts, index: int) -> None:
        """Hand one message to the driver; when its queue is full, everybody behind waits."""
        headers = list(message.headers) or None
        told = partial(self._delivered, receipts, index)
        while True:
            try:
                self._driver.produce(
                    topic, message.payload, partition=message.partition, headers=headers, on_delivery=told
                )
            except BufferError:
                await self._clock.sleep(FULL_SECONDS)
            except KafkaException as exception:  # refused before it was queued
                if receipts.fail(index, error_of(exception)):
                    receipts.settle()
                return
            else:
                return

    def oldest_seconds(self) -> float:
        """For how long the oldest publish has been waiting."""
        now = self._clock.monotonic()
        return now - min(self._under_way.values(), default=now)

    def _delivered(self, receipts: Receipts, index: int, error: KafkaError | None, message: Message) -> None:
        """On the polling thread."""
        if error is None:
            last = receipts.confirm(index, message.offset() or 0)
        else:
            last = receipts.fail(index, error)
            self._heed(error)
        if last:
            self._settled.append(receipts)

    def _heed(self, error: KafkaError) -> None:
        if error.fatal() or error.code() == KafkaError._FATAL:  # noqa: SLF001 - the driver's name for it
            self.failed = error

    def _heard(self, error: KafkaError) -> None:
        self._heed(error)
        _LOG.warning("kafka producer: %s", error.str())

    # -- the polling thread ------------------------------------------------------------------------------------------
    def _serve(self) -> None:
        while not self._stopping:
            self._driver.poll(POLL_SECONDS)
            self._tell(self._settle)
        self._driver.flush(FLUSH_SECONDS)
        self._driver.purge()
        self._driver.flush(FLUSH_SECONDS)
        self._tell(self._settle)
        self._tell(self._end, always=True)

    def _tell(self, what: Callable[[list[Receipts]], Any], *, always: bool = False) -> None:
        if not self._settled and not always:
            return
        settled, self._settled = self._settled, []
        try:
            self._loop.call_soon_threadsafe(what, settled)
        except RuntimeError:  # the loop is closed: nobody waits
            self._stopping = True

    @staticmethod
    def _settle(settled: list[Receipts]) -> None:
        for receipts in settled:
            receipts.settle()

    def _end(self, settled: list[Receipts]) -> None:
        self._settle(settled)
        if not self._ended.done():
            self._ended.set_result(None)

    async def close(self) -> None:
        """Wait a moment for what is on its way, give up the rest: its publishers learn that it is unknown."""
        self._stopping = True
        await asyncio.shield(self._ended)

    def retire(self) -> None:
        """`close` that nobody waits for."""
        self._stopping = True
