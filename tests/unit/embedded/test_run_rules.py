"""When a run is over, what becomes of workers that die, and what is never done: on virtual time, with fake workers."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from limpet.config import Facts, Settings
from limpet.embedded.collect import Collected, Rest
from limpet.embedded.folder import Folder
from limpet.embedded.order import Run, WorkerOrder, WorkerWord
from limpet.embedded.supervisor import Ending, Report, Supervisor
from limpet.model.errors import CannotGoOn, Indefinite, LimpetError
from limpet.runtime import SystemDisk
from limpet.testing.loop import EPOCH_US, SimClock, VirtualLoop, run_virtual
from limpet.urlstore.sqlite import QueueState

FACTS = Facts(crawl="0123456789abcdef", hash_seed=b"s" * 16, suffix_list_digest="d" * 64)
SETTINGS = Settings(min_free_bytes=0)
NOTHING_LEFT = Rest(leased=0, jobs=0, repairs=0, unread=0, queues=(), offsets=())


class FakeWorker:
    """A worker that lives until it is told to end, or until the test ends it."""

    def __init__(self, slot: int, word: WorkerWord) -> None:
        self.slot = slot
        self.word = word
        self.orders: list[WorkerOrder] = []
        self.told: list[str] = []
        self.deaf = False
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return 1000 + self.slot

    @property
    def alive(self) -> bool:
        return not self._code.done()

    def give(self, order: WorkerOrder) -> None:
        self.orders.append(order)

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    def terminate(self) -> None:
        self.told.append("terminate")
        if not self.deaf:
            self.end(0)

    def kill(self) -> None:
        self.told.append("kill")
        self.end(-9)

    def end(self, code: int, *, error: str = "", disk: str = "") -> None:
        if self.alive:
            self.word = WorkerWord(incarnation=self.word.incarnation, error=error, disk=disk)
            self._code.set_result(code)


class FakeDoor:
    """Remembers what was recovered and seeded; may fail as often as told."""

    def __init__(self) -> None:
        self.recovered: list[tuple[frozenset[int], frozenset[str] | None]] = []
        self.seeded: list[str] = []
        self.failures: list[LimpetError] = []

    async def recover(self, share: frozenset[int], segments_of: frozenset[str] | None) -> None:
        self.recovered.append((share, segments_of))
        if self.failures:
            raise self.failures.pop()

    async def mend_gaps(self) -> int:
        return 0

    async def unpark(self) -> int:
        return 0

    async def admit_seeds(self, urls: Sequence[str]) -> "FakeSeedReport":
        self.seeded += urls
        return FakeSeedReport()


class FakeSeedReport(msgspec.Struct, frozen=True):
    """One new seed, one refused."""

    new: int = 1
    known: int = 0
    rejected: tuple[tuple[str, str], ...] = (("http://a.example/x/x/x/x/", "repeated_segment"),)


class FakeAuthority:
    """What a collect sees: busy until the test says otherwise. `changing` makes every look differ from the last."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self.counters: dict[str, int] = {"completions": 0, "pages": 0}
        self.rest: Rest | None = None
        self.changing = False

    def collect(self, *, whole: bool = False) -> Collected:
        if self.changing:
            self.counters["completions"] += 1
        busy = msgspec.structs.replace(NOTHING_LEFT, leased=1, unread=1)
        rest = busy if whole and self.rest is None else self.rest
        return Collected(at_us=self._clock.wall_us(), shards={0: dict(self.counters)}, rest=rest)


