"""One process's connection to the keyspace of a crawl: named queries, one verdict for each conditional write."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from limpet.clock import Clock, SystemClock
from limpet.model.errors import CannotGoOn, Definite
from limpet.schemas.cql import queries
from limpet.urlstore.cassandra import driver, errors
from limpet.urlstore.cassandra.bridge import Answers, Rows
from limpet.urlstore.cassandra.joining import READS, WRITES, Joining
from limpet.urlstore.cassandra.migrate import require
from limpet.urlstore.cassandra.pace import Pace
from limpet.urlstore.cassandra.settings import CassandraSettings

Row = dict[str, Any]
_APPLIED: Final = "[applied]"
_READS: Final = "SELECT"
SETTLE_TURNS_MAX: Final = 16
SETTLE_SECONDS: Final = 0.5


class Verdict(NamedTuple):
    """What a conditional write came to.

    `row`: when it was not applied, the cells that its conditions name (static ones as well) as they are; None when
    there is no such row.
    """

    applied: bool
    row: Row | None = None


class Tally(NamedTuple):
    """Statements sent since the session was opened, by name; conditional ones are among the statements too.

    `requests`: what they travelled in, since one may carry several (see `joining`).
    """

    statements: dict[str, int]
    conditional: dict[str, int]
    requests: int = 0


class _Known(NamedTuple):
    """A query as it was prepared."""

    prepared: Any
    params: frozenset[str]
    reads: bool


class Session:
    """Prepared, named queries at LOCAL_QUORUM and LOCAL_SERIAL, a bounded number under way at a time.

    Parameters are given by the names of the query's markers, all of them: nothing is left unset by omission, and None
    is refused, because it would be stored as a tombstone. Give `limpet.urlstore.cassandra.UNSET` for a cell that is not
    to be written. Reads are repeated once. Writes never are: one that was not acknowledged raises `Indefinite`, or
    `Definite` if it cannot have happened. `CannotGoOn`: the servers refuse the statement itself.
    """

    def __init__(self, settings: CassandraSettings, cluster: Any, connected: Any, clock: Clock) -> None:
        self.pace = Pace(settings.lag_us)
        self._settings = settings
        self._cluster = cluster
        self._session = connected
        self._clock = clock
        self._answers = Answers(asyncio.get_running_loop())
        self._slots = asyncio.Semaphore(settings.in_flight_max)
        self._preparing: dict[str, asyncio.Task[_Known]] = {}
        self._known: dict[str, _Known] = {}
        self._joining = Joining(self._ask_several, self._write_several)
        self._requests = 0
        self._statements: Counter[str] = Counter()
        self._conditional: Counter[str] = Counter()

    @classmethod
    async def open(cls, settings: CassandraSettings, clock: Clock | None = None) -> Self:
        """Connect to a keyspace with the tables of this release (see `migrate`).

        Raises `Definite` if no host answers, `CannotGoOn` for what another attempt cannot mend.
        """
        cluster = driver.cluster(settings)
        try:
            connected = await asyncio.to_thread(cluster.connect)
            await asyncio.to_thread(require, connected, settings)
            await asyncio.to_thread(connected.set_keyspace, settings.keyspace)
        except CannotGoOn:
            await asyncio.to_thread(cluster.shutdown)
            raise
        except Exception as error:
            await asyncio.to_thread(cluster.shutdown)
            raise errors.of_connect(error, f"keyspace {settings.keyspace}") from error
        return cls(settings, cluster, connected, clock or SystemClock())

    async def close(self) -> None:
        """Let go of the connections."""
        await asyncio.gather(*self._preparing.values(), return_exceptions=True)
        await asyncio.to_thread(self._cluster.shutdown)

    @property
    def settings(self) -> CassandraSettings:
        """What it was opened with."""
        return self._settings

    def tally(self) -> Tally:
        """What was sent so far."""
        return Tally(dict(self._statements), dict(self._conditional), self._requests)

    async def run(self, name: str, /, **params: Any) -> list[Row]:
        """A plain query: the rows of a read (all pages), nothing for a write."""
        if name in WRITES:
            await self.together((name, params))
            return []
        found, place = await self._page(name, params, None)
        while place is not None:
            more, place = await self._page(name, params, place)
            found += more
        return found

    async def together(self, *writes: tuple[str, Mapping[str, Any]]) -> None:
        """Plain writes in one batch: of one partition, whole or not at all. Others may travel with them."""
        statements = [await self._bound(name, params) for name, params in writes]
        for name, _ in writes:
            self._statements[name] += 1
        try:
            await self._joining.written(statements)
        except Exception as error:
            # A part of the batch may have been written, whatever it says of another one.
            raise errors.of_write(error, writes[0][0], conditional=True) from error

    async def one(self, name: str, /, **params: Any) -> Row | None:
        """The first row of a read."""
        if name in READS:
            await self._bound(name, params)  # it may be asked alone, and is refused as such
            self._statements[name] += 1
            return await self._joining.row(name, params["fp"])
        found = await self._page(name, params, None)
        return found[0][0] if found[0] else None

    async def settled(self, name: str, /, **params: Any) -> Row | None:
        """The first row of a read at LOCAL_SERIAL, which first ends what is under way on the partition.

        It is asked when a write went unanswered, so servers may be hard to reach: for a while it is asked again.
        """
        for turn in range(SETTLE_TURNS_MAX):
            try:
                found = await self._page(name, params, None, profile=driver.SERIAL)
            except Definite:
                if turn + 1 == SETTLE_TURNS_MAX:
                    raise
                await self._clock.sleep(SETTLE_SECONDS)
            else:
                return found[0][0] if found[0] else None
        return None

    async def pages(self, name: str, /, **params: Any) -> AsyncIterator[list[Row]]:
        """The rows of a read, a page at a time."""
        place: bytes | None = None
        while True:
            rows, place = await self._page(name, params, place)
            yield rows
            if place is None:
                return

    async def conditional(self, name: str, /, **params: Any) -> Verdict:
        """A conditional write. Raises `Indefinite` for one whose fate is unknown: read with `settled` and judge."""
        statement = await self._bound(name, params)
        self._statements[name] += 1
        self._conditional[name] += 1
        try:
            rows, _ = await self._send(statement, None, None)
        except Exception as error:
            raise errors.of_write(error, name, conditional=True) from error
        if rows[0][_APPLIED]:
            return Verdict(applied=True)
        cells = {cell: value for cell, value in rows[0].items() if cell != _APPLIED}
        return Verdict(applied=False, row=cells or None)

    async def _page(
        self, name: str, params: Mapping[str, Any], place: bytes | None, profile: str | None = None
    ) -> tuple[Rows, bytes | None]:
        statement, reads = await self._bound(name, params), self._known[name].reads
        self._statements[name] += 1
        return await self._asked(name, statement, place, profile, reads=reads)

    async def _asked(
        self, name: str, statement: Any, place: bytes | None, profile: str | None, *, reads: bool
    ) -> tuple[Rows, bytes | None]:
        attempts = 2 if reads else 1
        while True:
            attempts -= 1
            try:
                return await self._send(statement, place, profile)
            except Exception as error:
                cause = errors.of_read(error, name) if reads else errors.of_write(error, name, conditional=False)
                if attempts == 0 or not isinstance(cause, Definite):
                    raise cause from error
            await self._clock.sleep(SETTLE_SECONDS)

    async def _ask_several(self, name: str, fps: Sequence[bytes]) -> Rows:
        """See `joining.Ask`."""
        statement = await self._bound(name, {"fps": fps})
        rows, place = await self._asked(name, statement, None, None, reads=True)
        while place is not None:
            more, place = await self._asked(name, statement, place, None, reads=True)
            rows += more
        return rows

    async def _write_several(self, statements: Sequence[Any]) -> None:
        await self._send(statements[0] if len(statements) == 1 else driver.batch(statements), None, None)

    async def _bound(self, name: str, params: Mapping[str, Any]) -> Any:
        """The statement with its values. Raises ValueError or TypeError for values that cannot be stored."""
        known = self._known.get(name) or await self._prepare(name)
        if params.keys() != known.params:
            raise TypeError(f"query {name} takes {sorted(known.params)}, not {sorted(params)}")
        absent = [key for key, value in params.items() if value is None]
        if absent:
            raise ValueError(f"query {name}: no value for {', '.join(absent)}")
        return known.prepared.bind(params)

    async def _prepare(self, name: str) -> _Known:
        task = self._preparing.get(name)
        if task is None or (task.done() and task.exception() is not None):
            task = self._preparing[name] = asyncio.ensure_future(self._learn(name))
        try:
            return await asyncio.shield(task)
        except Exception as error:
            raise errors.of_read(error, name) from error

    async def _learn(self, name: str) -> _Known:
        text = queries()[name]
        prepared = await asyncio.to_thread(self._session.prepare, text, keyspace=self._settings.keyspace)
        params = frozenset(column.name for column in prepared.column_metadata)
        known = self._known[name] = _Known(prepared, params, text.startswith(_READS))
        return known

    async def _send(self, statement: Any, place: bytes | None, profile: str | None) -> tuple[Rows, bytes | None]:
        self._requests += 1
        statement.fetch_size = self._settings.page_rows
        more = {} if profile is None else {"execution_profile": profile}
        async with self._slots:
            request = self._session.execute_async(statement, paging_state=place, **more)
            return await self._answers.expect(request)
