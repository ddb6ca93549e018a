"""A whole crawl in virtual time, whose process may die on cue and be started again.

The machine is a `MemoryDisk` for segments and real SQLite files on memory; the web is a `FakeWeb` behind a `Witness`;
chance is seeded. What an incarnation does not leave on the disk is gone. A rehearsal can be *forked* while it runs: the
twin is the machine as it would be if the process died at that very instant.
"""

import asyncio
import contextlib
import copy
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, Self

import msgspec

from crash.evidence import Death, Evidence, what_is_durable
from crash.parts import REHEARSED
from crash.witness import AtStage, Visit, Witness
from crash.world import World, serve
from limpet.clock import Clock
from limpet.config import Facts, Settings
from limpet.embedded.collect import Collector, finished
from limpet.embedded.folder import Folder
from limpet.embedded.gaps import mend_gaps
from limpet.embedded.orderbook import OrderBook
from limpet.embedded.parts import Parts
from limpet.embedded.ports import Ports
from limpet.embedded.quota import Unlimited
from limpet.embedded.ring import Ring, recover
from limpet.embedded.seeding import admit_seeds
from limpet.embedded.views import ShardViews, was_left_unclean
from limpet.fetch import Fetcher
from limpet.model.errors import LimpetError
from limpet.model.identity import suffix_list_digest
from limpet.runtime import Disk, DiskFile, InlineRunner, Killed, Mortality, Runner
from limpet.testing.bad_reads import BadReads
from limpet.testing.chance import SeededRandom
from limpet.testing.death import CountingMortality
from limpet.testing.disks import DiskWrapper, MemoryDisk
from limpet.testing.loop import EPOCH_US, SimClock, VirtualLoop, run_virtual
from limpet.testing.web import FakeWeb

SHARDS = 2
CRAWL_SECONDS_MAX = 3_000.0
PATIENCE_SECONDS = 600.0
TORN_BYTES = 7

Mode = Literal["kill", "power cut"]
Ending = Literal["done", "killed", "failed", "given up"]
MakeRunner = Callable[[str, Clock], Runner]
MakeDisk = Callable[[Disk, Clock], Disk]


def plain_runner(_name: str, _clock: Clock) -> Runner:
    """Runners without a fault."""
    return InlineRunner()


def plain_disk(disk: Disk, _clock: Clock) -> Disk:
    """A disk without a fault."""
    return disk


class Life(msgspec.Struct, frozen=True):
    """How one incarnation ended: done, killed, failed (it could not go on and said so), or it never came to an end."""

    ending: Ending
    seconds: float
    detail: str = ""


