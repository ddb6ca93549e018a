"""What was fetched of one partition and not yet handed out; the one thing that two threads touch."""

import threading
from collections import deque
from typing import Final

from confluent_kafka import KafkaError

from limpet.bus.port import Message

RESUME_SHARE: Final = 0.5


class Inbox:
    """Filled by the polling thread, emptied by the event loop. Bounded: when it is full, fetching is paused.

    It takes contiguous offsets only. What lies before the next one is a repetition and is dropped; what lies beyond it
    means that something is missing, and is a fault (`missing`), as is an error that the driver reports (`error`).
    """

    def __init__(self, offset: int, *, messages_max: int, bytes_max: int) -> None:
        self._messages: deque[Message] = deque()
        self._bytes = 0
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._paused = False
        self.start = offset  # `next` moves on as soon as the polling thread has something
        self.next = offset
        self.missing = False
        self.error: KafkaError | None = None

    def put(self, messages: list[Message]) -> bool:
        """Take what comes next; whether fetching is to be paused now."""
        with self._lock:
            for message in messages:
                offset = message.position.offset
                if offset > self.next:
                    self.missing = True
                if offset != self.next or self.missing:
                    continue
                self.next = offset + 1
                self._messages.append(message)
                self._bytes += len(message.payload)
            full = len(self._messages) >= self._messages_max or self._bytes >= self._bytes_max
            pause = full and not self._paused
            self._paused = self._paused or full
            return pause

    def fail(self, error: KafkaError) -> None:
        """Nothing will come any more."""
        self.error = error

    def take(self, limit: int) -> tuple[list[Message], bool]:
        """Up to `limit` messages, and whether fetching is to be resumed now."""
        with self._lock:
            taken = [self._messages.popleft() for _ in range(min(limit, len(self._messages)))]
            self._bytes -= sum(len(message.payload) for message in taken)
            low = len(self._messages) <= self._messages_max * RESUME_SHARE
            resume = self._paused and low and self._bytes <= self._bytes_max * RESUME_SHARE
            self._paused = self._paused and not resume
            return taken, resume

    def ready(self) -> bool:
        """Whether there is a message or a fault to receive."""
        return bool(self._messages) or self.missing or self.error is not None
