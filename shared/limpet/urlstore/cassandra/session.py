"""One process's connection to the keyspace of a crawl: named queries, one verdict for each conditional write."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, NamedTuple, Self

from limpet.clock import Clock, SystemClock
from limpet.model.errors import CannotGoOn, Definite
from limpet.schemas.cql import queries
from limpet.urlstore.cassandra import driver, errors
from limpet.urlstore.cassandra.bridge import Answers, Rows
from limpet.urlstore.cassandra.migrate import require
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
    """Statements sent since the session was opened, by name; conditional ones are among the statements too."""

    statements: dict[str, int]
    conditional: dict[str, int]


class Session:
    """Prepared, named queries at LOCAL_QUORUM and LOCAL_SERIAL, a bounded number under way at a time.

    Parameters are given by the names of the query's markers, all of them: nothing is left unset by omission, and None
    is refused, because it would be stored as a tombstone. Give `limpet.urlstore.cassandra.UNSET` for a cell that is not
    to be written. Reads are repeated once. Writes never are: one that was not acknowledged raises `Indefinite`, or
    `Definite` if it cannot have happened. `CannotGoOn`: the servers refuse the statement itself.
    """

    def __init__(self, settings: CassandraSettings, cluster: Any, connected: Any, clock: Clock) -> None:
        self._settings = settings
        self._cluster = cluster
        self._session = connected
        self._clock = clock
        self._answers = Answers(asyncio.get_running_loop())
        self._slots = asyncio.Semaphore(settings.in_flight_max)
        self._prepared: dict[str, asyncio.Task[Any]] = {}
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
        except CannotGoOn:
            await asyncio.to_thread(cluster.shutdown)
            raise
        except Exception as error:
            await asyncio.to_thread(cluster.shutdown)
            raise errors.of_connect(error, f"keyspace {settings.keyspace}") from error
        return cls(settings, cluster, connected, clock or SystemClock())

    async def close(self) -> None:
        """Let go of the connections."""
        await asyncio.gather(*self._prepared.values(), return_exceptions=True)
        await asyncio.to_thread(self._cluster.shutdown)

    @property
    def settings(self) -> CassandraSettings:
        """What it was opened with."""
        return self._settings

    def tally(self) -> Tally:
        """What was sent so far."""
        return Tally(dict(self._statements), dict(self._conditional))

    async def run(self, name: str, /, **params: Any) -> list[Row]:
        """A plain query: the rows of a read (all pages), nothing for a write."""
        found: list[Row] = []
        async for page in self.pages(name, **params):
            found += page
        return found

    async def one(self, name: str, /, **params: Any) -> Row | None:
        """The first row of a read."""
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
        self._conditional[name] += 1
        try:
            rows, _ = await self._send(name, statement, None, None)
        except Exception as error:
            raise errors.of_write(error, name, conditional=True) from error
        if rows[0][_APPLIED]:
            return Verdict(applied=True)
        cells = {cell: value for cell, value in rows[0].items() if cell != _APPLIED}
        return Verdict(applied=False, row=cells or None)

    async def _page(
        self, name: str, params: Mapping[str, Any], place: bytes | None, profile: str | None = None
    ) -> tuple[Rows, bytes | None]:
        statement = await self._bound(name, params)
        reads = statement.prepared_statement.query_string.startswith(_READS)
        attempts = 2 if reads else 1
        while True:
            attempts -= 1
            try:
                return await self._send(name, statement, place, profile)
            except Exception as error:
                cause = errors.of_read(error, name) if reads else errors.of_write(error, name, conditional=False)
                if attempts == 0 or not isinstance(cause, Definite):
                    raise cause from error
            await self._clock.sleep(SETTLE_SECONDS)

    async def _bound(self, name: str, params: Mapping[str, Any]) -> Any:
        """The statement with its values. Raises ValueError or TypeError for values that cannot be stored."""
        prepared = await self._prepare(name)
        wanted = {column.name for column in prepared.column_metadata}
        if wanted != params.keys():
            raise TypeError(f"query {name} takes {sorted(wanted)}, not {sorted(params)}")
        absent = [key for key, value in params.items() if value is None]
        if absent:
            raise ValueError(f"query {name}: no value for {', '.join(absent)}")
        return prepared.bind(params)

    async def _prepare(self, name: str) -> Any:
        task = self._prepared.get(name)
        if task is None or (task.done() and task.exception() is not None):
            task = asyncio.ensure_future(
                asyncio.to_thread(self._session.prepare, queries()[name], keyspace=self._settings.keyspace)
            )
            self._prepared[name] = task
        try:
            return await asyncio.shield(task)
        except Exception as error:
            raise errors.of_read(error, name) from error

    async def _send(
        self, name: str, statement: Any, place: bytes | None, profile: str | None
    ) -> tuple[Rows, bytes | None]:
        self._statements[name] += 1
        statement.fetch_size = self._settings.page_rows
        more = {} if profile is None else {"execution_profile": profile}
        async with self._slots:
            request = self._session.execute_async(statement, paging_state=place, **more)
            return await self._answers.expect(request)