class Notes:
    """A watch that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.looks = 0

    def progress(self, collected: Collected) -> None:
        assert collected.shards
        self.looks += 1

    def note(self, text: str) -> None:
        self.lines.append(text)


class Stage:
    """A supervisor among fakes. `play` runs it beside a script and returns its report."""

    def __init__(self, path: Path, **run: object) -> None:
        self.loop = VirtualLoop()
        self.clock = SimClock(self.loop)
        self.folder = Folder.create(path / "crawl", FACTS)
        self.door = FakeDoor()
        self.authority = FakeAuthority(self.clock)
        self.notes = Notes()
        self.started: list[FakeWorker] = []
        asked = {"workers": 2, "patience_seconds": 600.0, **run}
        self.run = msgspec.convert(asked, Run)

    def play(self, script: Callable[["Stage", Supervisor], object]) -> Report:
        return run_virtual(self._play(script), self.loop)

    def latest(self, slot: int) -> FakeWorker:
        return [worker for worker in self.started if worker.slot == slot][-1]

    async def _start(self, slot: int, log: Path) -> FakeWorker:
        assert log == self.folder.worker_log(slot)
        worker = FakeWorker(slot, WorkerWord(incarnation=f"life{len(self.started)}"))
        self.started.append(worker)
        return worker

    async def _play(self, script: Callable[["Stage", Supervisor], object]) -> Report:
        supervisor = Supervisor(
            self.folder,
            SETTINGS,
            self.run,
            clock=self.clock,
            disk=SystemDisk(),
            door=self.door,
            collector=self.authority,
            watch=self.notes,
            start_worker=self._start,
        )
        running = asyncio.ensure_future(supervisor.run())
        acting = asyncio.ensure_future(script(self, supervisor))  # type: ignore[call-overload, unused-ignore]
        try:
            return await running
        finally:
            acting.cancel()
            assert not [worker for worker in self.started if worker.alive], "a worker outlived its supervisor"


async def finish_soon(stage: Stage, supervisor: Supervisor) -> None:
    """Nothing is left after two seconds."""
    assert supervisor.worker_pids in ([], [1000, 1001])
    await stage.clock.sleep(2)
    stage.authority.rest = NOTHING_LEFT


def test_a_quiet_authority_ends_the_run(tmp_path: Path) -> None:
    """Two equal collects with nothing left end the run; the workers are asked, not killed, and each had its share."""
    stage = Stage(tmp_path, seeds=("http://a.example/",))
    report = stage.play(finish_soon)
    assert report.ending is Ending.DONE
    assert stage.door.seeded == ["http://a.example/"]
    assert report.seeding.rejected == (("http://a.example/x/x/x/x/", "repeated_segment"),)
    assert [worker.told[0] for worker in stage.started] == ["terminate", "terminate"]
    shares = [set(worker.orders[0].share) for worker in stage.started]
    assert shares[0] | shares[1] == set(range(32))
    assert not shares[0] & shares[1]


def test_a_clean_folder_is_not_recovered(tmp_path: Path) -> None:
    """Recovery costs a start time; a folder that everybody left in order does without."""
    stage = Stage(tmp_path)
    stage.play(finish_soon)
    assert stage.door.recovered == []


def test_an_unsealed_segment_is_recovered_before_anything_else(tmp_path: Path) -> None:
    """What a dead owner left is recovered for all shards while no worker has an order."""
    stage = Stage(tmp_path)
    (stage.folder.segment_directories[0] / "x.warc.gz.open").touch()
    stage.play(finish_soon)
    assert stage.door.recovered == [(frozenset(range(32)), None)]


def test_counters_that_move_keep_the_run_going(tmp_path: Path) -> None:
    """Nothing is left at any look, but something happened between them: the run goes on until nothing does."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        stage.authority.rest, stage.authority.changing = NOTHING_LEFT, True
        await stage.clock.sleep(30)
        stage.authority.changing = False

    report = stage.play(script)
    assert report.ending is Ending.DONE
    assert report.elapsed_seconds >= 30


