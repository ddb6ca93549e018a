"""Ownership of shards, one rule at a time; the whole under faults is in tests/sim."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from limpet.membership import Beat, Loss, Owner, Ownership, Presence, Previous, Timing
from limpet.model.errors import Indefinite
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.memory_leases import MemoryLeaseTable

TIMING = Timing(lease_seconds=6, margin_seconds=0.5, fetch_seconds_max=10, poll_seconds=0.5, orphan_seconds=5)
SHARDS = 4


class StoppableClock(SimClock):
    """The clock of a process that can be stopped: sleeps end only while it runs."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.running = asyncio.Event()
        self.running.set()

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await self.running.wait()


class Process:
    """Owns shards, and writes down what it is told."""

    def __init__(self, table: MemoryLeaseTable, loop: VirtualLoop, name: str, *hinted: int) -> None:
        self.hinted = frozenset(hinted)
        self.clock = StoppableClock(loop)
        self.said: list[str] = []
        self.drain_seconds = 0.0
        self.stop = asyncio.Event()
        self._names = 0
        self._name = name
        presence = Presence(table, self.clock, TIMING, role="crawlnode", new_incarnation=self._fresh)
        self.ownership = Ownership(
            table,
            self.clock,
            TIMING,
            shards=SHARDS,
            hint=self,
            presence=presence,
            on_take=self._take,
            on_lose=self._lose,
        )

    def begin(self) -> "asyncio.Task[None]":
        self.task = asyncio.ensure_future(self.ownership.run(self.stop))
        return self.task

    def share(self) -> frozenset[int]:
        return self.hinted

    def _fresh(self) -> str:
        self._names += 1
        return f"{self._name}{self._names}"

    async def _take(self, shard: int, epoch: int, previous: Previous) -> None:
        assert self.ownership.alive(shard)
        self.said.append(f"take {shard} {epoch} {previous}")

    async def _lose(self, shard: int, why: Loss) -> None:
        assert not self.ownership.alive(shard)
        await self.clock.sleep(self.drain_seconds)
        self.said.append(f"lose {shard} {why} {'held' if self.ownership.holds(shard) else 'gone'}")


Play = Callable[[MemoryLeaseTable, VirtualLoop], Awaitable[None]]


def play(scenario: Play, table: MemoryLeaseTable | None = None) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        await scenario(table or MemoryLeaseTable(), loop)

    run_virtual(main(), loop)


async def pause(loop: VirtualLoop, seconds: float) -> None:
    await SimClock(loop).sleep(seconds)


def test_shares_are_taken_and_passed_on_at_the_end() -> None:
    """Within a few polls of the start; a clean end leaves rows that name nobody, and no incarnation."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        first, second = Process(table, loop, "a", 0, 2), Process(table, loop, "b", 1, 3)
        running = [first.begin(), second.begin()]
        await pause(loop, 2)
        assert first.ownership.shards() == frozenset({0, 2})
        assert second.ownership.shards() == frozenset({1, 3})
        assert sorted(first.said) == ["take 0 1 released", "take 2 1 released"]
        assert first.ownership.epoch(0) == 1
        assert first.ownership.epoch(1) == 0
        first.stop.set()
        second.stop.set()
        await asyncio.gather(*running)
        assert sorted(first.said[2:]) == ["lose 0 stopping held", "lose 2 stopping held"]
        assert set((await table.owners()).values()) == {Owner("", 1)}
        assert await table.incarnations() == []

    play(scenario)


def test_a_shard_moves_when_another_wants_it_and_not_before_it_is_drained() -> None:
    """The newcomer waits for the drain; while that lasts the old owner sends nothing new but may complete."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        old, new = Process(table, loop, "a", 0, 1, 2, 3), Process(table, loop, "b", 3)
        old.drain_seconds = 4
        old.begin()
        await pause(loop, 2)
        old.hinted = frozenset({0, 1, 2})
        await pause(loop, 8)
        assert old.ownership.alive(3), "nobody else wants it"
        new.begin()
        await pause(loop, 2)
        assert not old.ownership.alive(3)
        assert old.ownership.holds(3)
        assert new.said == []
        await pause(loop, 4)
        assert new.said == ["take 3 2 released"]
        assert old.said[-1] == "lose 3 moved held"
        assert old.ownership.shards() == {0, 1, 2}

    play(scenario)


