"""A whole crawl in virtual time, whose process may die on cue and be started again.

The machine is a `MemoryDisk` for segments and real SQLite files on memory; the web is a `FakeWeb`; chance is seeded. What
an incarnation does not leave on the disk is gone.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import msgspec
from crash.world import Host, serve, small_web

from limpet.clock import Clock
from limpet.config import Facts, ScopeFacts, Settings
from limpet.config.settings import Retries, Work
from limpet.embedded.folder import Folder
from limpet.embedded.quota import Unlimited
from limpet.embedded.ring import Ports, Ring, admit_seeds, recover
from limpet.fetch import Fetcher
from limpet.model.errors import LimpetError
from limpet.model.events import TOPICS
from limpet.model.identity import suffix_list_digest
from limpet.runtime import Disk, InlineRunner, Killed, Mortality
from limpet.runtime.sqlitefile import open_read_only
from limpet.schemas.sqlite import shard_schema
from limpet.testing.chance import SeededRandom
from limpet.testing.death import CountingMortality
from limpet.testing.disks import MemoryDisk
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.web import FakeWeb, Visit
from limpet.urlstore.sqlite.view import ShardView

SHARDS = 2
CRAWL_SECONDS_MAX = 900.0
SETTINGS = Settings(
    retries=Retries(base_seconds=2.0, factor=2.0),
    work=Work(lease_seconds=600.0, commit_interval_seconds=0.0, reconcile_seconds=5.0, republish_grace_seconds=1.0),
    min_free_bytes=0,
)


class Life(msgspec.Struct):
    """How one incarnation ended: done, killed, or failed (it could not go on and said so)."""

    ending: str
    seconds: float
    detail: str = ""


RingMaker = Callable[..., Ring]


class Rehearsal:
    """One crawl of a small web over any number of incarnations."""

    def __init__(self, root: Path, hosts: list[Host] | None = None, *, make_ring: RingMaker = Ring) -> None:
        self.hosts = hosts or small_web()
        self.disk = MemoryDisk()
        self.visits: list[Visit] = []
        self.deaths: list[float] = []
        self.now = 0.0
        self._make_ring = make_ring
        self._lives = 0
        facts = Facts(
            crawl="rehearsal",
            shards=SHARDS,
            hash_seed=b"rehearsal-secret",
            suffix_list_digest=suffix_list_digest(),
            scope=ScopeFacts(kind="any"),
        )
        self.folder = Folder.create(root / "crawl", facts)

    @classmethod
    @contextlib.contextmanager
    def on_memory(cls, hosts: list[Host] | None = None, *, make_ring: RingMaker = Ring) -> Iterator[Self]:
        """A rehearsal in a folder on memory that is removed afterwards."""
        shm = Path("/dev/shm")
        root = Path(tempfile.mkdtemp(prefix="limpet-", dir=shm if shm.is_dir() else None))
        try:
            yield cls(root, hosts, make_ring=make_ring)
        finally:
            shutil.rmtree(root)

    def live(
        self, mortality: Mortality | None = None, *, disk: Disk | None = None, settings: Settings = SETTINGS
    ) -> Life:
        """One incarnation: recover, seed, crawl until done or dead. Time goes on where the last one stopped."""
        self._lives += 1
        loop = VirtualLoop(self.now)
        clock = SimClock(loop)
        web = FakeWeb(clock)
        serve(web, self.hosts, self.visits)
        ports = Ports(
            clock=clock,
            random=SeededRandom(self._lives),
            disk=disk or self.disk,
            mortality=mortality or CountingMortality(),
            make_runner=lambda _name: InlineRunner(),
            make_fetcher=_fetcher(web),
            synchronous="OFF",
        )
        begun = self.now
        try:
            ending, detail = run_virtual(self._life(ports, settings), loop)
        finally:
            self.now = loop.time()
            self.visits += web.log
        if ending == "killed":
            self.deaths.append(self.now)
        return Life(ending, self.now - begun, detail)

    async def _life(self, ports: Ports, settings: Settings) -> tuple[str, str]:
        share = frozenset(range(SHARDS))
        ring: Ring | None = None
        try:
            if self.folder.shard_file(0).exists():
                await recover(self.folder, settings, share, ports, segments_of=None)
            seeds = [f"http://{host.name}/" for host in self.hosts[:1]]
            await admit_seeds(self.folder, settings, ports, seeds)
            ring = self._make_ring(folder=self.folder, settings=settings, share=share, quota=Unlimited(), ports=ports)
            await ring.open()
            await self._crawl(ring, ports.clock)
            await ring.close()
        except Killed as death:
            return "killed", str(death)
        except LimpetError as error:
            if ring is not None:
                await ring.close()
            return "failed", str(error)
        finally:
            if ring is not None:
                ring.abandon()
        return "done", ""

    async def _crawl(self, ring: Ring, clock: Clock) -> None:
        stop = asyncio.Event()
        watcher = asyncio.get_running_loop().create_task(self._stop_when_done(stop, clock))
        try:
            await ring.run(stop)
        finally:
            watcher.cancel()

    async def _stop_when_done(self, stop: asyncio.Event, clock: Clock) -> None:
        """The termination rule in small: two equal collects of the authority with nothing left to do."""
        before: object = None
        give_up = clock.monotonic() + CRAWL_SECONDS_MAX
        while clock.monotonic() < give_up:
            await clock.sleep(1.0)
            now = self.collect()
            if now is not None and now == before:
                break
            before = now
        stop.set()

    def collect(self) -> object:
        """Counters when nothing is left to do, else None."""
        counters: list[object] = []
        for number in range(SHARDS):
            file = open_read_only(self.folder.shard_file(number), shard_schema())
            try:
                view = ShardView(file)
                left = view.unfinished()
                if left.leased or left.jobs or view.queues() or not self._consumed(view, number):
                    return None
                counters.append(view.counters())
            finally:
                file.close()
        return counters

    def _consumed(self, view: ShardView, source: int) -> bool:
        for topic in TOPICS:
            for partition, end in view.log_end(topic).items():
                file = open_read_only(self.folder.shard_file(partition), shard_schema())
                try:
                    if ShardView(file).committed(topic).get(partition, {}).get(source, 0) < end:
                        return False
                finally:
                    file.close()
        return True


def _fetcher(web: FakeWeb) -> Callable[[Settings, Clock], Fetcher]:
    return lambda _settings, _clock: web
