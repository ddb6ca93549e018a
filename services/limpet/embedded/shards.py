"""The shard files of one owner, opened with everything that reads and writes them."""

from collections.abc import Iterable
from dataclasses import dataclass

from limpet.bus import Position
from limpet.bus.sqlite import SqliteConsumer, SqliteLog, SqliteProducer
from limpet.clock import DurableClock
from limpet.clock.durable import TOLERANCE_US
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.model.errors import CannotGoOn
from limpet.model.events import DOCUMENT_FETCHED, LINKS_DISCOVERED
from limpet.runtime import Runner
from limpet.runtime.sqlitefile import ReadOnlyFile, SqliteFile, open_read_only
from limpet.schemas.sqlite import shard_schema
from limpet.urlstore.sqlite import SqliteUrlStore
from limpet.urlstore.sqlite.upkeep import Anchor
from limpet.urlstore.sqlite.view import ShardView

SUSPECT = "suspect"
NOISE_US = 1_000  # two clocks cannot be read in one instant
FOREIGN_CACHE_BYTES = 131_072
CREATED_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class Shard:
    """One shard that this process owns."""

    number: int
    file: SqliteFile
    store: SqliteUrlStore
    log: SqliteLog
    producer: SqliteProducer

    @property
    def view(self) -> ShardView:
        """The file as others see it."""
        return ShardView(self.file)

    def suspect(self) -> dict[int, int]:
        """Source -> first offset beyond the span of `document.fetched` that an unclean end left uncommitted."""
        value = self.file.read(lambda reader: reader.value("meta_get", (SUSPECT,)))
        return {self.number: int(value)} if value else {}

    async def mark_suspect(self, batch_max: int) -> None:
        """What a parser had in its hands at a death: at most a batch, from the first message that is not committed."""
        view = self.view
        begin = view.committed(DOCUMENT_FETCHED).get(self.number, {}).get(self.number, 0)
        end = view.log_end(DOCUMENT_FETCHED).get(self.number, 0)
        query = (begin, end, DOCUMENT_FETCHED, self.number, batch_max)
        held = self.file.read(lambda reader: reader.all("log_of_part", query))
        beyond = held[-1][0] + 1 if held else begin
        await self.file.write(lambda tx: tx.run("meta_put", (SUSPECT, str(beyond))))


