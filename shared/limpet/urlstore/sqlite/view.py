"""A shard's file seen from outside: cheap enough to be asked every second, by any process."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeVar

from limpet.model.outcome import Outcome
from limpet.runtime.sqlitetx import Reader
from limpet.urlstore.sqlite import codes, reading, upkeep
from limpet.urlstore.sqlite.dueindex import earliest
from limpet.urlstore.sqlite.upkeep import Anchor
from limpet.urlstore.types import ParseOutput, UrlRow

T = TypeVar("T")


class Readable(Protocol):
    """A file of this process (`SqliteFile`) or of another (`ReadOnlyFile`)."""

    def read(self, op: Callable[[Reader], T]) -> T:
        """`op` over everything that is committed."""
        ...

    @property
    def totals(self) -> dict[str, int]:
        """Committed counters."""
        ...


class Unfinished(NamedTuple):
    """What keeps a crawl from being done, besides what is due and what is unconsumed."""

    leased: int
    jobs: int
    jobs_in_review: int
    repairs: int


class QueueState(NamedTuple):
    """A queue with its earliest entry and when that can be sent at the earliest, which waits may push back.

    `reason` names the wait that decides, "" when the due time itself does.
    """

    authority: str
    host: str
    due_us: int
    effective_us: int
    reason: str


class ShardView:
    """Reads one shard's file. Every answer is what was committed when it was asked."""

    def __init__(self, file: Readable) -> None:
        self._file = file

    def counters(self) -> dict[str, int]:
        """The counters of `limpet.urlstore.counters`."""
        return self._file.totals

    def unfinished(self) -> Unfinished:
        """Counted from the rows themselves, not from gauges."""

        def op(reader: Reader) -> Unfinished:
            jobs: dict[str, int] = dict(reader.all("job_counts"))
            leased, repairs = reader.value("lease_count"), reader.value("repair_count")
            return Unfinished(leased, jobs.get("open", 0), jobs.get("review", 0), repairs)

        return self._file.read(op)

    def queues(self) -> list[QueueState]:
        """Every queue with an entry, by effective time. Costs two seeks a queue, whatever the number of URLs."""

        def op(reader: Reader) -> list[QueueState]:
            return [state for row in reader.all("queues") if (state := _queue_state(*row[1:])) is not None]

        return sorted(self._file.read(op), key=lambda queue: queue.effective_us)

    def anchor(self) -> Anchor | None:
        """What the shard's times count by: see `Anchor`. None for a shard that nobody has opened yet."""
        return self._file.read(upkeep.anchor)

    def cancelled_hosts(self, reason: str) -> list[str]:
        """Hosts with rows that were cancelled for `reason`. Looks at every row of the shard."""
        return self._file.read(lambda reader: [host for (host,) in reader.all("cancelled_hosts", (reason,))])

    def next_due(self) -> int | None:
        """The earliest effective time of any queue, None when nothing is due now or later."""
        queues = self.queues()
        return queues[0].effective_us if queues else None

    def log_end(self, topic: str) -> dict[int, int]:
        """Partition -> one past the last message this shard wrote to it."""
        parts = self._file.read(lambda reader: reader.all("log_parts"))
        return {partition: finish for name, partition, _, finish in parts if name == topic}

    def log_start(self, topic: str) -> dict[int, int]:
        """Partition -> first message of this shard that retention did not drop."""
        parts = self._file.read(lambda reader: reader.all("log_parts"))
        return {partition: start for name, partition, start, _ in parts if name == topic}

    def committed(self, topic: str) -> dict[int, dict[int, int]]:
        """Partition -> source -> next message to read, for the consumers that keep their offsets in this file."""
        found: dict[int, dict[int, int]] = {}
        for name, partition, source, offset in self._file.read(lambda reader: reader.all("consumed")):
            if name == topic:
                found.setdefault(partition, {})[source] = offset
        return found

    def row(self, fp: bytes) -> UrlRow | None:
        """One row."""
        return self._file.read(lambda reader: reading.row(reader, fp))

    def outcomes(self, fp: bytes) -> list[Outcome]:
        """Outcomes of one URL, oldest first."""
        return self._file.read(lambda reader: reading.outcomes(reader, fp))

    def output(self, fp: bytes, fetched_us: int, parser_version: int) -> ParseOutput | None:
        """What a version of the parser made of one outcome's body, None when it has not been parsed."""
        return self._file.read(lambda reader: reading.output(reader, fp, fetched_us, parser_version))

    def rows_in_batches(self, size: int) -> Iterator[list[UrlRow]]:
        """Every row in the order of admission, at most `size` at a time; clashing candidates come last."""
        after = 0
        while batch := self._file.read(lambda reader: reader.all("rows_after", (after, size))):  # noqa: B023 - called at once
            after = batch[-1][0]
            yield [codes.url_row(row) for row in batch]
        clashes = self._file.read(reading.clashing)
        if clashes:
            yield clashes

    def outcomes_in_batches(self, size: int) -> Iterator[list[Outcome]]:
        """Every outcome in the order of completion, at most `size` at a time."""
        after = 0
        while batch := self._file.read(lambda reader: reader.all("outcomes_after", (after, size))):  # noqa: B023 - see above
            after = batch[-1][0]
            yield [codes.outcome(data) for _, data in batch]


def _queue_state(
    authority: str,
    host: str,
    soon_us: int | None,
    new_us: int | None,
    wait_us: int,
    wait_reason: str,
    host_wait_us: int,
    host_wait_reason: str,
) -> QueueState | None:
    due_us = earliest(soon_us, new_us)
    if due_us is None:
        return None
    effective_us, reason = max((due_us, ""), (wait_us, wait_reason), (host_wait_us, host_wait_reason))
    return QueueState(authority, host, due_us, effective_us, reason)
