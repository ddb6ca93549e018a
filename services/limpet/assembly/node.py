"""A crawl node with its exchange and its robots desk, put together from what the form provides."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from limpet.assembly.places import shard_of_host
from limpet.assembly.robots_body import decode_robots
from limpet.clock import DurableClock
from limpet.config import Facts, Settings
from limpet.crawlnode.archive import Archivist
from limpet.crawlnode.errands import Errands
from limpet.crawlnode.exchange import Exchange
from limpet.crawlnode.health import Health, Outage
from limpet.crawlnode.holdings import Holdings
from limpet.crawlnode.quota import Quota
from limpet.crawlnode.robots import RobotsDesk
from limpet.crawlnode.service import CrawlNode
from limpet.crawlnode.sitemaps import SitemapPublisher
from limpet.crawlnode.steps import FetchSteps
from limpet.fetch import Fetcher
from limpet.politeness import Governor
from limpet.runtime import Random


class NodeClasses(Protocol):
    """What is constructed for each part; rehearsals put in one that is broken."""

    @property
    def steps(self) -> type[FetchSteps]:
        """The durable effects."""
        ...

    @property
    def exchange(self) -> type[Exchange]:
        """One request and its outcome."""
        ...

    @property
    def robots(self) -> type[RobotsDesk]:
        """Verdicts."""
        ...

    @property
    def node(self) -> type[CrawlNode]:
        """The loop."""
        ...


@dataclass(frozen=True, kw_only=True)
class RealNode:
    """See `NodeClasses`: the real ones."""

    steps: type[FetchSteps] = FetchSteps
    exchange: type[Exchange] = Exchange
    robots: type[RobotsDesk] = RobotsDesk
    node: type[CrawlNode] = CrawlNode


def make_node(
    *,
    classes: NodeClasses,
    archivist: Archivist,
    steps: FetchSteps,
    fetcher: Fetcher,
    governor: Governor,
    holdings: Holdings,
    health: Health,
    quota: Quota,
    coding_is_cut: Callable[[bytes | Iterable[bytes], bytes | None], bool],
    errands: Errands | None,
    clock: DurableClock,
    random: Random,
    facts: Facts,
    settings: Settings,
) -> CrawlNode:
    """A node that serves `holdings`, which may be empty yet; everything durable that it does, it does by `steps`."""
    outage = Outage(clock)
    exchange = classes.exchange(
        fetcher=fetcher,
        governor=governor,
        steps=steps,
        archivist=archivist,
        outage=outage,
        coding_is_cut=coding_is_cut,
        clock=clock,
        random=random,
        facts=facts,
        settings=settings,
    )
    robots = classes.robots(
        exchange=exchange,
        steps=steps,
        archivist=archivist,
        governor=governor,
        decode=decode_robots,
        sitemaps=_sitemaps(steps, clock, facts, settings),
        holdings=holdings,
        clock=clock,
        random=random,
        facts=facts,
        settings=settings,
        errands=errands,
    )
    return classes.node(
        holdings=holdings,
        steps=steps,
        exchange=exchange,
        robots=robots,
        governor=governor,
        health=health,
        outage=outage,
        quota=quota,
        clock=clock,
        settings=settings,
        agent=facts.agent,
    )


def _sitemaps(steps: FetchSteps, clock: DurableClock, facts: Facts, settings: Settings) -> SitemapPublisher:
    return SitemapPublisher(
        steps=steps, shard_of=lambda host: shard_of_host(host, facts), clock=clock, facts=facts, settings=settings
    )
