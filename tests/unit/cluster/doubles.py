"""Tables, groups and consumers in memory, some of which can be away. They wait in virtual time."""

from collections import deque
from collections.abc import Sequence

from limpet.bus import Consumer, LostPartitionError, Message, Position
from limpet.clock import Clock
from limpet.model.errors import Indefinite, LimpetError


class MemoryFacts:
    """See `FactsTable`."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    async def read(self, name: str) -> bytes | None:
        """See `FactsTable.read`."""
        return self.values.get(name)

    async def write_once(self, name: str, value: bytes) -> bytes:
        """See `FactsTable.write_once`."""
        return self.values.setdefault(name, value)


class MemoryConsumer:
    """See `Consumer`: one partition, whose commits can fail."""

    def __init__(self, clock: Clock, payloads: Sequence[bytes], partition: int = 0) -> None:
        self._clock = clock
        self._waiting = deque(
            Message(Position(partition, 0, offset), payload) for offset, payload in enumerate(payloads)
        )
        self.committed: list[int] = []
        self.faults: deque[Exception] = deque()  # of commits
        self.gaps: deque[Exception] = deque()  # of receipts
        self.lost = False

    async def receive(self, limit: int) -> list[Message]:
        """See `Consumer.receive`."""
        if self.lost:
            raise LostPartitionError("lost")
        if self.gaps:
            raise self.gaps.popleft()
        return [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]

    async def commit(self, positions: Sequence[Position]) -> None:
        """See `Consumer.commit`."""
        if self.lost:
            raise LostPartitionError("lost")
        if self.faults:
            raise self.faults.popleft()
        self.committed += [position.offset for position in positions]

    def uncommitted(self) -> dict[int, int]:
        """See `Consumer.uncommitted`."""
        return {0: len(self.committed)}

    async def wait(self, seconds: float) -> None:
        """See `Consumer.wait`."""
        await self._clock.sleep(seconds)


class MemoryMember:
    """See `Member`: a group that gives and takes partitions on demand."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.consumers: dict[int, MemoryConsumer] = {}

    def share(self) -> frozenset[int]:
        """See `Member.share`."""
        return frozenset(self.consumers)

    def consumer(self, partition: int) -> Consumer:
        """See `Member.consumer`."""
        return self.consumers[partition]

    async def changed(self, seconds: float) -> bool:
        """See `Member.changed`."""
        await self._clock.sleep(seconds)
        return True

    def revoke(self, partition: int) -> None:
        """Give a partition to somebody else."""
        self.consumers.pop(partition).lost = True


class Aside:
    """See `SetAside`."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, str]] = []
        self.well = 0
        self.fault: LimpetError | None = None

    async def set_aside(self, message: Message, reason: str) -> None:
        """See `SetAside.set_aside`."""
        if self.fault is not None:
            raise self.fault
        self.messages.append((message.payload, reason))

    def succeeded(self) -> None:
        """See `SetAside.succeeded`."""
        self.well += 1


class Flaky:
    """A step that fails so often before it holds."""

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or Indefinite("no answer")
        self.calls = 0

    async def __call__(self) -> str:
        """The step."""
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return "held"


class MemoryAttempts:
    """See `AttemptTable`."""

    def __init__(self) -> None:
        self.readers: dict[tuple[str, int], tuple[str, bool]] = {}
        self.attempts: dict[tuple[str, int, int], int] = {}

    async def begin(self, topic: str, partition: int, holder: str) -> bool:
        """See `AttemptTable.begin`."""
        _, clean = self.readers.get((topic, partition), ("", True))
        self.readers[topic, partition] = (holder, False)
        return clean

    async def end(self, topic: str, partition: int, holder: str) -> None:
        """See `AttemptTable.end`."""
        if self.readers.get((topic, partition), ("", False))[0] == holder:
            self.readers[topic, partition] = (holder, True)

    async def mark(self, topic: str, partition: int, offset: int) -> int:
        """See `AttemptTable.mark`."""
        key = (topic, partition, offset)
        self.attempts[key] = self.attempts.get(key, 0) + 1
        return self.attempts[key]

    async def acquit(self, topic: str, partition: int, offset: int) -> None:
        """See `AttemptTable.acquit`."""
        self.attempts[topic, partition, offset] = 0
