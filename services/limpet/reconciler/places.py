"""Where the rows say that records are, in the order of the archive: too many for memory, so in a file that has no name.

SQLite deletes a temporary database when it is closed or its process dies, and spills to disk what its cache cannot
hold (https://www.sqlite.org/inmemorydb.html, "Temporary Databases").
"""

import sqlite3
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

CACHE_KIB: Final = 16_384
BATCH: Final = 2_000


class Place(NamedTuple):
    """Where an outcome says its response record is, and where the outcome is: shard and sequence number."""

    offset: int
    length: int
    shard: int
    seq: int


class Places:
    """Places by segment. Fill it, then read it. Use as `with`."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._waiting: list[tuple[int, int, int, int, int]] = []
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF").fetchall()
        self._database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._database.execute(
            "CREATE TABLE place (segment INTEGER, offset INTEGER, length INTEGER, shard INTEGER, seq INTEGER,"
            " PRIMARY KEY (segment, offset, shard, seq)) WITHOUT ROWID"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._database.close()

    def add(self, segment: str, place: Place) -> None:
        """Remember one place."""
        number = self._names.setdefault(segment, len(self._names))
        self._waiting.append((number, place.offset, place.length, place.shard, place.seq))
        if len(self._waiting) >= BATCH:
            self._flush()

    def segments(self) -> list[str]:
        """Every segment that a row names, sorted."""
        return sorted(self._names)

    def of(self, segment: str) -> Iterator[Place]:
        """The places in one segment by offset."""
        number = self._number(segment)
        sql = "SELECT offset, length, shard, seq FROM place WHERE segment = ? ORDER BY offset, shard, seq"
        return map(Place._make, self._database.execute(sql, (number,)))

    def count(self, segment: str) -> int:
        """How many places there are in one segment."""
        return self._one("SELECT count(*) FROM place WHERE segment = ?", (self._number(segment),)) or 0

    def end(self, segment: str) -> int:
        """Where the last acknowledged response record of a segment ends: everything before it was synced."""
        sql = "SELECT offset + length FROM place WHERE segment = ? ORDER BY offset DESC LIMIT 1"
        return self._one(sql, (self._number(segment),)) or 0

    def next_after(self, segment: str, offset: int) -> int | None:
        """The first place behind `offset`."""
        sql = "SELECT min(offset) FROM place WHERE segment = ? AND offset > ?"
        return self._one(sql, (self._number(segment), offset))

    def _number(self, segment: str) -> int:
        self._flush()
        return self._names.get(segment, -1)

    def _one(self, sql: str, params: tuple[int, ...]) -> int | None:
        row: tuple[int | None] | None = self._database.execute(sql, params).fetchone()
        return row[0] if row is not None else None

    def _flush(self) -> None:
        if self._waiting:
            self._database.execute("BEGIN")
            self._database.executemany("INSERT OR IGNORE INTO place VALUES (?, ?, ?, ?, ?)", self._waiting)
            self._database.execute("COMMIT")
            self._waiting.clear()
