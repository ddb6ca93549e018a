"""Everything that a cluster's crawl fetched, as a walk over the keyspace brings it: in the order of the token ring.

Memory: a page of rows, and where the pages were found that were met last. What left the queue without a request is not
among it: Cassandra does not keep when it did.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final, NamedTuple

from limpet.cluster.remote import RemoteCrawl
from limpet.embedded.capturelog import CHAIN_MAX, CODING_ODDITIES, TRIES_MAX, Entry
from limpet.model.lifecycle import State
from limpet.urlstore import ParseOutput, RobotsFetch
from limpet.urlstore.cassandra.guarded import each
from limpet.urlstore.cassandra.walk import Fetched

LINKS_KEPT_MAX: Final = 100_000


async def entries(crawl: RemoteCrawl) -> AsyncIterator[list[Entry]]:
    """Every capture, then every request for a robots.txt that is kept, some at a time."""
    origins = _Origins(crawl)
    async for page in crawl.fetched():
        found = [one for one in page if one.outcomes]
        outputs = await each(found, lambda one: crawl.outputs(one.row))
        await origins.learn({one.row.via for one in found if not one.row.seed})
        yield [
            entry
            for one, parsed in zip(found, outputs, strict=True)
            for entry in _captures(one, parsed, *(("", "") if one.row.seed else origins.of(one.row.via)))
        ]
        origins.forget()
    async for fetches in crawl.robots_fetches():
        await origins.learn({fetch.cause for fetch in fetches})
        yield [_robots(fetch, origins.of(fetch.cause)[1]) for fetch in fetches]
        origins.forget()


def _captures(one: Fetched, parsed: Sequence[ParseOutput], via: str, source: str) -> list[Entry]:
    latest = {output.fetched_us: output for output in sorted(parsed, key=lambda output: output.parser_version)}
    found, tries = [], 1
    for outcome, given in one.outcomes:
        output = latest.get(outcome.fetched_us) if outcome.status else None
        entry = Entry(
            at_us=outcome.fetched_us,
            url=outcome.url,
            hops=one.row.hops,
            via=via,
            source=source or outcome.url,
            outcome=outcome,
            tries=min(tries, TRIES_MAX),
            oddities=tuple(flag for flag in output.flags if flag in CODING_ODDITIES) if output is not None else (),
        )
        found.append(entry)
        tries = tries + 1 if given is State.DUE else 1
    return found


def _robots(fetch: RobotsFetch, source: str) -> Entry:
    outcome = fetch.outcome
    at_us, url = outcome.fetched_us, outcome.url
    return Entry(at_us=at_us, url=url, hops=fetch.hops, via=fetch.via, source=source or url, outcome=outcome)


class _Link(NamedTuple):
    url: str
    via: bytes  # b"" for a seed


class _Origins:
    """Where pages were found, and from which seed. `learn` before asking; what was learnt first is forgotten first."""

    def __init__(self, crawl: RemoteCrawl) -> None:
        self._crawl = crawl
        self._links: OrderedDict[bytes, _Link] = OrderedDict()

    async def learn(self, fps: Collection[bytes]) -> None:
        """Read the chains of pages up to their seeds, all of them a step at a time."""
        for _ in range(CHAIN_MAX):
            wanted = [fp for fp in fps if fp and fp not in self._links]
            for fp, row in zip(wanted, await each(wanted, self._crawl.row), strict=True):
                self._links[fp] = _Link("", b"") if row is None else _Link(row.url, b"" if row.seed else row.via)
            fps = {self._links[fp].via for fp in fps if fp}
            if not any(fps):
                return

    def of(self, fp: bytes) -> tuple[str, str]:
        """(URL of `fp`, the seed it was reached from); "" where there is none."""
        first = link = self._links.get(fp, _Link("", b""))
        for _ in range(CHAIN_MAX):
            if link.via not in self._links:
                break
            link = self._links[link.via]
        return first.url, link.url

    def forget(self) -> None:
        """Keep what was learnt last."""
        while len(self._links) > LINKS_KEPT_MAX:
            self._links.popitem(last=False)