@pytest.mark.parametrize(
    "rest",
    [
        msgspec.structs.replace(NOTHING_LEFT, leased=1),
        msgspec.structs.replace(NOTHING_LEFT, jobs=1),
        msgspec.structs.replace(NOTHING_LEFT, unread=1),
        msgspec.structs.replace(NOTHING_LEFT, repairs=1),
        msgspec.structs.replace(
            NOTHING_LEFT, queues=(QueueState("http://a", "a", 0, EPOCH_US + 300_000_000, "http_503"),)
        ),
    ],
    ids=["leased", "job", "unread", "repair", "due within patience"],
)
def test_what_is_left_keeps_the_run_going(tmp_path: Path, rest: Rest) -> None:
    """A lease, a job, an unread message, a repair, a URL due within patience: each alone keeps the run open."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        stage.authority.rest = rest
        await stage.clock.sleep(500)
        stage.authority.rest = NOTHING_LEFT

    report = stage.play(script)
    assert report.ending is Ending.DONE
    assert report.elapsed_seconds >= 500


def test_what_is_due_beyond_patience_ends_the_run_and_is_reported(tmp_path: Path) -> None:
    """A host that waits an hour is told of at once instead of being waited for."""
    stage = Stage(tmp_path)
    queue = QueueState("http://a", "a", 0, EPOCH_US + 3_600_000_000, "http_429")

    async def script(stage: Stage, _: Supervisor) -> None:
        stage.authority.rest = msgspec.structs.replace(NOTHING_LEFT, queues=(queue,))

    report = stage.play(script)
    assert report.ending is Ending.DONE
    assert report.elapsed_seconds < 5
    assert report.end.rest is not None
    assert report.end.rest.queues == (queue,)


def test_repairs_that_do_not_end_do_not_hang_the_run(tmp_path: Path) -> None:
    """With nothing but repairs open for all our patience the run ends and reports them."""
    stage = Stage(tmp_path, patience_seconds=60.0)

    async def script(stage: Stage, _: Supervisor) -> None:
        stage.authority.rest = msgspec.structs.replace(NOTHING_LEFT, repairs=2)

    report = stage.play(script)
    assert report.ending is Ending.DONE
    assert 60 <= report.elapsed_seconds < 70


def test_the_limit_ends_the_run_once_links_are_in_place(tmp_path: Path) -> None:
    """At the limit the run waits for messages that are under way, then stops."""
    stage = Stage(tmp_path, limit=10)

    async def script(stage: Stage, _: Supervisor) -> None:
        stage.authority.counters.update({"pages": 10, "published.links.discovered": 3})  # three unread
        await stage.clock.sleep(3)
        stage.authority.rest = NOTHING_LEFT

    report = stage.play(script)
    assert report.ending is Ending.LIMIT
    assert 3 <= report.elapsed_seconds < 6
    assert all(worker.orders[0].limited for worker in stage.started)


def test_the_time_limit_ends_the_run(tmp_path: Path) -> None:
    """`--time-limit` counts from the start of the run, whatever is left."""
    report = Stage(tmp_path, time_limit_seconds=20.0).play(lambda stage, _: stage.clock.sleep(1))
    assert report.ending is Ending.TIME_LIMIT
    assert 20 <= report.elapsed_seconds < 22


def test_an_interrupt_drains(tmp_path: Path) -> None:
    """The first Ctrl-C asks every worker to finish what is in flight."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, supervisor: Supervisor) -> None:
        await stage.clock.sleep(5)
        supervisor.interrupt()
        supervisor.interrupt()

    report = stage.play(script)
    assert report.ending is Ending.INTERRUPTED
    assert [worker.told for worker in stage.started] == [["terminate", "kill"]] * 2


def test_a_worker_that_does_not_drain_is_ended_in_the_end(tmp_path: Path) -> None:
    """A request that never ends cannot hold a stop longer than the bound on draining."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, supervisor: Supervisor) -> None:
        await stage.clock.sleep(1)
        stage.latest(1).deaf = True
        supervisor.interrupt()

    report = stage.play(script)
    assert report.ending is Ending.INTERRUPTED
    assert report.elapsed_seconds >= SETTINGS.work.drain_seconds_max
    assert "did not finish in time" in stage.notes.lines[-1]


def test_a_worker_that_dies_is_recovered_and_started_again(tmp_path: Path) -> None:
    """Recovery touches the dead worker's shards and its own segments only; the others work on."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        await stage.clock.sleep(1)
        stage.latest(1).end(-9)
        await stage.clock.sleep(3)
        stage.authority.rest = NOTHING_LEFT

    stage.play(script)
    assert stage.door.recovered == [(frozenset(range(1, 32, 2)), frozenset({"life1"}))]
    assert [worker.slot for worker in stage.started] == [0, 1, 1]
    assert stage.latest(1).orders[0].share == tuple(range(1, 32, 2))
    assert "worker 1 died (killed by signal 9)" in stage.notes.lines[0]


