"""What a crawl left behind in the real servers, as plain values: what the checkers look at."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from e2e.cluster.archive import Record, incarnation_of
from origin.visits import Visit
from origin.web import Kind


@dataclass(frozen=True)
class Row:
    """A URL as the authority has it."""

    fp: bytes
    key: str
    url: str
    host: str
    shard: int
    state: str
    reason: str = ""
    due_us: int = 0
    token: bytes = b""
    lease_us: int = 0
    holder: str = ""
    latest_us: int = 0


@dataclass(frozen=True)
class Fact:
    """An outcome: one finished attempt. `place` is its response record."""

    fp: bytes
    fetched_us: int
    url: str
    status: int
    place: tuple[str, int, int] | None
    payload_sha256: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Parse:
    """What became of one body: its output was accepted, or a job keeps it."""

    fp: bytes
    fetched_us: int
    accepted: bool
    job: str = ""  # state of the job, "" without one


@dataclass(frozen=True)
class Announced:
    """One `document.fetched` in the log."""

    url: str
    fetched_us: int
    place: tuple[str, int, int]


@dataclass(frozen=True)
class Lag:
    """A partition's reader: `committed` is the next offset it wants."""

    topic: str
    partition: int
    committed: int
    end: int


@dataclass(frozen=True)
class Marks:
    """What one seen shard holds: (set, member), and into how many sets it is divided."""

    shard: int
    sets: int
    members: frozenset[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Left:
    """What is still to be done; all of it zero is the end."""

    states: Mapping[str, int] = field(default_factory=dict)
    leased: int = 0
    due: int = 0
    unread: int = 0
    jobs: int = 0
    unparsed: int = 0
    samples: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the crawl is over."""
        return bool(self.states) and not (self.leased or self.due or self.unread or self.jobs or self.unparsed)

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in sorted(self.states.items())) or "no rows"
        return (
            f"{self.due} due, {self.leased} leased, {self.unread} messages unread, {self.jobs} parse jobs, "
            f"{self.unparsed} bodies unparsed ({states}); {'; '.join(self.samples)}"
        )


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything. `deserved` and `bodies` (URL -> SHA-256 of what a page's reader sees) are the web's own word."""

    deserved: Mapping[str, Kind]
    bodies: Mapping[str, str]
    rows: list[Row]
    facts: list[Fact]
    parses: list[Parse]
    records: list[Record]
    torn: Mapping[str, int]  # segment -> bytes at its end that are no record
    unsealed: list[str]
    announced: list[Announced]
    lags: list[Lag]
    marks: list[Marks]
    visits: list[Visit]
    dead_letters: int = 0
    troubles: tuple[str, ...] = ()  # what the reconciler has not mended, or cannot

    @cached_property
    def by_place(self) -> dict[tuple[str, int, int], Record]:
        """Records by place."""
        return {record.place: record for record in self.records}

    @cached_property
    def by_fp(self) -> dict[bytes, Row]:
        """Rows by fingerprint."""
        return {row.fp: row for row in self.rows}

    @cached_property
    def first_fetch_us(self) -> dict[str, int]:
        """Incarnation -> its earliest record."""
        found: dict[str, int] = {}
        for record in self.records:
            name = incarnation_of(record.segment)
            found[name] = min(record.date_us, found.get(name, record.date_us))
        return found


def fact_of(fp: bytes, fetched_us: int, outcome: Mapping[str, Any]) -> Fact:
    """From an outcome as it was decoded."""
    place = outcome.get("location")
    return Fact(
        fp=fp,
        fetched_us=fetched_us,
        url=outcome.get("url", ""),
        status=outcome.get("status", 0),
        place=None if place is None else place_of(place),
        payload_sha256=outcome.get("payload_sha256", ""),
        failure=outcome.get("failure", ""),
    )


def place_of(location: Mapping[str, Any]) -> tuple[str, int, int]:
    """Where a record is."""
    return location["segment"], location["offset"], location["length"]


def announced_of(payload: bytes) -> Announced:
    """From a message."""
    event = json.loads(payload)
    return Announced(event["url"], event["fetched_us"], place_of(event["location"]))
