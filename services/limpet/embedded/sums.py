"""Sums over a whole crawl: URLs, fetches and bytes by host, status, content type or reason.

SQLite adds up each shard; the shards are read by a few threads, since it does so without holding the interpreter. Rows
are counted from the rows themselves, so that sums by host and by reason equal what `status` says. Sites choose the
media types and the rules: beyond `NAMES_MAX` of them the rest is summed up as one.
"""

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from limpet.embedded.folder import Folder
from limpet.embedded.views import ShardViews
from limpet.model.lifecycle import State
from limpet.robots import ODDITIES, Oddity, stored_oddity
from limpet.runtime.sqlitetx import Reader, Row
from limpet.urlstore.sqlite import codes, reading

THREADS: Final = 4
NAMES_MAX: Final = 10_000
SPELLINGS_MAX: Final = 2_000
"""Content types of one shard, as they were spelt; there are not many more registered media types than that."""

NAME_CHARS_MAX: Final = 200
OTHER: Final = "(all others)"
NONE: Final = "-"
NO_TYPE: Final = "(none)"
ODD_TYPE: Final = "(odd)"
_TYPE: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+")


class Sum(msgspec.Struct, kw_only=True):
    """One line of a report."""

    urls: int = 0
    fetches: int = 0
    wire_bytes: int = 0
    states: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, other: "Sum") -> None:
        """Another sum on top of this one."""
        self.urls += other.urls
        self.fetches += other.fetches
        self.wire_bytes += other.wire_bytes
        for state, urls in other.states.items():
            self.states[state] = self.states.get(state, 0) + urls


Found = Iterable[tuple[str, Sum]]
Query = Callable[[Reader], Found]


def by_host(folder: Folder) -> dict[str, Sum]:
    """URLs with their states, fetches and bytes of every host."""
    return _add_up(folder, _hosts, names_max=None)


def by_reason(folder: Folder) -> dict[str, Sum]:
    """URLs by state and reason: `failed dns`, `fetched`."""
    return _add_up(folder, _reasons)


def by_status(folder: Folder) -> dict[str, Sum]:
    """Fetches by status, or by kind of failure where there was none; URLs by their latest answer."""
    return _add_up(folder, lambda reader: _answers(reader, "report_statuses"))


def by_mime(folder: Folder) -> dict[str, Sum]:
    """The same by media type (type/subtype); `(none)` without one, `(odd)` for what is none."""
    return _add_up(folder, _mimes)


def odd_robots(folder: Folder) -> dict[Oddity, int]:
    """How many servers have a robots.txt that cannot be read as one, by what it is."""
    found = _add_up(folder, _robots)
    return {oddity: found[oddity].urls for oddity in ODDITIES if oddity in found}


def _add_up(folder: Folder, query: Query, names_max: int | None = NAMES_MAX) -> dict[str, Sum]:
    """The sums of all shards. Raises `CannotGoOn`."""
    parts = [range(number, folder.facts.shards, THREADS) for number in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(lambda part: _add_up_part(folder, part, query, names_max), parts)
        total: dict[str, Sum] = {}
        for part in found:
            merge(total, part.items(), names_max)
    return total


def _add_up_part(folder: Folder, shards: Iterable[int], query: Query, names_max: int | None) -> dict[str, Sum]:
    total: dict[str, Sum] = {}
    with ShardViews(folder) as views:
        for shard in shards:
            merge(total, views.read_one(shard, lambda reader: list(query(reader))), names_max)
    return total


def merge(total: dict[str, Sum], found: Found, names_max: int | None) -> None:
    """Add what was found; names beyond `names_max` together."""
    for name, one in found:
        shown = name[:NAME_CHARS_MAX] or NONE
        if names_max is not None and shown not in total and len(total) >= names_max:
            shown = OTHER
        total.setdefault(shown, Sum()).add(one)


def _hosts(reader: Reader) -> Found:
    names: dict[int, str] = dict(reader.all("authorities"))
    for authority, code, urls in reader.all("report_host_rows"):
        yield names[authority], _in_state(codes.STATES[code], urls)
    for authority, code, urls in reader.all("report_host_leases"):  # a leased row shows where it was claimed from
        yield names[authority], _moved(codes.STATES[code], urls)
    for authority, fetches, wire_bytes in reader.all("report_host_fetches"):
        yield names[authority], Sum(fetches=fetches, wire_bytes=wire_bytes)
    for row in reading.clashing(reader):
        yield row.host, _in_state(row.state, 1)


def _reasons(reader: Reader) -> Found:
    leased: dict[Row, int] = {(code, reason): urls for code, reason, urls in reader.all("report_reason_leases")}
    for code, reason, urls in reader.all("report_reason_rows"):
        left = urls - leased.get((code, reason), 0)
        if left:
            yield f"{codes.STATES[code].value} {reason}".rstrip(), _in_state(codes.STATES[code], left)
    if leased:
        yield State.LEASED.value, _in_state(State.LEASED, sum(leased.values()))
    for row in reading.clashing(reader):
        yield f"{row.state.value} {row.reason}", _in_state(row.state, 1)


def _robots(reader: Reader) -> Found:
    """One copy after the other: some are long."""
    for servers, authority in reader.all("report_robots"):
        oddity = stored_oddity(reader.value("report_robots_copy", (authority,)) or b"")
        if oddity is not None:
            yield oddity, Sum(urls=servers)


def _mimes(reader: Reader) -> Found:
    """By media type. Types that few fetches have are left to the rest, if there are too many spellings."""
    spelt = reader.all("report_mimes", (SPELLINGS_MAX,))
    for mime, fetches, urls, wire_bytes in spelt:
        yield essence_of(mime), Sum(urls=urls, fetches=fetches, wire_bytes=wire_bytes)
    if len(spelt) == SPELLINGS_MAX:
        rest = [total - sum(row[place + 1] for row in spelt) for place, total in enumerate(reader.all("report_all")[0])]
        if rest[0]:
            yield OTHER, Sum(fetches=rest[0], urls=rest[1], wire_bytes=rest[2])


def essence_of(mime: str) -> str:
    """Type and subtype in lower case; `(none)` where nothing was said, `(odd)` for what is no media type.

    RFC 9110 §8.3.1; a wildcard is a type for requests only.
    """
    found = mime.partition(";")[0].strip(" \t\r\n\f").lower()
    if not found:
        return NO_TYPE
    return found if _TYPE.fullmatch(found) and found[0] != "*" else ODD_TYPE


def _answers(reader: Reader, query: str) -> Found:
    for name, fetches, urls, wire_bytes in reader.all(query):
        yield name, Sum(urls=urls, fetches=fetches, wire_bytes=wire_bytes)


def _in_state(state: State, urls: int) -> Sum:
    return Sum(urls=urls, states={state.value: urls})


def _moved(state: State, urls: int) -> Sum:
    return Sum(states={state.value: -urls, State.LEASED.value: urls})