class Rehearsal:
    """One crawl of a small web over any number of incarnations."""

    def __init__(self, root: Path, world: World) -> None:
        self.world = world
        self.disk = MemoryDisk()
        self.visits: list[Visit] = []
        self.deaths: list[Death] = []
        self.phase = "new"  # recover, seed, crawl, over
        self.now = 0.0  # boot seconds at the end of the last life
        self.wall_moved_seconds = 0.0  # how far the wall clock has been set away from boot time
        self._bad_reads = dict(world.bad_reads)
        self._seeded = False
        self._lives = 0
        self._loop: VirtualLoop | None = None
        facts = Facts(
            crawl="rehearsal",
            shards=SHARDS,
            hash_seed=b"rehearsal-secret",
            suffix_list_digest=suffix_list_digest(),
            scope=world.scope,
        )
        self.folder = Folder.create(root / "crawl", facts)

    @classmethod
    @contextlib.contextmanager
    def of(cls, world: World) -> Iterator[Self]:
        """A rehearsal in a folder on memory that is removed afterwards."""
        with _room() as root:
            yield cls(root, world)

    # -- lives -------------------------------------------------------------------------------------------------------
    def live(
        self,
        mortality: Mortality | None = None,
        *,
        parts: Parts = REHEARSED,
        settings: Settings | None = None,
        make_runner: MakeRunner = plain_runner,
        make_disk: MakeDisk = plain_disk,
        during: Callable[[SimClock], None] | None = None,
        at_stage: AtStage | None = None,
    ) -> Life:
        """One incarnation: recover, seed, crawl until done or dead. Time goes on where the last one stopped.

        `during` is called when the process starts, to set timers of its own (a clock that jumps); `at_stage` at every
        stage of every exchange.
        """
        self._lives += 1
        self._loop = loop = VirtualLoop(self.now)
        clock = SimClock(loop)
        clock.jump(self.wall_moved_seconds)
        ports = Ports(
            clock=clock,
            random=SeededRandom(self._lives),
            disk=make_disk(BadReads(Mounted(self.disk, self.folder.path), self._bad_reads), clock),
            mortality=mortality or CountingMortality(),
            make_runner=lambda name: make_runner(name, clock),
            make_fetcher=lambda _settings, fetch_clock: self._fetcher(fetch_clock, at_stage),
            synchronous="OFF",
            parts=parts,
        )
        begun = self.now
        try:
            ending, detail = run_virtual(self._life(ports, settings or self.world.settings, during), loop)
        finally:
            self.now = loop.time()
            self.wall_moved_seconds = (clock.wall_us() - clock.boot_us() - EPOCH_US) / 1e6
            self._loop = None
            self.phase = "over"
        self.disk.kill()  # whatever became of it: its locks are free and its handles are dead
        if ending != "done":
            self.deaths.append(self._death())
        return Life(ending, self.now - begun, detail)

    def _fetcher(self, clock: Clock, at_stage: AtStage | None) -> Fetcher:
        loop = self._loop
        assert loop is not None
        web = FakeWeb(clock)
        serve(
            web,
            self.world,
            lambda url: sum(visit.url == url for visit in self.visits),
            lambda: EPOCH_US / 1e6 + loop.time(),
        )
        return Witness(web, self.visits, loop.time, at_stage)

    async def _life(
        self, ports: Ports, settings: Settings, during: Callable[[SimClock], None] | None
    ) -> tuple[Ending, str]:
        share = frozenset(range(SHARDS))
        ring: Ring | None = None
        if during is not None and isinstance(ports.clock, SimClock):
            during(ports.clock)
        try:
            if self.was_left_unclean():
                self.phase = "recover"
                await recover(self.folder, settings, share, ports, segments_of=None)
            await mend_gaps(self.folder, settings, ports)
            if not self._seeded:
                self.phase = "seed"
                await admit_seeds(self.folder, settings, ports, self.world.seeds)
                self._seeded = True  # the command is heard: a later start leaves the URLs out
            self.phase = "crawl"
            ring = Ring(folder=self.folder, settings=settings, share=share, quota=Unlimited(), ports=ports)
            await ring.open()
            done = await self._crawl(ring, ports.clock)
            await ring.close()
        except Killed as death:
            return "killed", str(death)
        except LimpetError as error:
            if ring is not None:
                await ring.close()
            return "failed", repr(error)
        finally:
            if ring is not None:
                ring.abandon()
        return ("done" if done else "given up"), ""

    def was_left_unclean(self) -> bool:
        """Whether the next start has something to recover."""
        return was_left_unclean(self.folder) or any(path.name.endswith(".open") for path in self.disk.snapshot())

    async def _crawl(self, ring: Ring, clock: Clock) -> bool:
        stop = asyncio.Event()
        watcher = asyncio.get_running_loop().create_task(self._stop_when_done(stop, clock))
        try:
            await ring.run(stop)
            return await watcher
        finally:
            watcher.cancel()

    async def _stop_when_done(self, stop: asyncio.Event, clock: Clock) -> bool:
        """The supervisor's own termination rule; False when it did not come true in time."""
        give_up = clock.monotonic() + CRAWL_SECONDS_MAX
        with ShardViews(self.folder) as views:
            collector = Collector(views, clock, OrderBook(self.folder).kept)
            before = collector.collect()
            while clock.monotonic() < give_up:
                await clock.sleep(1.0)
                now = collector.collect()
                if finished(before, now, clock.wall_us() + int(PATIENCE_SECONDS * 1e6)):
                    stop.set()
                    return True
                before = now
        stop.set()
        return False

    def later(self, seconds: float, world: World | None = None) -> None:
        """Time passes while no process runs. With `world` the sites have changed, and the user adds its seeds."""
        self.now += seconds
        if world is not None:
            self.world = world
            self._seeded = False

    def sleep_through(self, seconds: float) -> None:
        """The machine is suspended in the middle of a life: time passes, and nobody notices."""
        assert self._loop is not None
        self._loop._jump.now += seconds

    # -- deaths ------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def forked(self, mode: Mode = "kill") -> Iterator["Rehearsal"]:
        """A twin whose process dies at this instant of the life that is going on; removed afterwards."""
        with _room() as root:
            twin = copy.copy(self)
            path = root / "crawl"
            shutil.copytree(self.folder.path, path, ignore=shutil.ignore_patterns("*-shm", "*.lock"))
            twin.folder = Folder(path, self.folder.facts)
            twin.disk = copy.deepcopy(self.disk)
            twin.visits = [copy.copy(visit) for visit in self.visits]
            twin.deaths = list(self.deaths)
            twin._bad_reads = dict(self._bad_reads)
            twin.now = self.now if self._loop is None else self._loop.time()
            twin._loop = None
            twin.lose(mode)
            twin.deaths.append(twin._death())
            yield twin

    def lose(self, mode: Mode) -> None:
        """What the machine loses when the process, or the power, is gone."""
        if mode == "kill":
            self.disk.kill()
        else:
            self.disk.power_cut(torn_bytes=TORN_BYTES)

    def _death(self) -> Death:
        files = [self.folder.shard_file(number) for number in range(SHARDS)]
        return what_is_durable(EPOCH_US + round(self.now * 1e6), files, self.visits)

    def evidence(self) -> Evidence:
        """What the crawl has left behind."""
        return Evidence(
            world=self.world,
            shard_files=[self.folder.shard_file(number) for number in range(SHARDS)],
            seen_files=[self.folder.seen_file(number) for number in range(SHARDS)],
            archive={path.name: data for path, data in self.disk.snapshot().items()},
            visits=self.visits,
            deaths=self.deaths,
        )


