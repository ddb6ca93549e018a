"""Sitemaps that robots.txt names (RFC 9309 §2.2.4, sitemaps.org) become links, as if a seed had named them.

They are published before the new rules are stored: a death in between fetches robots.txt again and publishes again,
and admission leaves alone what it knows. The parser has no part in it, since robots.txt has no outcome.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from limpet.bus import Producer
from limpet.clock import DurableClock
from limpet.config import Facts, Settings
from limpet.crawlnode.steps import FetchSteps
from limpet.model.events import Link, LinksDiscovered, PageLinks, encode
from limpet.model.identity import Fingerprinter, identity_key
from limpet.model.links import LinkKind
from limpet.model.urls import canonicalize_all, split
from limpet.runtime.insist import insist

URL_BYTES_MAX: Final = 4_096
"""Longest URL handed on, as by the parser: admission's own bound is lower, and counts what it rejects."""


class SitemapPublisher:
    """Publishes `links.discovered` for the owners of the hosts that sitemaps lie on."""

    def __init__(
        self,
        *,
        steps: FetchSteps,
        shard_of: Callable[[str], int],
        clock: DurableClock,
        facts: Facts,
        settings: Settings,
    ) -> None:
        self._steps = steps
        self._shard_of = shard_of
        self._clock = clock
        self._facts = facts
        self._fingerprinter = Fingerprinter(facts.hash_seed)
        self._links_max = settings.work.links_message_max

    async def publish(self, robots_url: str, sitemaps: Sequence[str], fetched_us: int, producer: Producer) -> int:
        """Publish what the robots.txt at `robots_url` names, through `producer`; how many links that is.

        Returns when they are durable; only `CannotGoOn` ends it before. A crawl without extras has no use for them.
        """
        links = self._links(robots_url, sitemaps) if self._facts.scope.extras else {}
        messages = [
            (partition, self._message(robots_url, found[start : start + self._links_max], fetched_us))
            for partition, found in links.items()
            for start in range(0, len(found), self._links_max)
        ]
        if messages:
            await self._insist(producer, messages)
        return sum(map(len, links.values()))

    def _links(self, robots_url: str, sitemaps: Iterable[str]) -> dict[int, list[Link]]:
        """Distinct links by the partition that they concern."""
        found: dict[int, list[Link]] = {}
        for url in dict.fromkeys(canonicalize_all(list(sitemaps), robots_url)):
            if url is not None and len(url) <= URL_BYTES_MAX:
                found.setdefault(self._shard_of(split(url).host), []).append(Link(url, LinkKind.SITEMAP))
        return found

    def _message(self, robots_url: str, links: Sequence[Link], fetched_us: int) -> bytes:
        key = identity_key(robots_url, self._facts.identity)
        page = PageLinks(
            fp=self._fingerprinter.fingerprint(key),
            fetched_us=fetched_us,
            url=robots_url,
            depth=0,
            hops="",
            links=tuple(links),
        )
        return encode(LinksDiscovered(crawl=self._facts.crawl, pages=(page,)))

    async def _insist(self, producer: Producer, messages: Sequence[tuple[int, bytes]]) -> None:
        await insist(lambda: self._steps.publish_sitemaps(producer, messages), self._clock)
