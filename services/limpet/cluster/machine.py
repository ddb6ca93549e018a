"""What a role's process has open: sessions, bus, archive, seen shards, and its waits. Opened in order, closed together.

A server that is away is waited for; one that refuses ends the start.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from limpet.bus.kafka import KafkaBus, KafkaMember
from limpet.clock import DurableClock, SystemClock
from limpet.cluster.facts import read_facts
from limpet.cluster.seen import seen_shard
from limpet.cluster.settings import ClusterSettings, process_settings
from limpet.cluster.stores import open_store
from limpet.cluster.tables import CassandraFacts
from limpet.cluster.waiting import Patience, PatientCalls, Waits
from limpet.config import Facts
from limpet.model.errors import CannotGoOn, Definite, Indefinite, LimpetError, UsageError
from limpet.receipts import FileReceiptLog, Recorder
from limpet.runtime import Immortal, Mortality, Random, Runner, SystemDisk, SystemRandom, ThreadRunner, new_incarnation
from limpet.seen import PatientSeen
from limpet.segments.full import WriterLimits
from limpet.segments.hdfs import HdfsSegments, IsAlive
from limpet.segments.hdfs.native import NativeHdfs
from limpet.urlstore import UrlStore
from limpet.urlstore.cassandra import CassandraUrlStore, Session, Tally
from limpet.urlstore.cassandra.batches import Batches

CLOCKS_APART_US_MAX: Final = 1_000_000
"""How far this machine's clock may be from the servers' (beside the time of the question)."""

FLUSH_SECONDS: Final = 2.0
"""How much of its counts a death may cost."""

WATCH_SECONDS: Final = 3.0

STORE_VERBS: Final = frozenset(name for name in vars(UrlStore) if not name.startswith("_") and name != "shard")


class Machine:
    """One process of a role. `open` before anything else is used."""

    def __init__(self, settings: ClusterSettings, role: str, *, mortality: Mortality | None = None) -> None:
        self.asked = settings
        self.settings = process_settings(settings)
        self.role = role
        self.clock = DurableClock(SystemClock())
        self.random: Random = SystemRandom()
        self.mortality = mortality or Immortal()
        self.incarnation = new_incarnation(self.random)
        self.waits = Waits(self.clock)
        self.patience = Patience(self.clock, self.random, self.waits)
        self.checked = False  # facts, servers
        self._runners: dict[str, Runner] = {}
        self._seen: dict[tuple[str, int], PatientSeen] = {}
        self._stores: dict[int, CassandraUrlStore] = {}
        self._owned: dict[int, CassandraUrlStore] = {}
        self._facts: Facts | None = None
        self._session: Session | None = None
        self._bus: KafkaBus | None = None
        self._recorder: Recorder | None = None

    # -- what is open ------------------------------------------------------------------------------------------------
    @property
    def facts(self) -> Facts:
        """The crawl's."""
        assert self._facts is not None
        return self._facts

    def tally(self) -> Tally:
        """Statements to Cassandra by name; empty before there is a session."""
        return self._session.tally() if self._session is not None else Tally({}, {})

    @property
    def recorder(self) -> Recorder | None:
        """Who keeps receipts; None before the machine is open."""
        return self._recorder

    @property
    def session(self) -> Session:
        """The URL store's."""
        assert self._session is not None
        return self._session

    @property
    def bus(self) -> KafkaBus:
        """The bus."""
        assert self._bus is not None
        return self._bus

    def runner(self, name: str) -> Runner:
        """A thread for blocking work, made once."""
        if name not in self._runners:
            self._runners[name] = ThreadRunner(name)
        return self._runners[name]

    @property
    def folder(self) -> Path:
        """The directory of this machine for what only processes need."""
        return Path(self.asked.cluster.folder)

    # -- opening and closing -----------------------------------------------------------------------------------------
    async def open(self) -> None:
        """Connect, and check facts and servers. Raises `UsageError`, `CannotGoOn`; waits for what is away."""
        self._make_folders()
        log = FileReceiptLog(self.folder / "receipts", SystemDisk(), self.runner("receipts"), self.incarnation)
        self._recorder = Recorder(log)
        self._session = await self.patience.insist("cassandra", self._open_session)
        facts = CassandraFacts(self.session)
        self._facts = await self.patience.insist(
            "facts", lambda: read_facts(facts, self.asked, self.clock, self.random)
        )
        await self.patience.insist("clock", self.clocks_agree)
        self._bus = KafkaBus(self.asked.kafka, self.clock, min_insync=self.asked.kafka.min_insync)
        await self.patience.insist("kafka", self._bus.producer.healthy)
        self.checked = True

    def _make_folders(self) -> None:
        try:
            for name in ("receipts", "spool"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cluster.folder {self.folder}: {error.strerror or error}: choose another one") from error

    async def _open_session(self) -> Session:
        try:
            return await Session.open(self.asked.cassandra)
        except CannotGoOn as error:
            raise CannotGoOn(f"{error}; has `limpet init` been run?") from error

    async def close(self) -> None:
        """Let go of everything; each part is tried."""
        stores = [store.close() for store in [*self._stores.values(), *self._owned.values()]]
        await asyncio.gather(*stores, return_exceptions=True)
        parts = [part.close() for part in (self._bus, self._session) if part is not None]
        await asyncio.gather(*parts, return_exceptions=True)
        for runner in self._runners.values():
            runner.close()

    # -- parts -------------------------------------------------------------------------------------------------------
    def store(self, shard: int) -> CassandraUrlStore:
        """The shard's rows, for whoever does not own it. Made once."""
        if shard not in self._stores:
            self._stores[shard] = open_store(self.session, shard, self.clock, self.random, groups=self._groups(shard))
        return self._stores[shard]

    def owned_store(self, shard: int, epoch: int) -> UrlStore:
        """The shard's rows for its owner. Every verb waits for Cassandra, and says so."""
        groups = self._groups(shard)
        store = self._owned[shard] = open_store(
            self.session, shard, self.clock, self.random, epoch=epoch, groups=groups
        )
        return cast("UrlStore", PatientCalls(store, f"store {shard}", self.patience, STORE_VERBS))

    def _groups(self, shard: int) -> Batches:
        """What leaves a receipt for each group of writes to a shard."""
        assert self._recorder is not None
        names = {"crawl": self.facts.crawl, "incarnation": self.incarnation, "target": f"urlstore/{shard}"}
        return Batches(self._recorder, self.clock, **names)

    async def give_up(self, shard: int) -> None:
        """The end of an owned shard's store; what it counted is durable, unless Cassandra is away."""
        store = self._owned.pop(shard, None)
        if store is not None:
            with contextlib.suppress(Definite, Indefinite):
                await store.close()

    async def keep_up(self) -> None:
        """For ever: what stores have counted becomes durable."""
        while True:
            await self.clock.sleep(FLUSH_SECONDS)
            try:
                for store in [*self._stores.values(), *self._owned.values()]:
                    await store.flush()
            except (Definite, Indefinite) as error:
                self.waits.begin("counts", error)
            else:
                self.waits.end("counts")

    async def watch_servers(self) -> None:
        """For ever: whether store and bus serve, so that `/ready` knows also while nothing is asked of them."""
        while True:
            for name, ask in (("cassandra", self.clocks_agree), ("kafka", self.bus.producer.healthy)):
                try:
                    await ask()
                except LimpetError as error:  # whoever works with them judges whether it is the end
                    self.waits.begin(name, error)
                else:
                    self.waits.end(name)
            await self.clock.sleep(WATCH_SECONDS)

    def seen(self, topic: str, shard: int, stopping: Callable[[], bool]) -> PatientSeen:
        """The shard's marks, for the reader of a topic; whoever asks closes it."""
        assert self._recorder is not None
        marks = seen_shard(
            self.asked, self.facts, shard, clock=self.clock, incarnation=self.incarnation, recorder=self._recorder
        )
        self._seen[topic, shard] = PatientSeen(marks, self.clock, stopping)
        return self._seen[topic, shard]

    def segments(self, is_alive: IsAlive, alert: Callable[[str, str], None]) -> HdfsSegments:
        """The archive."""
        return HdfsSegments(
            NativeHdfs(self.asked.hdfs),
            self.asked.hdfs,
            clock=self.clock,
            is_alive=is_alive,
            alert=alert,
            runner=self.runner("members"),
            limits=WriterLimits(roll_bytes=self.facts.segment_bytes),
        )

    async def member(self, topic: str) -> KafkaMember:
        """Join a topic's group, waiting for brokers that are away."""
        return await self.patience.insist(f"group of {topic}", lambda: self.bus.member(topic))

    # -- health ------------------------------------------------------------------------------------------------------
    async def clocks_agree(self) -> None:
        """The servers answer, and have the time that we have. Raises `Definite` when not."""
        before_us = self.clock.wall_us()
        row = await self.session.one("clock_get", name="crawl")
        after_us = self.clock.wall_us()
        if row is None:
            raise Definite("the facts are gone")
        theirs_us = row["now_ms"] * 1000
        apart_us = max(before_us - theirs_us - 1000, theirs_us - after_us, 0)
        if apart_us > CLOCKS_APART_US_MAX:
            raise Definite(f"the clock of this machine and Cassandra's are {apart_us / 1e6:.1f} s apart: set it right")

    async def observe_bus(self) -> None:
        """Learn how far readers are; a question without an answer leaves what was known."""
        with contextlib.suppress(Definite, Indefinite):
            await self.bus.producer.observe()

    def seen_waits(self) -> dict[str, int]:
        """Seen shards that are waited for -> since when."""
        return {
            f"seen shard {shard}": seen.waiting_since_us
            for (_, shard), seen in self._seen.items()
            if seen.waiting_since_us
        }
