"""Sums over a cluster's crawl, made of rows and outcomes as a walk brings them: see `limpet.embedded.sums`.

Memory: a sum for each name, and no more names than a bound.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from limpet.embedded.sums import NAMES_MAX, Sum, essence_of, merge
from limpet.model.lifecycle import State
from limpet.robots import ODDITIES, Oddity, stored_oddity
from limpet.urlstore import AuthorityRow
from limpet.urlstore.cassandra.walk import Fetched

HOSTS_MAX: Final = 1_000_000
COPIES_KEPT_MAX: Final = 10_000


def sums_of(by: str, pages: Iterable[Iterable[Fetched]]) -> dict[str, Sum]:
    """URLs, fetches and bytes by `host`, `status`, `mime` or `reason`."""
    of, names_max = _SUMS[by]
    total: dict[str, Sum] = {}
    for page in pages:
        merge(total, (named for one in page for named in of(one)), names_max)
    return total


def odd_robots_of(pages: Iterable[Iterable[AuthorityRow]]) -> dict[Oddity, int]:
    """How many servers have a robots.txt that cannot be read as one. Copies that were met lately are not read again."""
    counts: dict[Oddity, int] = {}
    known: OrderedDict[str, Oddity | None] = OrderedDict()
    for row in (one for page in pages for one in page if one.robots_digest):
        if row.robots_digest not in known:
            known[row.robots_digest] = stored_oddity(row.robots)
            if len(known) > COPIES_KEPT_MAX:
                known.popitem(last=False)
        oddity = known[row.robots_digest]
        if oddity is not None:
            counts[oddity] = counts.get(oddity, 0) + 1
    return {oddity: counts[oddity] for oddity in ODDITIES if oddity in counts}


def _by_host(one: Fetched) -> Iterator[tuple[str, Sum]]:
    fetches, wire_bytes = len(one.outcomes), sum(outcome.wire_bytes for outcome, _ in one.outcomes)
    states = {one.row.state.value: 1}
    yield one.row.host, Sum(urls=1, fetches=fetches, wire_bytes=wire_bytes, states=states)


def _by_reason(one: Fetched) -> Iterator[tuple[str, Sum]]:
    row = one.row
    name = row.state.value if row.state is State.LEASED else f"{row.state.value} {row.reason}".rstrip()
    yield name, Sum(urls=1, states={row.state.value: 1})


def _by_status(one: Fetched) -> Iterator[tuple[str, Sum]]:
    for outcome, _ in one.outcomes:
        latest = outcome.fetched_us == one.row.latest_us
        name = str(outcome.status) if outcome.status else outcome.failure
        yield name, Sum(urls=latest, fetches=1, wire_bytes=outcome.wire_bytes)


def _by_mime(one: Fetched) -> Iterator[tuple[str, Sum]]:
    for outcome, _ in one.outcomes:
        latest = outcome.fetched_us == one.row.latest_us
        yield essence_of(outcome.mime), Sum(urls=latest, fetches=1, wire_bytes=outcome.wire_bytes)


_SUMS: Final[dict[str, tuple[Callable[[Fetched], Iterator[tuple[str, Sum]]], int]]] = {
    "host": (_by_host, HOSTS_MAX),
    "status": (_by_status, NAMES_MAX),
    "mime": (_by_mime, NAMES_MAX),
    "reason": (_by_reason, NAMES_MAX),
}
