"""Crawl nodes that pass shards to each other while they crawl: one machine, one web, one file a shard, any number of
nodes in virtual time. Each node has what a process of its own would have: governor, robots, segments, incarnation.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from limpet.assembly.desks import make_desk
from limpet.assembly.places import shard_of_host
from limpet.assembly.politeness import governor_of
from limpet.assembly.robots_body import decode_robots
from limpet.clock import DurableClock
from limpet.config import Facts, ScopeFacts, Settings
from limpet.crawlnode.archive import Archivist
from limpet.crawlnode.exchange import Exchange
from limpet.crawlnode.health import Health, Outage
from limpet.crawlnode.holdings import Holdings
from limpet.crawlnode.robots import RobotsDesk
from limpet.crawlnode.service import CrawlNode
from limpet.crawlnode.sitemaps import SitemapPublisher
from limpet.crawlnode.steps import FetchSteps
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.embedded.quota import Unlimited
from limpet.embedded.ring import segments_of_folder
from limpet.embedded.shards import Shard, Shards
from limpet.model.identity import suffix_list_digest
from limpet.runtime import InlineRunner
from limpet.segments import SegmentWriter, Settling
from limpet.testing.chance import SeededRandom
from limpet.testing.death import CountingMortality
from limpet.testing.disks import MemoryDisk
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.web import FakeAnswer, FakeWeb, Visit
from limpet.urlstore import Candidate, UrlStore

T = TypeVar("T")
SHARDS: Final = 2
GAP_SECONDS: Final = 1.0
SLOW_GAP_SECONDS: Final = 3.0
PAGES: Final = 12
HOSTS: Final = tuple(f"h{n}.example" for n in range(10))
SLOW: Final = "h0.example"
"""Its robots.txt asks for a crawl-delay, which every owner has to know of."""
SETTLE_SECONDS: Final = 8.0
"""Longer than any gap, so that whoever does not care is found out."""


class FarStore:
    """A `UrlStore` a round trip away: whatever is asked takes effect in the middle of a while, and everybody else goes
    on meanwhile.
    """

    def __init__(self, inner: UrlStore, clock: SimClock, seconds: float) -> None:
        self._inner = inner
        self._clock = clock
        self._seconds = seconds

    @property
    def shard(self) -> int:
        """See `UrlStore.shard`."""
        return self._inner.shard

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._inner, name)

        async def far(*args: Any, **options: Any) -> Any:
            await self._clock.sleep(self._seconds / 2)
            result = await method(*args, **options)
            await self._clock.sleep(self._seconds / 2)
            return result

        return far


class Town:
    """The machine, the web and the shards; its nodes come and go."""

    def __init__(self, root: Path, loop: VirtualLoop) -> None:
        self.loop = loop
        self.clock = SimClock(loop)
        self.settings = Settings(min_free_bytes=0)
        self.facts = Facts(
            crawl="handover",
            shards=SHARDS,
            hash_seed=b"a-secret-of-this-crawl",
            suffix_list_digest=suffix_list_digest(),
            scope=ScopeFacts(kind="any"),
        )
        self.folder = Folder.create(root / "crawl", self.facts)
        self.web = FakeWeb(self.clock)
        for number, host in enumerate(HOSTS):
            latency_seconds = 0.1 + 0.09 * number  # so that there is always somebody under way
            delay = f"Crawl-delay: {SLOW_GAP_SECONDS:g}\n" if host == SLOW else ""
            self.web.route(f"http://{host}/robots.txt", FakeAnswer(body=f"User-agent: *\n{delay}".encode()))
            self.web.route(host, FakeAnswer(body=b"a page", latency_seconds=latency_seconds))
        self.ports = Ports(
            clock=self.clock,
            random=SeededRandom(1),
            disk=MemoryDisk(),
            mortality=CountingMortality(),
            make_runner=lambda _: InlineRunner(),
            make_fetcher=lambda _settings, _clock: self.web,
            synchronous="OFF",
        )
        durable = DurableClock(self.clock)
        self._shards = Shards(self.folder, self.settings, self.ports, durable, InlineRunner())
        self.segments = segments_of_folder(self.folder, self.settings, self.ports, durable, InlineRunner())

    async def open(self) -> None:
        """Rows for every page of every host, before any node is there."""
        await self._shards.open(range(SHARDS))
        for number, shard in self.shards.items():
            pages = [f"http://{host}/{n}" for host in HOSTS if self.shard_of(host) == number for n in range(PAGES)]
            await shard.store.admit([self.candidate(url) for url in pages], self.clock.wall_us())

    async def close(self) -> None:
        """Release the files."""
        await self._shards.close()

    def candidate(self, url: str) -> Candidate:
        """A row to be."""
        found = make_desk(self.facts, self.settings, (url,)).seed(url, self.clock.wall_us())
        assert isinstance(found, Candidate)
        return found

    @property
    def shards(self) -> dict[int, Shard]:
        """All of them, by number."""
        return self._shards.owned

    def shard_of(self, host: str) -> int:
        """The shard of a host."""
        return shard_of_host(host, self.facts)

    def far(self, shard: int, seconds: float = 0.02) -> UrlStore:
        """The shard's rows as a distant owner has them."""
        return cast("UrlStore", FarStore(self.shards[shard].store, self.clock, seconds))

    def visits(self, shard: int, since: float = 0.0, until: float = float("inf")) -> list[Visit]:
        """Requests to the shard's hosts that began within these monotonic seconds."""
        offset_us = self.clock.wall_us() - self.clock.monotonic() * 1e6
        return [
            visit
            for visit in self.web.log
            if self.shard_of(visit.host) == shard and since * 1e6 <= visit.start_us - offset_us < until * 1e6
        ]


