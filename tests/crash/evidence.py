"""What a crawl left behind, read without Limpet: plain SQL, plain gzip, and the witness's log."""

import json
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from crash.witness import Visit
from crash.world import World
from limpet.testing.loop import EPOCH_US

STATES = {
    0: "due",
    1: "leased",
    2: "fetched",
    3: "denied",
    4: "gone",
    5: "failed",
    6: "parked",
    7: "review",
    8: "cancelled",
}
OPEN = ".open"
INDEX = ".cdxj"


class Death(msgspec.Struct, frozen=True):
    """An incarnation that did not end well, and what was durable then."""

    at_us: int
    outcomes: dict[str, int]  # URL -> outcomes committed
    robots: frozenset[str]  # authorities with a verdict
    waits_us: dict[str, int]  # host -> wait, in time as it really passes
    visits: dict[str, int]  # URL -> requests sent until then


class Row(msgspec.Struct, frozen=True):
    """A URL as its shard's file has it. `due` counts its entries of the due index."""

    fp: bytes
    url: str
    state: str
    reason: str
    due: int
    leases: int
    latest_us: int


class Fact(msgspec.Struct, frozen=True):
    """An outcome."""

    url: str
    fetched_us: int
    state: str
    status: int
    robots_digest: str
    place: tuple[str, int, int] | None  # segment, offset, length


class Record(msgspec.Struct, frozen=True):
    """A response record."""

    segment: str
    offset: int
    length: int
    url: str
    date_us: int
    status: int
    block: bytes

    @property
    def place(self) -> tuple[str, int, int]:
        """As an outcome names it."""
        return self.segment, self.offset, self.length


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything the checkers look at. A test plants an anomaly by replacing a field or editing a file."""

    world: World
    shard_files: list[Path]
    seen_files: list[Path]
    archive: dict[str, bytes]  # file name -> bytes, one replica
    visits: list[Visit]
    deaths: list[Death]
    slept: bool = False  # the machine was suspended in the middle of a life

    @property
    def excused(self) -> int:
        """Completions that came too late because the machine slept: each may cost one request more."""
        return self.counters["late_completions"] if self.slept else 0

    @cached_property
    def rows(self) -> list[Row]:
        """Every URL that has a row."""
        found = self._all(
            "SELECT u.fp, u.url, u.state, u.reason,"
            " (SELECT count(*) FROM due d WHERE d.url = u.id), (SELECT count(*) FROM lease l WHERE l.fp = u.fp),"
            " u.latest_us FROM url u"
        )
        return [Row(fp, url, STATES.get(code, str(code)), *rest) for fp, url, code, *rest in found]

    @cached_property
    def facts(self) -> list[Fact]:
        """Every outcome."""
        found = self._all("SELECT u.url, o.fetched_us, o.state, o.data FROM outcome o JOIN url u ON u.id = o.url")
        return [_fact(*values) for values in found]

    @cached_property
    def lines(self) -> list[tuple[str, int, tuple[str, int, int] | None]]:
        """(URL, fetch time, place of its record) of every request for a robots.txt that has a line."""
        found = [msgspec.msgpack.decode(data)["outcome"] for (data,) in self._all("SELECT data FROM robots_fetch")]
        return [
            (one["url"], one["fetched_us"], _place(one["location"]) if "location" in one else None) for one in found
        ]

    @cached_property
    def requests(self) -> int:
        """Requests that were counted, of all days."""
        return sum(count for (count,) in self._all("SELECT requests FROM day"))

    @cached_property
    def records(self) -> list[Record]:
        """Every response record, sealed or not."""
        return [
            record
            for name, data in self.segments.items()
            for offset, length, member in members(data)
            if (record := _record(name, offset, length, member)) is not None
        ]

    @cached_property
    def segments(self) -> dict[str, bytes]:
        """Name without `.open` -> bytes."""
        return {name.removesuffix(OPEN): data for name, data in self.archive.items() if _is_segment(name)}

    @cached_property
    def marks(self) -> list[bytes]:
        """Fingerprints that are marked as seen."""
        return [fp for path in self.seen_files for (fp,) in query(path, "SELECT fp FROM seen")]

    @cached_property
    def unparsed(self) -> list[tuple[str, int]]:
        """(URL, fetch time) of fetched outcomes without a parse output and without a job in review."""
        return self._all(
            "SELECT u.url, o.fetched_us FROM outcome o JOIN url u ON u.id = o.url"
            " LEFT JOIN output p ON p.fp = u.fp AND p.fetched_us = o.fetched_us"
            " LEFT JOIN job j ON j.fp = u.fp AND j.fetched_us = o.fetched_us AND j.state = 'review'"
            " WHERE o.state = 2 AND p.fp IS NULL AND j.fp IS NULL"
        )

    @cached_property
    def jobs(self) -> list[tuple[str, str]]:
        """(URL, state) of parse jobs."""
        return self._all("SELECT u.url, j.state FROM job j JOIN url u ON u.fp = j.fp")

    @cached_property
    def rejected(self) -> dict[str, int]:
        """Host -> links that rules turned away."""
        counts: Counter[str] = Counter()
        for host, count in self._all("SELECT host, count FROM reject"):
            counts[host] += count
        return dict(counts)

    @cached_property
    def announced(self) -> list[tuple[str, tuple[str, int, int]]]:
        """(URL, place of its record) of every `document.fetched` that is still in a log."""
        payloads = [payload for (payload,) in self._all("SELECT payload FROM log WHERE topic = 'document.fetched'")]
        return [(event["url"], _place(event["location"])) for event in map(msgspec.json.decode, payloads)]

    @cached_property
    def unread(self) -> list[str]:
        """Logs with messages that their reader has not committed."""
        ends = Counter[tuple[str, int, int]]()
        read = Counter[tuple[str, int, int]]()
        for source, path in enumerate(self.shard_files):
            for topic, part, finish in query(path, "SELECT topic, part, finish FROM log_part"):
                ends[topic, part, source] = finish
            for topic, part, of, following in query(path, "SELECT topic, part, source, next FROM consumed"):
                read[topic, part, of] = following
        behind = [log for log, end in ends.items() if max(read[log], 1) < end]
        return [f"{topic}[{part}] of {source}" for topic, part, source in behind]

    @cached_property
    def counters(self) -> Counter[str]:
        """What status shows, over all shards."""
        total: Counter[str] = Counter()
        for path in self.shard_files:
            for (text,) in query(path, "SELECT totals FROM counter WHERE id = 1"):
                total.update(msgspec.json.decode(text))
        return total

    def _all(self, sql: str) -> list[Any]:
        return [row for path in self.shard_files for row in query(path, sql)]


def what_is_durable(at_us: int, shard_files: list[Path], visits: list[Visit]) -> Death:
    """What a death at `at_us` cannot take away any more."""
    outcomes: Counter[str] = Counter()
    robots: set[str] = set()
    waits_us: dict[str, int] = {}
    for path in shard_files:
        outcomes.update(url for (url,) in query(path, "SELECT u.url FROM outcome o JOIN url u ON u.id = o.url"))
        robots.update(name for (name,) in query(path, "SELECT name FROM authority WHERE robots <> x''"))
        anchors = [json.loads(text) for (text,) in query(path, "SELECT value FROM meta WHERE name = 'anchor'")]
        moved_us = anchors[0]["offset_us"] - EPOCH_US if anchors else 0  # what the crawl takes the wall clock for
        waits = query(path, "SELECT name, wait_us FROM host WHERE wait_us > 0")
        waits_us |= {host: wait_us - moved_us for host, wait_us in waits}
    return Death(at_us, dict(outcomes), frozenset(robots), waits_us, dict(Counter(visit.url for visit in visits)))


def query(path: Path, sql: str) -> list[Any]:
    """All rows of a query on a file that nobody writes just now."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def members(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(offset, length, inflated bytes) of each whole gzip member, up to the first that is not."""
    offset = 0
    while offset < len(data):
        inflater = zlib.decompressobj(wbits=31)
        try:
            content = inflater.decompress(data[offset:])
        except zlib.error:
            return
        if not inflater.eof:
            return
        end = len(data) - len(inflater.unused_data)
        yield offset, end - offset, content
        offset = end


