"""The witness's log: what happened on the server's side of each connection, one JSON object a line.

Times are `CLOCK_MONOTONIC` nanoseconds, which all processes of a machine share, and wall-clock nanoseconds.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

_RUN_SPAN = 1 << 40


@dataclass(frozen=True, slots=True)
class Started:
    """The origin is ready; enough to build the same web again."""

    EVENT: ClassVar[str] = "started"
    t_ns: int
    wall_ns: int
    web: str
    seed: int
    port: int
    options: dict[str, int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opened:
    """A client connected to the address `local`."""

    EVENT: ClassVar[str] = "opened"
    t_ns: int
    wall_ns: int
    connection: int
    local: str
    peer: str


@dataclass(frozen=True, slots=True)
class Requested:
    """A request has been received in full; the stamp is never earlier than the client's sending."""

    EVENT: ClassVar[str] = "requested"
    t_ns: int
    wall_ns: int
    connection: int
    request: int
    host: str
    authority: str
    method: str
    path: str
    query: str
    user_agent: str | None
    referer: bool
    cookie: bool


@dataclass(frozen=True, slots=True)
class Responded:
    """A response was written to its end, or given up when the client went away (`complete` false).

    `head_ns` is the time before its first byte was written, None if none was; `t_ns` the time before its last
    write (or of the abort), so never later than the client's receiving it.
    """

    EVENT: ClassVar[str] = "responded"
    t_ns: int
    wall_ns: int
    connection: int
    request: int
    head_ns: int | None
    status: int
    bytes: int
    retry_after_seconds: float | None
    complete: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """A connection is over, whoever ended it first."""

    EVENT: ClassVar[str] = "closed"
    t_ns: int
    wall_ns: int
    connection: int
    by: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The origin stopped in good order."""

    EVENT: ClassVar[str] = "stopped"
    t_ns: int
    wall_ns: int


Event = Started | Opened | Requested | Responded | Closed | Stopped
_KINDS: dict[str, type[Event]] = {kind.EVENT: kind for kind in (Started, Opened, Requested, Responded, Closed, Stopped)}


def encode(event: Event) -> str:
    """One line without its end."""
    values = {entry.name: getattr(event, entry.name) for entry in fields(event)}
    return json.dumps({"event": event.EVENT, **values}, separators=(",", ":"))


def decode(line: str) -> Event:
    """The event of a line. ValueError, KeyError or TypeError if it is none."""
    values: dict[str, Any] = json.loads(line)
    return _KINDS[values.pop("event")](**values)


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """Events in log order, a torn line skipped; ids are made unique across runs of the origin on one log."""
    run = 0
    for line in lines:
        try:
            event = decode(line)
        except (ValueError, KeyError, TypeError):  # the origin died within a write
            continue
        run += isinstance(event, Started)
        yield _renumbered(event, run * _RUN_SPAN)


def _renumbered(event: Event, offset: int) -> Event:
    if isinstance(event, Started | Stopped):
        return event
    values = {entry.name: getattr(event, entry.name) for entry in fields(event)}
    for name in {"connection", "request"} & values.keys():
        values[name] += offset
    return type(event)(**values)


def read_events(path: Path) -> list[Event]:
    """All events of a log that were written so far; an absent log has none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace") as lines:
        return list(parse_events(lines))
