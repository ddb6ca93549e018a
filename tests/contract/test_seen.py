"""The contract of the seen port, held against every adapter."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.valkeys import SeenServer, open_shard, servers
from limpet.runtime import InlineRunner, Runner, ThreadRunner
from limpet.seen import SeenShard
from limpet.seen.redis import RedisSeen
from limpet.seen.sqlite import SqliteSeen
from limpet.testing.memory_seen import MemorySeen


class SeenRig(Protocol):
    """One adapter: a shard that can be opened, closed, killed and damaged."""

    def open(self) -> SeenShard:
        """The shard as its next owner finds it."""
        ...

    async def kill(self) -> None:
        """The owner dies."""
        ...

    def damage(self) -> None:
        """What is stored becomes unreadable; call it while closed."""
        ...

    def finish(self) -> None:
        """Release everything that is not the shard's own."""
        ...


class SqliteSeenRig:
    """SQLite, with a batch small enough to be passed."""

    def __init__(self, folder: Path, runner: Runner, batch: int) -> None:
        self._path = folder / "seen.sqlite"
        self._runner = runner
        self._batch = batch
        self._shard: SqliteSeen | None = None

    def open(self) -> SeenShard:
        self._shard = SqliteSeen(self._path, self._runner, batch=self._batch, recent_max=8)
        return self._shard

    async def kill(self) -> None:
        assert self._shard is not None
        self._shard.abandon()

    def damage(self) -> None:
        self._path.write_bytes(b"not a database, whatever was here before " * 300)

    def finish(self) -> None:
        self._runner.close()


class MemorySeenRig:
    """The fake."""

    def __init__(self) -> None:
        self._marks: set[bytes] = set()

    def open(self) -> SeenShard:
        return MemorySeen(0, self._marks)

    async def kill(self) -> None:
        """Marks are the server's."""

    def damage(self) -> None:
        self._marks.clear()

    def finish(self) -> None:
        """Nothing is held."""


class RedisSeenRig:
    """A real server; several rigs share it, each with a crawl of its own."""

    def __init__(self, server: SeenServer, capacity: int) -> None:
        self._server = server
        self._crawl = server.new_crawl()
        self._capacity = capacity
        self._shard: RedisSeen | None = None

    def open(self) -> SeenShard:
        self._shard = open_shard(self._server, self._crawl, capacity=self._capacity)
        return self._shard

    async def kill(self) -> None:
        assert self._shard is not None
        await self._shard.close()  # it holds nothing else

    def damage(self) -> None:
        self._server.lose_everything()

    def finish(self) -> None:
        """The server serves the next rig."""


SEEN: dict[str, Callable[[Path], SeenRig]] = {
    "sqlite": lambda folder: SqliteSeenRig(folder, InlineRunner(), 2048),
    "sqlite-small-batches": lambda folder: SqliteSeenRig(folder, InlineRunner(), 3),
    "memory": lambda _: MemorySeenRig(),
    "redis": lambda _: RedisSeenRig(servers().shared(), 1_000_000),
    "redis-two-sets": lambda _: RedisSeenRig(servers().shared(), 32 * 400),
    "sqlite-threaded": lambda folder: SqliteSeenRig(folder, ThreadRunner("seen"), 3),
}
"""Every adapter; one more is one line more."""


@pytest.fixture(scope="module", autouse=True)
def _servers_end() -> Iterator[None]:
    """The server that the rigs share ends with the module."""
    yield
    servers().end()


@pytest.fixture(params=sorted(SEEN))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> SeenRig:
    """One adapter."""
    return SEEN[request.param](tmp_path)


def run(rig: SeenRig, scenario: Callable[[SeenShard], Coroutine[Any, Any, None]]) -> None:
    """`scenario` on a shard, which is closed afterwards."""

    async def main() -> None:
        shard = rig.open()
        try:
            await scenario(shard)
        finally:
            await shard.close()
            rig.finish()

    asyncio.run(main())


def fp(number: int) -> bytes:
    """A fingerprint; neighbours differ in their last bits only."""
    return number.to_bytes(16, "big")


def test_only_what_was_marked_is_present(rig: SeenRig) -> None:
    """Answers come in the order of the questions, duplicates included; marking again changes nothing."""

    async def scenario(shard: SeenShard) -> None:
        assert await shard.present([fp(1), fp(2)]) == [False, False]
        await shard.mark([fp(2), fp(3)])
        await shard.mark([fp(3), fp(3)])
        assert await shard.present([fp(1), fp(2), fp(3), fp(2)]) == [False, True, True, True]
        assert await shard.present([]) == []
        await shard.mark([])

    run(rig, scenario)