def test_one_look_that_finds_nothing_is_not_enough(tmp_path: Path) -> None:
    """What the first of two equal looks read is what counts: the second may have caught a hand-over half way."""
    stage = Stage(tmp_path)
    looks: list[Rest] = []

    async def script(stage: Stage, _: Supervisor) -> None:
        look = stage.authority.collect

        def flickering(*, whole: bool = False) -> Collected:
            collected = look(whole=whole)
            leased = 0 if len(looks) % 2 or stage.clock.monotonic() > 20 else 1
            looks.append(msgspec.structs.replace(NOTHING_LEFT, leased=leased))
            return msgspec.structs.replace(collected, rest=looks[-1])

        stage.authority.collect = flickering  # type: ignore[method-assign]

    assert stage.play(script).elapsed_seconds > 20


def test_a_run_is_not_over_while_a_worker_is_missing(tmp_path: Path) -> None:
    """Nothing may be left to do, yet what the dead worker had open still has to be recovered and sealed."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        await stage.clock.sleep(1)
        stage.door.failures = [Indefinite("not yet")] * 3
        stage.latest(0).end(-9)
        stage.authority.rest = NOTHING_LEFT

    assert stage.play(script).ending is Ending.DONE
    assert len(stage.door.recovered) == 4
    assert [worker.slot for worker in stage.started] == [0, 1, 0]


def test_a_recovery_that_fails_is_tried_again(tmp_path: Path) -> None:
    """A worker is only started over shards that were recovered."""
    stage = Stage(tmp_path)
    stage.door.failures = [Indefinite("fsync failed")]

    async def script(stage: Stage, _: Supervisor) -> None:
        await stage.clock.sleep(1)
        stage.latest(0).end(4, error="fsync failed")
        await stage.clock.sleep(5)
        stage.authority.rest = NOTHING_LEFT

    stage.play(script)
    assert len(stage.door.recovered) == 2
    assert [worker.slot for worker in stage.started] == [0, 1, 0]


def test_workers_that_only_die_end_the_run(tmp_path: Path) -> None:
    """Five deaths within a minute without anything finished: stop everything and name the last error."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        while True:
            await stage.clock.sleep(0.1)
            stage.latest(0).end(1, error="ZeroDivisionError: division by zero")

    with pytest.raises(CannotGoOn, match=r"worker 0 died 5 times .*ZeroDivisionError.*worker-0\.log"):
        stage.play(script)


def test_deaths_with_progress_between_them_never_end_the_run(tmp_path: Path) -> None:
    """A crawl that gets something done between deaths goes on for ever."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        for _death in range(30):
            await stage.clock.sleep(2)
            stage.latest(0).end(-9)
            stage.authority.counters["completions"] += 1
        stage.authority.rest = NOTHING_LEFT

    assert stage.play(script).ending is Ending.DONE
    assert len(stage.started) == 32


def test_a_full_disk_ends_the_run_at_once(tmp_path: Path) -> None:
    """When the disk is to blame nothing is restarted, and the line says what to do."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        await stage.clock.sleep(1)
        stage.latest(0).end(4, error="No space left on device", disk="full")

    with pytest.raises(CannotGoOn, match=r"is full \(No space left on device\): free some space, then run again"):
        stage.play(script)
    assert len(stage.started) == 2
    assert stage.door.recovered == []


def test_a_folder_gone_wrong_ends_the_run_at_once(tmp_path: Path) -> None:
    """A worker that finds the folder itself wrong would find it wrong again."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        await stage.clock.sleep(1)
        stage.latest(1).end(2, error="crawl does not exist")

    with pytest.raises(CannotGoOn, match="crawl does not exist"):
        stage.play(script)


def test_an_error_of_the_store_ends_the_run(tmp_path: Path) -> None:
    """What a collect cannot read is not counted as nothing."""
    stage = Stage(tmp_path)

    async def script(stage: Stage, _: Supervisor) -> None:
        await stage.clock.sleep(1)

        def broken(*, whole: bool = False) -> Collected:
            raise CannotGoOn(f"cannot read shard 3 (whole={whole})")

        stage.authority.collect = broken  # type: ignore[method-assign]

    with pytest.raises(CannotGoOn, match="cannot read shard 3"):
        stage.play(script)
