"""Requests of one moment that travel together: to the client each request costs more than what it carries.

Reads of single rows become one read of several partitions, plain writes one unlogged batch. Nobody waits for company:
what is asked for in one turn of the event loop goes out at its end. Who asks is answered only when the servers have
acknowledged, so that the order of effects is the caller's as before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

READS_MAX: Final = 16
"""Partitions of one read."""
WRITES_MAX: Final = 8
"""Statements of one batch; Cassandra warns of more than ten partitions."""
WRITE_BYTES_MAX: Final = 4_000
"""Of the values of one batch; Cassandra warns of 5 KiB. A single statement may be longer, and travels alone."""

READS: Final[Mapping[str, str]] = {"url_get": "urls_get", "url_of": "urls_of"}
"""Query of one row -> query of several by the list `fps`, which names them by `fp`."""
WRITES: Final = frozenset(
    {
        "due_enter",
        "part_enter",
        "wake_enter",
        "wake_slot_enter",
        "record_insert",
        "authority_meet",
        "host_authority_meet",
        "host_urls_put",
        "reject_put",
        "requests_put",
        "tally_put",
    }
)
"""Whatever is written twice in one batch is the same, or carries a timestamp of its own: the order does not matter."""

Row = dict[str, Any]
Ask = Callable[[str, Sequence[bytes]], Awaitable[Sequence[Row]]]
"""(query of several rows, their keys) -> those that are there."""


class Part(NamedTuple):
    """Bound statements that may not be parted, and who waits for them."""

    statements: Sequence[Any]
    bytes: int
    done: "asyncio.Future[None]"


class Joining:
    """Collects what is asked in one turn of the loop. `ask` and `write` send one request each."""

    def __init__(self, ask: Ask, write: Callable[[Sequence[Any]], Awaitable[None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ask, self._write = ask, write
        self._reads: dict[str, dict[bytes, asyncio.Future[Row | None]]] = {}
        self._writes: list[Part] = []
        self._leaving = False
        self._under_way: set[asyncio.Task[None]] = set()

    async def row(self, name: str, fp: bytes) -> Row | None:
        """The row of a query of `READS`. Raises what the read that it was part of raised."""
        waiting = self._reads.setdefault(name, {})
        found = waiting.get(fp)
        if found is None:
            found = waiting[fp] = self._loop.create_future()
            self._leave_soon()
        row = await asyncio.shield(found)  # somebody else may ask for the same
        return None if row is None else dict(row)

    async def written(self, statements: Sequence[Any]) -> None:
        """These statements, in one batch. Raises what the batch that they were part of raised."""
        part = Part(statements, sum(map(_bytes_of, statements)), self._loop.create_future())
        self._writes.append(part)
        self._leave_soon()
        await part.done

    def _leave_soon(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        self._leaving = False
        reads, self._reads = self._reads, {}
        writes, self._writes = self._writes, []
        for name, waiting in reads.items():
            keys = list(waiting)
            for begin in range(0, len(keys), READS_MAX):
                some = {fp: waiting[fp] for fp in keys[begin : begin + READS_MAX]}
                self._begin(self._read(name, some))
        for parts in cut(writes):
            self._begin(self._send(parts))

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _read(self, name: str, waiting: Mapping[bytes, "asyncio.Future[Row | None]"]) -> None:
        try:
            rows = {row["fp"]: row for row in await self._ask(READS[name], list(waiting))}
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            _fail(waiting.values(), error)
        else:
            for fp, found in waiting.items():
                if not found.done():
                    found.set_result(rows.get(fp))

    async def _send(self, parts: Sequence[Part]) -> None:
        try:
            await self._write([statement for part in parts for statement in part.statements])
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            _fail([part.done for part in parts], error)
        else:
            for part in parts:
                if not part.done.done():
                    part.done.set_result(None)


def cut(parts: Sequence[Part]) -> list[list[Part]]:
    """Batches of them within the bounds, in order."""
    found: list[list[Part]] = []
    statements, size = 0, 0
    for part in parts:
        statements, size = statements + len(part.statements), size + part.bytes
        if not found or statements > WRITES_MAX or size > WRITE_BYTES_MAX:
            found.append([])
            statements, size = len(part.statements), part.bytes
        found[-1].append(part)
    return found


def _bytes_of(statement: Any) -> int:
    return sum(len(value) for value in statement.values if isinstance(value, bytes))


def _fail(waiting: Any, error: BaseException) -> None:
    for one in waiting:
        if not one.done():
            one.set_exception(error)
            one.exception()  # whoever has gone away does not retrieve it