def test_an_empty_hint_ends_no_ownership_and_orphans_are_shared_out() -> None:
    """No broker, no hint: everything is owned all the same, by processes in an order that they agree upon."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        processes = [Process(table, loop, name) for name in "abc"]
        for process in processes:
            process.begin()
        await pause(loop, TIMING.orphan_seconds + 2)
        owned = [shard for process in processes for shard in process.ownership.shards()]
        assert sorted(owned) == list(range(SHARDS))
        epochs = {shard: owner.epoch for shard, owner in (await table.owners()).items()}
        assert set(epochs.values()) == {1}, "they did not get into each other's way"
        await pause(loop, 60)
        assert {shard: owner.epoch for shard, owner in (await table.owners()).items()} == epochs

    play(scenario)


def test_the_dead_are_taken_over_after_lease_margin_and_longest_fetch() -> None:
    """Not a moment before; then within the bound that the settings state."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        first, second = Process(table, loop, "a", 0, 1, 2, 3), Process(table, loop, "b")
        first.begin()
        second.begin()
        await pause(loop, 3)
        first.task.cancel()
        died = loop.time()
        second.hinted = frozenset(range(SHARDS))
        while not second.said:
            await pause(loop, 0.1)
        assert loop.time() - died >= TIMING.lease_seconds - 2.5 + TIMING.fetch_seconds_max
        assert loop.time() - died <= TIMING.takeover_seconds_max
        await pause(loop, 1)
        assert sorted(second.said) == [f"take {shard} 2 dead" for shard in range(SHARDS)]

    play(scenario)


def test_a_process_that_slept_beyond_its_lease_sends_nothing_more() -> None:
    """`alive` and `holds` are False at once, before anything else has run; it goes on as somebody else."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        process = Process(table, loop, "a", 0, 1, 2, 3)
        process.begin()
        await pause(loop, 3)
        process.clock.running.clear()
        await pause(loop, 6.1)
        assert process.ownership.shards() == frozenset()
        assert not process.ownership.holds(0)
        assert len(process.said) == SHARDS, "it did not even notice yet"
        process.clock.running.set()
        await pause(loop, 1.5)
        assert "lose 0 lapsed gone" in process.said
        assert process.ownership.presence.lease.incarnation == "a2"
        assert process.ownership.presence.lapses == 1
        await pause(loop, TIMING.takeover_seconds_max)
        assert "take 0 2 dead" in process.said
        assert process.ownership.shards() == frozenset(range(SHARDS))

    play(scenario)


def test_a_later_epoch_in_the_row_ends_ownership() -> None:
    """It cannot be, unless a clock is broken: then whoever has the higher epoch is right."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        process = Process(table, loop, "a", 0)
        process.begin()
        await pause(loop, 2)
        await table.beat(Beat("thief", "crawlnode", 1, frozenset({0})))
        assert await table.compare_and_set(0, Owner("a1", 1), Owner("thief", 2))
        await pause(loop, 2)
        assert process.said == ["take 0 1 released", "lose 0 fenced gone"]

    play(scenario)


class LostReplies(MemoryLeaseTable):
    """Changes owners, and does not know it of shard 0."""

    lost = 0
    deaf = 0

    async def compare_and_set(self, shard: int, old: Owner, new: Owner) -> bool:
        done = await super().compare_and_set(shard, old, new)
        if self.lost and shard == 0:
            self.lost -= 1
            raise Indefinite("no reply")
        return done

    async def owner(self, shard: int) -> Owner:
        if self.deaf and shard == 0:
            self.deaf -= 1
            raise Indefinite("no reply")
        return await super().owner(shard)


def test_an_unknown_take_is_settled_by_reading() -> None:
    """If it took place it counts, once."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        process = Process(table, loop, "a", 0)
        process.begin()
        await pause(loop, 3)
        assert process.said == ["take 0 1 released"]
        process.stop.set()
        await process.task
        assert await table.owner(0) == Owner("", 1)

    table = LostReplies()
    table.lost = 1
    play(scenario, table)


def test_a_take_that_nobody_could_settle_is_taken_again_under_a_new_epoch() -> None:
    """Though no hint names it any more; and what became of the owner before is not forgotten."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        assert isinstance(table, LostReplies)
        assert await table.compare_and_set(0, Owner("", 0), Owner("gone", 1))
        table.lost = table.deaf = 1
        process = Process(table, loop, "a", 0)
        process.begin()
        while table.deaf:
            await pause(loop, 0.1)
        process.hinted = frozenset()
        await pause(loop, 2)
        assert [said for said in process.said if said.startswith("take 0")] == ["take 0 3 dead"]

    play(scenario, LostReplies())


def test_an_unknown_release_is_repeated_until_it_is_known() -> None:
    """So that nobody has to wait for a death that never comes."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        assert isinstance(table, LostReplies)
        process = Process(table, loop, "a", 0)
        process.begin()
        await pause(loop, 2)
        table.lost = 3
        process.stop.set()
        await process.task
        assert await table.owner(0) == Owner("", 1)

    play(scenario, LostReplies())


class Failing(Process):
    """Cannot begin with a shard."""

    async def _take(self, shard: int, epoch: int, previous: Previous) -> None:
        raise Indefinite(f"shard {shard} cannot be opened (epoch {epoch}, {previous})")


def test_a_handler_that_fails_ends_the_run_and_the_lease() -> None:
    """As a death: others find it, nothing is passed on."""

    async def scenario(table: MemoryLeaseTable, loop: VirtualLoop) -> None:
        process = Failing(table, loop, "a", 0)
        with pytest.raises(Indefinite, match="shard 0 cannot be opened"):
            await process.begin()
        assert process.ownership.presence.lease.gone()
        assert process.ownership.shards() == frozenset()
        assert await table.owner(0) == Owner("a1", 1)

    play(scenario)
