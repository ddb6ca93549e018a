"""Every exchange of a crawl, sorted by host and time: too many for memory, so in a file that has no name.

See `limpet.reconciler.places` for what such a file is.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Any, Final, Self

import msgspec

from limpet.reconciler.audit_answers import Answer

CACHE_KIB: Final = 32_768
BATCH: Final = 2_000


class ExchangeKind(IntEnum):
    """What a request was for. Their order is that of exchanges with one start."""

    ROBOTS = 0
    PAGE = 1
    FAILURE = 2  # a page that no HTTP answer came for: an outcome without a record
    CONTACT = 3  # a response whose metadata is missing


class Exchange(msgspec.Struct, frozen=True, array_like=True):
    """One request and what came of it, as far as politeness goes. Times in microseconds since the epoch."""

    host: str
    start_us: int
    end_us: int
    kind: ExchangeKind
    authority: str
    url: str
    digest: str = ""  # of the copy that is named as its licence
    gap_us: int = 0  # recorded as in force at the send
    until_us: int = 0  # end of the wait that its answer asked for
    incarnation: int = 0
    where: str = ""  # segment+offset
    address: str = ""  # where it went
    connect_us: int = 0  # before `start_us`: its permit was given then
    status: int = 0  # of its answer, 0 = none came
    failure: str = ""  # why none came
    number: int = 0  # given by `Evidence`


class Held(msgspec.Struct, frozen=True, array_like=True):
    """What a request held of something that hosts share, from its permit to its end."""

    key: str  # "domain …", "platform …", "address …"
    start_us: int
    end_us: int
    owned: bool
    address: str
    until_us: int
    number: int  # of the exchange


_TABLES: Final = """
CREATE TABLE exchange (
  host TEXT, start_us INTEGER, end_us INTEGER, kind INTEGER, authority TEXT, url TEXT, digest TEXT, gap_us INTEGER,
  until_us INTEGER, incarnation INTEGER, place TEXT, address TEXT, connect_us INTEGER, status INTEGER, failure TEXT,
  number INTEGER PRIMARY KEY
);
CREATE TABLE expected (url TEXT, start_us INTEGER, segment TEXT, status INTEGER);
CREATE TABLE held (
  key TEXT, start_us INTEGER, end_us INTEGER, owned INTEGER, address TEXT, until_us INTEGER, number INTEGER
);
CREATE TABLE host (name TEXT PRIMARY KEY, domain TEXT) WITHOUT ROWID;
CREATE TABLE answer (
  url TEXT, start_us INTEGER, end_us INTEGER, status INTEGER, meaning TEXT, digest TEXT, body_digest TEXT, target TEXT
);
CREATE TABLE body (digest TEXT PRIMARY KEY, data BLOB) WITHOUT ROWID;
"""
_INDEXES: Final = """
CREATE INDEX answer_url ON answer (url, start_us);
CREATE INDEX answer_digest ON answer (digest, url);
CREATE INDEX answer_target ON answer (target) WHERE target != '';
CREATE INDEX expected_trouble ON expected (url, start_us) WHERE status >= 400;
"""


class Evidence:
    """Fill it, `settle` it, then read it. Use as `with`."""

    def __init__(self) -> None:
        self._waiting: list[Exchange] = []
        self._holding: list[Held] = []
        self._expected: list[tuple[str, int, str, int]] = []
        self._count = 0
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode = OFF").fetchall()
        self._database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._database.executescript(_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._database.close()

    # -- filling -------------------------------------------------------------------------------------------------------
    def add(self, exchange: Exchange) -> None:
        """One exchange."""
        self._waiting.append(exchange)
        if len(self._waiting) >= BATCH:
            self._flush()

    def expect(self, url: str, start_us: int, segment: str, status: int) -> None:
        """An exchange that the rows know, in a segment that may or may not show it."""
        self._expected.append((url, start_us, segment, status))
        if len(self._expected) >= BATCH:
            self._flush_expected()

    def add_answer(self, answer: Answer, body: bytes | None) -> None:
        """What a request for robots.txt brought; equal bodies are kept once."""
        values = msgspec.structs.astuple(answer)
        self._database.execute("INSERT INTO answer VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        if body is not None:
            self._database.execute("INSERT OR IGNORE INTO body VALUES (?, ?)", (answer.digest, body))

    def settle(self) -> None:
        """Nothing more will be added."""
        self._flush()
        self._flush_expected()
        self._database.executescript(_INDEXES)

    def name_domains(self, domain_of: Callable[[str], str]) -> None:
        """Note the domain of every host, for `hosts_of`."""
        hosts = self._database.execute("SELECT DISTINCT host FROM exchange")
        self._insert("host", 2, ((host, domain_of(host)) for (host,) in hosts))
        self._database.execute("CREATE INDEX host_domain ON host (domain)")

    def hold(self, held: Held) -> None:
        """What an exchange held, one key at a time."""
        self._holding.append(held)
        if len(self._holding) >= BATCH:
            self._flush_held()

    def _flush(self) -> None:
        rows = [
            (*msgspec.structs.astuple(exchange)[:-1], number)
            for number, exchange in enumerate(self._waiting, self._count + 1)
        ]
        self._count += len(rows)
        self._insert("exchange", len(Exchange.__struct_fields__), rows)
        self._waiting.clear()

    def _flush_expected(self) -> None:
        self._insert("expected", 4, self._expected)
        self._expected.clear()

    def _flush_held(self) -> None:
        self._insert("held", len(Held.__struct_fields__), map(msgspec.structs.astuple, self._holding))
        self._holding.clear()

    def _insert(self, table: str, columns: int, rows: Iterable[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * columns)
        self._database.execute("BEGIN")
        self._database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - names of our own
        self._database.execute("COMMIT")

    # -- reading -------------------------------------------------------------------------------------------------------
    def exchanges(self) -> Iterator[Exchange]:
        """Every exchange, host by host, in the order of their starts."""
        sql = "SELECT * FROM exchange ORDER BY host, start_us, kind, url"
        yield from map(_exchange, self._database.execute(sql))

    def unseen(self) -> Iterator[tuple[str, str, int]]:
        """Segment, a URL and the number of the expected exchanges that no segment showed."""
        yield from self._database.execute(
            "SELECT e.segment, min(e.url), count(*) FROM expected AS e JOIN"
            " (SELECT url, start_us FROM expected EXCEPT SELECT url, start_us FROM exchange) AS m"
            " ON e.url = m.url AND e.start_us = m.start_us GROUP BY e.segment ORDER BY e.segment"
        )

    def exchange(self, number: int) -> Exchange:
        """One exchange again. KeyError if there is none."""
        row = self._database.execute("SELECT * FROM exchange WHERE number = ?", (number,)).fetchone()
        if row is None:
            raise KeyError(number)
        return _exchange(row)

    def is_accepted(self, url: str, start_us: int) -> bool:
        """Whether an answer with a status of 400 or more has an outcome."""
        sql = "SELECT 1 FROM expected WHERE url = ? AND start_us = ? AND status >= 400"
        return self._database.execute(sql, (url, start_us)).fetchone() is not None

    def is_redirected_to(self, url: str) -> bool:
        """Whether an answer of some robots.txt led to `url`."""
        sql = "SELECT 1 FROM answer WHERE target = ? AND target != ''"
        return self._database.execute(sql, (url,)).fetchone() is not None

    def last_signs_us(self) -> dict[int, int]:
        """When each incarnation last ended an exchange."""
        return dict(self._database.execute("SELECT incarnation, max(end_us) FROM exchange GROUP BY incarnation"))

    def begun_us(self) -> int:
        """When the first exchange began, 0 if there was none."""
        begun_us: int | None = self._database.execute("SELECT min(start_us) FROM exchange").fetchone()[0]
        return begun_us or 0

    def hosts_of(self, domain: str) -> int:
        """How many hosts of a domain were asked for anything."""
        count: int = self._database.execute("SELECT count(*) FROM host WHERE domain = ?", (domain,)).fetchone()[0]
        return count

    def held(self) -> Iterator[Held]:
        """Everything that was held, key by key, in the order of the starts."""
        self._flush_held()
        for key, start_us, end_us, owned, *rest in self._database.execute("SELECT * FROM held ORDER BY key, start_us"):
            yield Held(key, start_us, end_us, bool(owned), *rest)

    def answers(self, url: str, from_us: int, to_us: int, limit: int) -> list[Answer]:
        """Answers of `url` that were asked for in a span of time, the first ones first."""
        sql = "SELECT * FROM answer WHERE url = ? AND start_us >= ? AND start_us < ? ORDER BY start_us LIMIT ?"
        return [_answer(row) for row in self._database.execute(sql, (url, from_us, to_us, limit)).fetchall()]

    def asked_again_us(self, url: str, after_us: int) -> int | None:
        """When `url` was asked for again after a moment."""
        sql = "SELECT min(start_us) FROM answer WHERE url = ? AND start_us > ?"
        found: int | None = self._database.execute(sql, (url, after_us)).fetchone()[0]
        return found

    def served(self, digest: str, url: str = "") -> Answer | None:
        """An answer that makes the copy `digest`, of `url` if one is given."""
        sql = "SELECT * FROM answer WHERE digest = ?1 AND (?2 = '' OR url = ?2) ORDER BY url, start_us LIMIT 1"
        row = self._database.execute(sql, (digest, url)).fetchone()
        return None if row is None else _answer(row)

    def body(self, digest: str) -> bytes:
        """The rules of a copy; b"" for one without a body."""
        row: tuple[bytes] | None = self._database.execute(
            "SELECT data FROM body WHERE digest = ?", (digest,)
        ).fetchone()
        return b"" if row is None else row[0]


def _exchange(row: tuple[Any, ...]) -> Exchange:
    host, start_us, end_us, kind, *rest = row
    return Exchange(host, start_us, end_us, ExchangeKind(kind), *rest)


def _answer(row: tuple[Any, ...]) -> Answer:
    url, start_us, end_us, status, meaning, digest, body_digest, target = row
    return Answer(
        url=url,
        start_us=start_us,
        end_us=end_us,
        status=status,
        meaning=meaning,
        digest=digest,
        body_digest=body_digest,
        target=target,
    )
