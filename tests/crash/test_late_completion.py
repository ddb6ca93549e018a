"""A completion that comes too late changes nothing; its record stays in the sight of recovery until it is adopted."""

from pathlib import Path
from typing import Final

import pytest

from crash.handover import Node, Town, rehearse
from limpet.assembly.places import shard_of_url
from limpet.assembly.politeness import governor_of
from limpet.clock import DurableClock
from limpet.model.lifecycle import State
from limpet.parser.decode import coding_is_cut
from limpet.reconciler.recovery import Recovery, RecoveryReport
from limpet.runtime import Killed, Mortality
from limpet.testing.death import CountingMortality, ScriptedDeath
from limpet.testing.web import Visit

STEPS: Final = ("publish", "adopt", "seal")


def pages(town: Town) -> list[Visit]:
    """Requests to hosts of the shard, but for their rules."""
    return [visit for visit in town.visits(0) if not visit.url.endswith("/robots.txt")]


async def come_too_late(town: Town) -> set[str]:
    """A node whose leases end behind its back while it asks, and which then stops in order: URLs that came too late."""
    node, store = Node(town, "living", lambda _shard: True), town.shards[0].store
    await node.start()
    await node.at_work.take(0, town.far(0), town.shards[0].producer)
    while not (late := {visit.url for visit in pages(town) if visit.end_us is None}):
        await town.clock.sleep(0.05)
    assert await store.expire(town.clock.wall_us(), dead=True, poison_after=5)
    await node.stop()
    assert not late & {outcome.url for outcome in await store.all_outcomes()}
    assert [(info.sealed, info.live) for info in await town.segments.infos()] == [(False, False)]
    return late


async def recover(town: Town, mortality: Mortality) -> RecoveryReport:
    """What a reconciler does with segments that their living writers let go."""
    clock, facts = DurableClock(town.clock), town.facts
    recovery = Recovery(
        stores={number: shard.store for number, shard in town.shards.items()},
        producers={number: shard.producer for number, shard in town.shards.items()},
        segments=town.segments,
        governor=governor_of(town.settings, clock, town.ports.random.fraction),
        shard_of=lambda url: shard_of_url(url, facts),
        coding_is_cut=coding_is_cut,
        clock=clock,
        mortality=mortality,
        settings=town.settings,
        facts=facts,
    )
    report = RecoveryReport()
    for info in await town.segments.infos():
        if not info.sealed:
            await recovery.segment(info, report)
    return report


@pytest.mark.parametrize("step", [f"recover.{step}.{side}" for step in STEPS for side in ("before", "after")])
def test_what_came_too_late_is_adopted_once(tmp_path: Path, step: str) -> None:
    """However often recovery dies on the way: one outcome for each request, its URL fetched, nothing asked again."""

    async def story(town: Town) -> None:
        late, store = await come_too_late(town), town.shards[0].store
        dying = ScriptedDeath(step, 1)
        with pytest.raises(Killed):
            await recover(town, dying)
        report = await recover(town, CountingMortality())
        assert report.adopted == (0 if dying.passed["recover.adopt.after"] else len(late))
        assert all(info.sealed for info in await town.segments.infos())
        outcomes = await store.all_outcomes()
        assert sorted(visit.url for visit in pages(town)) == sorted(outcome.url for outcome in outcomes)
        states = {row.url: row.state for row in await store.rows()}
        assert {states[url] for url in late} == {State.FETCHED}

    rehearse(tmp_path, story)