class Mounted(DiskWrapper):
    """A disk whose root shows at `at`, so that a twin in another folder finds the same files."""

    def __init__(self, inner: Disk, at: Path) -> None:
        super().__init__(inner)
        self._root = str(at)

    def create(self, path: Path) -> DiskFile:
        """See `Disk.create`."""
        return self.inner.create(self._inside(path))

    def reopen(self, path: Path) -> DiskFile | None:
        """See `Disk.reopen`."""
        return self.inner.reopen(self._inside(path))

    def sync_dir(self, path: Path) -> None:
        """See `Disk.sync_dir`."""
        self.inner.sync_dir(self._inside(path))

    def remove(self, path: Path) -> None:
        """See `Disk.remove`."""
        self.inner.remove(self._inside(path))

    def rename(self, source: Path, target: Path) -> None:
        """See `Disk.rename`."""
        self.inner.rename(self._inside(source), self._inside(target))

    def read(self, path: Path, offset: int, size_bytes: int) -> bytes:
        """See `Disk.read`."""
        return self.inner.read(self._inside(path), offset, size_bytes)

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return self.inner.size(self._inside(path))

    def names(self, path: Path) -> list[str]:
        """See `Disk.names`."""
        return self.inner.names(self._inside(path))

    def free_bytes(self, path: Path) -> int:
        """See `Disk.free_bytes`."""
        return self.inner.free_bytes(self._inside(path))

    def _inside(self, path: Path) -> Path:
        return Path(str(path).removeprefix(self._root))


@contextlib.contextmanager
def _room() -> Iterator[Path]:
    shm = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="limpet-", dir=shm if shm.is_dir() else None))
    try:
        yield root
    finally:
        shutil.rmtree(root)