class Node:
    """A crawl node without a shard, at work from `start` to `stop`."""

    def __init__(self, town: Town, name: str, owns: Callable[[int], bool]) -> None:
        self._town = town
        self._name = name
        self._owns = owns
        self._stop = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self.at_work: CrawlNode

    async def start(self) -> None:
        """Begin to serve nothing."""
        clock, facts = DurableClock(self._town.clock), self._town.facts
        archivist = Archivist(facts, self._town.ports.random, clock)
        settling = Settling()
        writer = await self._town.segments.open_writer(self._name, archivist.warcinfo, settling)
        health = Health(clock, {"segments": writer.healthy}, age_seconds_max=5.0)
        await health.confirm()
        self.at_work = self._assemble(clock, archivist, writer, settling, health)
        self._work = asyncio.get_running_loop().create_task(self._run(health, writer))

    async def _run(self, health: Health, writer: SegmentWriter) -> None:
        confirming = asyncio.get_running_loop().create_task(health.run())
        try:
            await self.at_work.run(self._stop)
        finally:
            confirming.cancel()
        await writer.close()

    async def stop(self) -> None:
        """Drain and end; raises what went wrong at work."""
        self._stop.set()
        if self._work is not None:
            await self._work

    def _assemble(
        self, clock: DurableClock, archivist: Archivist, writer: SegmentWriter, settling: Settling, health: Health
    ) -> CrawlNode:
        town, facts, settings = self._town, self._town.facts, self._town.settings
        random = town.ports.random
        governor, outage = governor_of(settings, clock, random.fraction), Outage(clock)
        holdings = Holdings(governor=governor, clock=clock, shard_of=town.shard_of, owns=self._owns)
        steps = FetchSteps(writer, town.ports.mortality, self._name, settling)
        exchange = Exchange(
            fetcher=town.web,
            governor=governor,
            steps=steps,
            archivist=archivist,
            outage=outage,
            coding_is_cut=lambda _payload, _coding: False,
            clock=clock,
            random=random,
            facts=facts,
            settings=settings,
        )
        sitemaps = SitemapPublisher(steps=steps, shard_of=town.shard_of, clock=clock, facts=facts, settings=settings)
        robots = RobotsDesk(
            exchange=exchange,
            steps=steps,
            archivist=archivist,
            governor=governor,
            decode=decode_robots,
            sitemaps=sitemaps,
            holdings=holdings,
            clock=clock,
            random=random,
            facts=facts,
            settings=settings,
        )
        return CrawlNode(
            holdings=holdings,
            steps=steps,
            exchange=exchange,
            robots=robots,
            governor=governor,
            health=health,
            outage=outage,
            quota=Unlimited(),
            clock=clock,
            settings=settings,
            agent=facts.agent,
        )


def rehearse(root: Path, story: Callable[[Town], Awaitable[None]]) -> Town:
    """Play a story; whatever it says, nobody was impolite in it."""
    loop = VirtualLoop(1_000.0)
    town = Town(root, loop)

    async def play() -> None:
        await town.open()
        await story(town)
        await town.close()

    run_virtual(play(), loop)
    assert impolite(town.web.log) == []
    return town


def impolite(log: list[Visit]) -> list[str]:
    """Requests to a host while another was open, or sooner than its gap after one."""
    found, last = [], dict[str, Visit]()
    for visit in sorted(log, key=lambda visit: visit.start_us):
        before = last.get(visit.host)
        if before is not None and (before.end_us is None or visit.start_us < before.end_us + _gap_us(before)):
            found.append(f"{visit.url} {visit.start_us} after {before.url} {before.start_us}-{before.end_us}")
        last[visit.host] = visit
    return found


def _gap_us(visit: Visit) -> float:
    """What the host may expect after this request, its crawl-delay and the time it took to answer included."""
    assert visit.end_us is not None
    floor_us = (SLOW_GAP_SECONDS if visit.host == SLOW else GAP_SECONDS) * 1e6
    return max(floor_us, 5 * (visit.end_us - visit.start_us))