class Shards:
    """The shards of one process, by number; `open` locks them, `close` marks them clean."""

    def __init__(self, folder: Folder, settings: Settings, ports: Ports, clock: DurableClock, runner: Runner) -> None:
        self._folder = folder
        self._settings = settings
        self._ports = ports
        self._clock = clock
        self._runner = runner
        self._foreign: dict[int, ReadOnlyFile] = {}
        self._logs: dict[int, SqliteLog] = {}
        self.owned: dict[int, Shard] = {}

    async def open(self, numbers: Iterable[int]) -> None:
        """Lock and open; times are shifted where the wall clock was moved while nobody looked."""
        for number in sorted(numbers):
            self.owned[number] = self._open(number)
        for shard in self.owned.values():
            await self._check_anchor(shard)

    def _open(self, number: int) -> Shard:
        file = SqliteFile(
            self._folder.shard_file(number),
            schema=shard_schema(),
            runner=self._runner,
            clock=self._clock,
            synchronous=self._ports.synchronous,
            commit_interval_seconds=self._settings.work.commit_interval_seconds,
        )
        log = SqliteLog(file, number, self._clock, own=True)
        retention_us = int(self._settings.work.log_retention_seconds * 1e6)
        producer = self._ports.parts.producer(file, log, self._clock, retention_us=retention_us)
        store = self._ports.parts.store(file, number, self._ports.random)
        return Shard(number, file, store, log, producer)

    async def _check_anchor(self, shard: Shard) -> None:
        """Within one boot, a wall clock that was moved must not shorten what hosts still have to wait."""
        now = Anchor(boot_id=self._clock.boot_id(), offset_us=self._clock.anchor_us)
        stored = shard.store.anchor()
        if stored is not None and stored.boot_id == now.boot_id:
            moved_us = now.offset_us - stored.offset_us
            if abs(moved_us) > TOLERANCE_US:
                await shard.store.shift_times(moved_us, now)
            elif abs(moved_us) > NOISE_US:
                await shard.store.shift_waits(moved_us, now)
            return
        await shard.store.set_anchor(now)

    # -- consumers ---------------------------------------------------------------------------------------------------
    async def attach(self) -> None:
        """Open the logs of the other owners for reading; their files exist once seeds were admitted."""
        for number in range(self._folder.facts.shards):
            if number not in self.owned:
                self._foreign[number] = await self._read_only(number)
        self._logs = {number: shard.log for number, shard in self.owned.items()}
        for number, file in self._foreign.items():
            self._logs[number] = SqliteLog(file, number, self._clock, own=False)

    async def _read_only(self, number: int) -> ReadOnlyFile:
        path = self._folder.shard_file(number)
        give_up = self._clock.monotonic() + CREATED_SECONDS_MAX
        while not path.exists():
            if self._clock.monotonic() > give_up:
                raise CannotGoOn(f"shard file {path} is missing")
            await self._clock.sleep(0.05)
        return open_read_only(path, schema=shard_schema(), cache_bytes=FOREIGN_CACHE_BYTES)

    def fetched_consumer(self, number: int) -> SqliteConsumer:
        """`document.fetched` of one shard, which only its own owner writes."""
        shard = self.owned[number]
        return SqliteConsumer(shard.file, DOCUMENT_FETCHED, number, {number: shard.log}, self._clock)

    def links_consumer(self, number: int) -> SqliteConsumer:
        """`links.discovered` for one shard, from the logs of all."""
        return SqliteConsumer(self.owned[number].file, LINKS_DISCOVERED, number, self._logs, self._clock)

    def committed_of(self, source: int) -> dict[str, dict[int, int]]:
        """Topic -> partition -> next message of `source`'s log that its reader will read."""
        found: dict[str, dict[int, int]] = {DOCUMENT_FETCHED: {}, LINKS_DISCOVERED: {}}
        for number in range(self._folder.facts.shards):
            shard = self.owned.get(number)
            view = shard.view if shard is not None else ShardView(self._foreign[number])
            for topic, parts in found.items():
                offset = view.committed(topic).get(number, {}).get(source)
                if offset is not None:
                    parts[number] = offset
        return found

    def parsed_up(self, number: int) -> bool:
        """Whether the parser of a shard has committed everything that was published to it."""
        view = self.owned[number].view
        end = view.log_end(DOCUMENT_FETCHED).get(number, 0)
        return view.committed(DOCUMENT_FETCHED).get(number, {}).get(number, 0) >= end

    async def trim(self) -> None:
        """Drop from the logs what is old and was read by everybody it was for."""
        now_us = self._clock.wall_us()
        for number, shard in self.owned.items():
            await shard.producer.trim(now_us, self.committed_of(number))

    # -- ends --------------------------------------------------------------------------------------------------------
    async def close(self) -> None:
        """Commit, mark clean, release; every file is tried."""
        for shard in self.owned.values():
            await shard.file.close()
        for file in self._foreign.values():
            file.close()

    def abandon(self) -> None:
        """Die, in a rehearsal."""
        for shard in self.owned.values():
            shard.file.abandon()


class Marks:
    """Attempt marks as the parser wants them, kept beside the consumer's offsets."""

    def __init__(self, consumer: SqliteConsumer) -> None:
        self._consumer = consumer

    async def mark(self, position: Position) -> int:
        """Durably count one more attempt at the message; the count."""
        return (await self._consumer.mark([position]))[0]

    async def acquit(self, position: Position) -> None:
        """Forget the attempts at the message."""
        await self._consumer.acquit([position])