def fields_of(member: bytes) -> dict[str, str]:
    """The WARC header of an inflated record."""
    head = member.split(b"\r\n\r\n", 1)[0].decode("utf-8", "replace")
    return dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)


def _record(segment: str, offset: int, length: int, member: bytes) -> Record | None:
    fields = fields_of(member)
    if fields.get("WARC-Type") != "response":
        return None
    block = member.split(b"\r\n\r\n", 1)[1]
    date_us = round(datetime.fromisoformat(fields["WARC-Date"]).timestamp() * 1e6)
    status = int(block.split(b" ", 2)[1][:3])
    return Record(segment, offset, length, fields["WARC-Target-URI"], date_us, status, block)


def _is_segment(name: str) -> bool:
    return name.removesuffix(OPEN).endswith(".warc.gz")


def _fact(url: str, fetched_us: int, code: int, data: bytes) -> Fact:
    outcome = msgspec.msgpack.decode(data)
    place = outcome.get("location")
    return Fact(
        url=url,
        fetched_us=fetched_us,
        state=STATES.get(code, str(code)),
        status=outcome.get("status", 0),
        robots_digest=outcome.get("robots_digest", ""),
        place=None if place is None else _place(place),
    )


def _place(location: dict[str, Any]) -> tuple[str, int, int]:
    return location["segment"], location["offset"], location["length"]
