"""What an operation on a SQLite file gets to work with: named queries, counters, and a word after the commit."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Params = Sequence[Any]
Row = tuple[Any, ...]


class Reader:
    """Named queries over one connection. Every result is fetched whole, so that no statement pins an old snapshot."""

    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        self._cursor = connection.cursor()
        self._queries = queries

    def all(self, name: str, params: Params = ()) -> list[Row]:
        """Every row of query `name`."""
        return self._cursor.execute(self._queries[name], params).fetchall()

    def one(self, name: str, params: Params = ()) -> Row | None:
        """The first row of query `name`, or None."""
        rows = self._cursor.execute(self._queries[name], params).fetchall()
        return rows[0] if rows else None

    def value(self, name: str, params: Params = ()) -> Any:
        """The first column of the first row of query `name`, or None."""
        rows = self._cursor.execute(self._queries[name], params).fetchall()
        return rows[0][0] if rows else None


class Tx(Reader):
    """The open transaction of a file. An operation must be repeatable: its group may be run a second time.

    `counts` are changes of counters, written once for the whole transaction; `after` runs once it is durable.
    """

    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        super().__init__(connection, queries)
        self.counts: dict[str, int] = {}
        self.after: dict[Callable[[], None], None] = {}

    def run(self, name: str, params: Params = ()) -> int:
        """Run a write; the number of rows it changed."""
        return self._cursor.execute(self._queries[name], params).rowcount

    def many(self, name: str, rows: Iterable[Params]) -> int:
        """Run one write for each of `rows`; the number of rows changed."""
        return self._cursor.executemany(self._queries[name], rows).rowcount

    def insert(self, name: str, params: Params = ()) -> int:
        """Run an INSERT; the rowid of the new row."""
        self._cursor.execute(self._queries[name], params)
        rowid = self._cursor.lastrowid
        assert rowid is not None  # SQLite sets it for every INSERT into a rowid table
        return rowid

    def count(self, counter: str, delta: int = 1) -> None:
        """Change a counter in this transaction."""
        self.counts[counter] = self.counts.get(counter, 0) + delta

    def then(self, callback: Callable[[], None]) -> None:
        """Call `callback`, once, on the event loop when the transaction is durable, before its writers hear of it."""
        self.after[callback] = None