def test_many_marks_are_all_present_and_their_neighbours_are_not(rig: SeenRig) -> None:
    """No false positive: fingerprints one bit away were never marked."""

    async def scenario(shard: SeenShard) -> None:
        for begin in range(0, 600, 7):
            await shard.mark([fp(2 * n) for n in range(begin, begin + 7)])
        assert all(await shard.present([fp(2 * n) for n in range(600)]))
        assert not any(await shard.present([fp(2 * n + 1) for n in range(600)]))
        assert not any(await shard.present([fp(2 * n + 2**127) for n in range(600)]))

    run(rig, scenario)


def test_marks_survive_a_clean_end(rig: SeenRig) -> None:
    """After `close` the next owner finds every mark."""

    async def main() -> None:
        shard = rig.open()
        await shard.mark([fp(n) for n in range(20)])
        await shard.close()
        shard = rig.open()
        assert await shard.present([fp(n) for n in range(21)]) == [True] * 20 + [False]
        await shard.close()
        rig.finish()

    asyncio.run(main())


def test_death_loses_marks_and_invents_none(rig: SeenRig) -> None:
    """What is present afterwards was marked before."""

    async def main() -> None:
        shard = rig.open()
        for n in range(20):
            await shard.mark([fp(2 * n)])
        await rig.kill()
        shard = rig.open()
        assert not any(await shard.present([fp(2 * n + 1) for n in range(20)]))
        await shard.mark([fp(2 * n) for n in range(20)])
        assert all(await shard.present([fp(2 * n) for n in range(20)]))
        await shard.close()
        rig.finish()

    asyncio.run(main())


def test_clear_forgets_everything(rig: SeenRig) -> None:
    """Before a rebuild: what was marked, written or not, is gone, now and for the next owner; marking goes on."""

    async def main() -> None:
        shard = rig.open()
        await shard.mark([fp(n) for n in range(20)])
        await shard.clear()
        assert not any(await shard.present([fp(n) for n in range(20)]))
        await shard.mark([fp(100)])
        await shard.close()
        shard = rig.open()
        assert await shard.present([fp(5), fp(100)]) == [False, True]
        await shard.close()
        rig.finish()

    asyncio.run(main())


def test_a_damaged_shard_is_an_empty_shard(rig: SeenRig) -> None:
    """What cannot be read knows nothing; it works again from the first mark on."""

    async def main() -> None:
        shard = rig.open()
        await shard.mark([fp(n) for n in range(20)])
        await shard.close()
        rig.damage()
        shard = rig.open()
        assert not any(await shard.present([fp(n) for n in range(20)]))
        await shard.mark([fp(n) for n in range(5)])
        await shard.close()
        shard = rig.open()
        assert await shard.present([fp(n) for n in range(6)]) == [True] * 5 + [False]
        await shard.close()
        rig.finish()

    asyncio.run(main())


def test_a_fingerprint_of_another_length_is_refused(rig: SeenRig) -> None:
    """It could only ever be a mistake."""

    async def scenario(shard: SeenShard) -> None:
        for wrong in (b"", fp(1)[:15], fp(1) + b"\x00"):
            with pytest.raises(ValueError, match="16 bytes"):
                await shard.mark([fp(7), wrong])
        assert await shard.present([fp(7)]) == [False]

    run(rig, scenario)


def test_marks_made_at_the_same_time_are_all_present(rig: SeenRig) -> None:
    """While a batch is on its way to the file its marks are present, and so are those that came meanwhile."""

    async def scenario(shard: SeenShard) -> None:
        async def mark(number: int) -> None:
            await shard.mark([fp(number)])
            assert await shard.present([fp(number)]) == [True]

        await asyncio.gather(*(mark(number) for number in range(50)))
        assert all(await shard.present([fp(number) for number in range(50)]))

    run(rig, scenario)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["mark", "present", "reopen", "clear"]), st.lists(st.integers(0, 40), max_size=6)),
        max_size=25,
    )
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("adapter", sorted(SEEN))
def test_a_shard_behaves_like_a_set(
    adapter: str, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[int]]]
) -> None:
    """Any sequence of marks, questions, clean restarts and clears answers as a set would."""

    async def main() -> None:
        rig, known = SEEN[adapter](tmp_path_factory.mktemp("seen")), set[int]()
        shard = rig.open()
        for step, numbers in steps:
            if step == "mark":
                await shard.mark([fp(number) for number in numbers])
                known |= set(numbers)
            elif step == "present":
                assert await shard.present([fp(number) for number in numbers]) == [n in known for n in numbers]
            elif step == "clear":
                await shard.clear()
                known.clear()
            else:
                await shard.close()
                shard = rig.open()
        assert await shard.present([fp(number) for number in range(41)]) == [n in known for n in range(41)]
        await shard.close()
        rig.finish()

    asyncio.run(main())
