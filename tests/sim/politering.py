"""A whole ring in virtual time over a web whose hosts have addresses: for what the governor alone cannot show."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from limpet.clock import Clock
from limpet.config import Facts, ScopeFacts, Settings
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.embedded.quota import Unlimited
from limpet.embedded.ring import Ring
from limpet.embedded.seeding import admit_seeds
from limpet.fetch import Fetcher
from limpet.model.identity import suffix_list_digest
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.testing.chance import SeededRandom
from limpet.testing.death import CountingMortality
from limpet.testing.disks import MemoryDisk
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.web import FakeAnswer, FakeWeb
from limpet.urlstore.sqlite import SqliteUrlStore

SHARDS = 2
HTML = (b"Content-Type", b"text/html")
ROBOTS = FakeAnswer(body=b"User-agent: *\nDisallow:\n")


class LocatedWeb(FakeWeb):
    """A `FakeWeb` that tells where its hosts are, and remembers what the requests were bound to."""

    def __init__(self, clock: Clock, addresses: dict[str, str]) -> None:
        super().__init__(clock)
        self.addresses = addresses

    async def locate(self, host: str) -> tuple[str, ...]:
        """See `Locating.locate`."""
        address = self.addresses.get(host)
        return () if address is None else (address,)

    def site(self, host: str, pages: int, page: FakeAnswer | None = None, **options: float) -> None:
        """A host whose front page links to all of its pages; `page` is what those answer."""
        links = "".join(f"<a href=/{n}>{n}</a>" for n in range(pages)).encode()
        remote_ip = self.addresses.get(host, "192.0.2.1")
        self.route(f"http://{host}/robots.txt", FakeAnswer(body=ROBOTS.body, remote_ip=remote_ip))
        self.route(f"http://{host}/", FakeAnswer(headers=(HTML,), body=links, remote_ip=remote_ip))
        answer = page or FakeAnswer(headers=(HTML,), body=b"a page", remote_ip=remote_ip, **options)  # type: ignore[arg-type]
        for n in range(pages):
            self.route(f"http://{host}/{n}", answer)


class LastingClock(SimClock):
    """A machine's clock, which outlives the loops of its processes."""

    def move_to(self, loop: VirtualLoop) -> None:
        """Go on with another process's loop."""
        self._loop = loop


class PoliteRing:
    """One folder and its web."""

    def __init__(self, root: Path, settings: Settings) -> None:
        facts = Facts(
            crawl="polite",
            shards=SHARDS,
            hash_seed=b"a-secret-of-this-crawl",
            suffix_list_digest=suffix_list_digest(),
            scope=ScopeFacts(kind="any"),
        )
        self.folder = Folder.create(root / "crawl", facts)
        self.settings = settings
        self.loop = VirtualLoop(1_000.0)
        self.clock = LastingClock(self.loop)
        self.web = LocatedWeb(self.clock, {})
        self.ports = Ports(
            clock=self.clock,
            random=SeededRandom(1),
            disk=MemoryDisk(),
            mortality=CountingMortality(),
            make_runner=lambda _: InlineRunner(),
            make_fetcher=self._fetcher,
            synchronous="OFF",
        )

    def _fetcher(self, _settings: Settings, _clock: Clock) -> Fetcher:
        return self.web

    def crawl(self, seeds: list[str], seconds: float) -> None:
        """Admit and crawl for so long."""
        run_virtual(self._crawl(seeds, seconds), self.loop)

    def again(self, work: Callable[[SqliteUrlStore], Awaitable[None]], seconds: float) -> None:
        """A process later: `work` over every shard first."""

        async def life() -> None:
            await self.with_stores(work)
            await self.serve(seconds)

        self.loop = VirtualLoop(self.clock.monotonic() + 1)
        self.clock.move_to(self.loop)
        run_virtual(life(), self.loop)

    async def _crawl(self, seeds: list[str], seconds: float) -> None:
        await admit_seeds(self.folder, self.settings, self.ports, seeds)
        await self.serve(seconds)

    async def serve(self, seconds: float) -> None:
        """The ring's life, ended after so long."""
        share = frozenset(range(SHARDS))
        ring = Ring(folder=self.folder, settings=self.settings, share=share, quota=Unlimited(), ports=self.ports)
        stop = asyncio.Event()
        await ring.open()
        self.loop.call_later(seconds, stop.set)
        await ring.run(stop)
        await ring.close()

    async def with_stores(self, work: Callable[[SqliteUrlStore], Awaitable[None]]) -> None:
        """`work` over every shard, while no ring is at it."""
        for number in range(SHARDS):
            path = self.folder.shard_file(number)
            file = SqliteFile(path, schema=shard_schema(), runner=InlineRunner(), clock=self.clock, synchronous="OFF")
            try:
                await work(SqliteUrlStore(file, number, SeededRandom(2)))
            finally:
                await file.close()
