"""What a cluster's reconcilers compare, read at one moment: findings and their ages. It repairs nothing.

Rows and the due index are compared by the sweep, whose last whole pass is dated here; outcomes and records by recovery,
of which segments that are not sealed are the work left. `limpet verify` compares every record.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from limpet.bus.kafka import KafkaBus
from limpet.bus.kafka.topics import DEAD
from limpet.clock import DurableClock
from limpet.cluster.remote import RemoteCrawl, open_remote
from limpet.cluster.settings import ClusterSettings
from limpet.model.events import DOCUMENT_FETCHED, LINKS_DISCOVERED
from limpet.parser.page import PARSER_VERSION
from limpet.reconciler.standing import (
    FETCHED_PARSED,
    LEASES_INCARNATIONS,
    OUTCOMES_RECORDS,
    POSITIONS_LOGS,
    ROWS_DUE,
    Standing,
    Standings,
)
from limpet.runtime import Random
from limpet.urlstore import RepairItem, counters

UNPARSED_MAX: Final = 1_000
"""Listed of a shard; where there are more, there are at least so many."""
LATE_SWEEPS: Final = 3
"""Periods after which a pass that is still not whole is a finding."""


async def compare(settings: ClusterSettings, clock: DurableClock, random: Random) -> Standings:
    """One look. Raises `UsageError` for other facts, `LimpetError` for servers that are away."""
    bus = KafkaBus(settings.kafka, clock, min_insync=settings.kafka.min_insync)
    try:
        async with open_remote(settings, clock, random) as crawl:
            return Standings(
                compared=(
                    await _rows(crawl, settings, clock),
                    await _records(crawl),
                    await _parsed(crawl, settings, bus, clock),
                    await _positions(crawl, settings, bus),
                    await _leases(crawl),
                ),
                items=tuple(await _items(crawl)),
            )
    finally:
        await bus.close()


async def _rows(crawl: RemoteCrawl, settings: ClusterSettings, clock: DurableClock) -> Standing:
    counted = await crawl.counted()
    if not counted.at_us:
        return Standing(comparison=ROWS_DUE, findings=0, detail="not swept whole yet")
    age_seconds = (clock.wall_us() - counted.at_us) / 1e6
    late = age_seconds > LATE_SWEEPS * settings.cluster.sweep_seconds
    detail = f"the oldest whole sweep began {age_seconds:.0f} s ago"
    return Standing(comparison=ROWS_DUE, findings=int(late), since_us=counted.at_us if late else 0, detail=detail)


async def _records(crawl: RemoteCrawl) -> Standing:
    """A segment that is not sealed and whose writer beats no more waits for recovery."""
    alive = {beat.incarnation for beat in await crawl.beats()}
    writers = await crawl.unsealed()
    left = [name for name, incarnation in writers if incarnation not in alive]
    detail = f"{len(writers)} segments are not sealed" + (f", {len(left)} of writers that are gone" if left else "")
    return Standing(comparison=OUTCOMES_RECORDS, findings=len(left), detail=detail)


async def _parsed(crawl: RemoteCrawl, settings: ClusterSettings, bus: KafkaBus, clock: DurableClock) -> Standing:
    before_us = clock.wall_us() - int(settings.work.republish_grace_seconds * 1e6)
    shards = range(crawl.facts.shards)
    listed = await asyncio.gather(
        *(crawl.store(shard).unparsed(PARSER_VERSION, before_us, UNPARSED_MAX) for shard in shards)
    )
    unparsed = [outcome for some in listed for outcome in some]
    places = [
        (settings.kafka.topic(topic + DEAD), part) for topic in (DOCUMENT_FETCHED, LINKS_DISCOVERED) for part in shards
    ]
    dead = sum(end - start for start, end in (await bus.cluster.spans(places)).values())
    review = (await crawl.counted()).counts.get(counters.JOBS_REVIEW, 0)
    said = {"bodies that nobody parsed": len(unparsed), "dead letters": dead, "parse jobs in review": review}
    return Standing(
        comparison=FETCHED_PARSED,
        findings=len(unparsed) + dead + review,
        since_us=min((outcome.fetched_us for outcome in unparsed), default=0),
        detail=_said(said.items()),
    )


async def _positions(crawl: RemoteCrawl, settings: ClusterSettings, bus: KafkaBus) -> Standing:
    gaps: list[str] = []
    unread = 0
    for topic in (DOCUMENT_FETCHED, LINKS_DISCOVERED):
        places = [(settings.kafka.topic(topic), part) for part in range(crawl.facts.shards)]
        committed, spans = await bus.cluster.committed(topic, places), await bus.cluster.spans(places)
        for place, (start, end) in spans.items():
            at = committed.get(place, 0)
            unread += max(0, end - max(at, start))
            if at < start:
                gaps.append(f"{topic}[{place[1]}] reads on at {at}, its log begins at {start}")
    detail = "; ".join(gaps) or f"{unread:,} messages are unread"
    return Standing(comparison=POSITIONS_LOGS, findings=len(gaps), detail=detail)


async def _leases(crawl: RemoteCrawl) -> Standing:
    """Owners that beat no more. Whether one that beats is dead is for an observer to judge, over a lease's time."""
    alive = {beat.incarnation for beat in await crawl.beats()}
    owners = await crawl.owners()
    owned = {shard: owner for shard, owner in owners.items() if owner.incarnation}
    lost = sorted(shard for shard, owner in owned.items() if owner.incarnation not in alive)
    detail = f"{len(owned)} of {crawl.facts.shards} shards are owned"
    if lost:
        detail += f"; by nobody that beats: {', '.join(map(str, lost))}"
    return Standing(comparison=LEASES_INCARNATIONS, findings=len(lost), detail=detail)


async def _items(crawl: RemoteCrawl) -> list[RepairItem]:
    found = await asyncio.gather(*(crawl.store(shard).repairs() for shard in range(crawl.facts.shards)))
    return sorted((item for some in found for item in some), key=lambda item: item.created_us)


def _said(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts if count)
