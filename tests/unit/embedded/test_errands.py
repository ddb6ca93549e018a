"""Errands between workers: answered by the owner alone, in time or not at all, and nothing is left lying."""

import asyncio
from pathlib import Path

from limpet.clock import DurableClock
from limpet.crawlnode.errands import Errand, NotAsked
from limpet.embedded.errands import WAIT_SECONDS_MAX, FileErrands
from limpet.robots import HttpAnswer, RobotsAnswer
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual

RULES = HttpAnswer(200, body=b"User-agent: *\nDisallow: /x\n")
OWNERS = {"a.test": 0, "b.test": 1}
ERRAND = Errand(url="http://b.test/robots.txt", hops="LPR", via="http://a.test/robots.txt", cause=b"cause")


class Pair:
    """Two workers on virtual time; the second owns b.test and answers with `answer`, after `seconds`."""

    def __init__(self, folder: Path, answer: RobotsAnswer | NotAsked | None = RULES, seconds: float = 0.0) -> None:
        self.loop = VirtualLoop()
        self.clock = DurableClock(SimClock(self.loop))
        self.folder, self.answer, self.seconds = folder, answer, seconds
        self.ran: list[tuple[Errand, float]] = []
        self.one, self.two = (
            FileErrands(
                folder, shards=frozenset({shard}), shard_of_host=OWNERS.__getitem__, clock=self.clock, name=f"w{shard}"
            )
            for shard in (0, 1)
        )

    async def run(self, errand: Errand, until: float) -> RobotsAnswer | NotAsked | None:
        self.ran.append((errand, until - self.clock.monotonic()))
        await self.clock.sleep(self.seconds)
        return self.answer

    def ask(self, *, served: bool = True, later_seconds: float = 0.0) -> RobotsAnswer | NotAsked | None:
        async def main() -> RobotsAnswer | NotAsked | None:
            await self.clock.sleep(later_seconds)
            servers = [asyncio.ensure_future(errands.serve(self.run)) for errands in (self.one, self.two) if served]
            try:
                return await self.one.ask(ERRAND)
            finally:
                for server in servers:
                    server.cancel()
                await asyncio.gather(*servers, return_exceptions=True)

        return run_virtual(main(), self.loop)


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_owner_answers_and_nothing_is_left(tmp_path: Path) -> None:
    """Whole answers come back, once, and both files go."""
    pair = Pair(tmp_path)
    assert pair.ask() == RULES
    ((errand, left_seconds),) = pair.ran
    assert errand == ERRAND
    assert WAIT_SECONDS_MAX - 2 < left_seconds <= WAIT_SECONDS_MAX
    assert files(tmp_path) == []


def test_an_owner_that_may_not_ask_says_so(tmp_path: Path) -> None:
    """None comes back at once, not after the whole wait."""
    pair = Pair(tmp_path, None)
    began = pair.clock.monotonic()
    assert pair.ask() is None
    assert pair.clock.monotonic() - began < 5
    assert files(tmp_path) == []


def test_an_owner_that_stops_leaves_the_question_for_its_successor(tmp_path: Path) -> None:
    """An answer that says nothing would make the asker wait, although nobody is to blame."""
    pair = Pair(tmp_path, None)

    async def main() -> RobotsAnswer | NotAsked | None:
        asking = asyncio.ensure_future(pair.one.ask(ERRAND))
        pair.two.stop()
        leaving = asyncio.ensure_future(pair.two.serve(pair.run))
        await pair.clock.sleep(1.0)
        assert pair.ran
        assert not asking.done()
        leaving.cancel()
        pair.answer = RULES
        successor = FileErrands(
            tmp_path, shards=frozenset({1}), shard_of_host=OWNERS.__getitem__, clock=pair.clock, name="w2"
        )
        serving = asyncio.ensure_future(successor.serve(pair.run))
        try:
            return await asking
        finally:
            serving.cancel()
            await asyncio.gather(leaving, serving, return_exceptions=True)

    assert run_virtual(main(), pair.loop) == RULES
    assert files(tmp_path) == []


def test_an_owner_tells_how_long_its_host_waits(tmp_path: Path) -> None:
    """Then who asked waits as long, for the same reason, instead of asking again and again."""
    waits = NotAsked("redirect_to_waiting_host", 600_000_000, theirs=True)
    assert Pair(tmp_path, waits).ask() == waits
    assert files(tmp_path) == []


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    """No worker there, or a host that is not asked in time: None, and the question is taken back."""
    for pair in (Pair(tmp_path), Pair(tmp_path, seconds=10_000.0)):
        began = pair.clock.monotonic()
        assert pair.ask(served=pair.seconds > 0) is None
        assert WAIT_SECONDS_MAX <= pair.clock.monotonic() - began < WAIT_SECONDS_MAX + 5
        assert files(tmp_path) == []


def test_what_the_dead_asked_is_forgotten(tmp_path: Path) -> None:
    """A question older than anybody waits is nobody's errand; strange files are left alone."""
    pair = Pair(tmp_path)
    old_us = pair.clock.boot_us()
    (tmp_path / f"1-{old_us}-dead-1.ask").write_bytes(b"http://b.test/robots.txt")
    (tmp_path / f"1-{old_us}-dead-2.answer").write_bytes(b"x")
    (tmp_path / "note").write_bytes(b"x")
    assert pair.ask(later_seconds=WAIT_SECONDS_MAX + 1) == RULES
    assert len(pair.ran) == 1
    assert files(tmp_path) == ["note"]


def test_a_damaged_answer_is_none(tmp_path: Path) -> None:
    """Whatever lies there, nobody is allowed anything by it."""
    pair = Pair(tmp_path)

    async def main() -> RobotsAnswer | NotAsked | None:
        asking = asyncio.ensure_future(pair.one.ask(ERRAND))
        while not files(tmp_path):
            await pair.clock.sleep(0.05)
        (tmp_path / files(tmp_path)[0].replace(".ask", ".answer")).write_bytes(b"\xff\x00garbage")
        return await asking

    assert run_virtual(main(), pair.loop) is None


def test_a_worker_that_stops_waits_for_nobody(tmp_path: Path) -> None:
    """Ctrl-C is not held up by another worker that is stopping too."""
    pair = Pair(tmp_path)

    async def main() -> RobotsAnswer | NotAsked | None:
        asking = asyncio.ensure_future(pair.one.ask(ERRAND))
        await pair.clock.sleep(1.0)
        assert not asking.done()
        began = pair.clock.monotonic()
        pair.one.stop()
        answer = await asking
        assert pair.clock.monotonic() - began < 1.0
        return answer

    assert run_virtual(main(), pair.loop) is None
    assert files(tmp_path) == []
