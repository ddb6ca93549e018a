"""What `limpet init` makes beside tables: the folder of the segments, and every topic a role joins."""

import asyncio
from pathlib import Path

import pytest

from limpet.bus.kafka.topics import DEAD, HEALTH, RETRY
from limpet.clock import SystemClock
from limpet.cluster.facts import new_facts
from limpet.cluster.init import make_root
from limpet.cluster.seen import NoSeen, seen_shard
from limpet.cluster.topics import MEMBERS, MEMBERS_RECONCILE, topics_of
from limpet.model.errors import CannotGoOn
from limpet.model.events import TOPICS
from limpet.receipts import Recorder
from limpet.testing.chance import SeededRandom
from limpet.testing.hdfs import MemoryHdfs
from limpet.testing.memory_receipts import MemoryReceiptLog
from unit.cluster.conf import RIGHT, settings


def test_topics_are_those_of_the_bus_and_of_the_groups(tmp_path: Path) -> None:
    """A partition for each shard; who is a member of what needs no message to be kept for long."""
    specs = {spec.name: spec for spec in topics_of(settings(tmp_path))}
    assert set(specs) == {HEALTH, MEMBERS, MEMBERS_RECONCILE, *(t + s for t in TOPICS for s in ("", RETRY, DEAD))}
    assert {spec.partitions for spec in specs.values()} == {4}
    assert {spec.replication for spec in specs.values()} == {3}
    assert specs[TOPICS[0]].retention_seconds == 7 * 86_400
    assert specs[MEMBERS].retention_seconds == 86_400


def test_the_root_is_made_once_and_again() -> None:
    """Doing it again changes nothing; an HDFS that takes no writes is told by name."""

    async def scenario() -> None:
        hdfs = MemoryHdfs()
        await make_root(hdfs, "/limpet/c1")
        await make_root(hdfs, "/limpet/c1")
        hdfs.up = False
        with pytest.raises(CannotGoOn, match="/limpet/c1"):
            await make_root(hdfs, "/limpet/c1")

    asyncio.run(scenario())


def test_without_seen_shards_nothing_is_ever_present(tmp_path: Path) -> None:
    """Slow and safe: every link asks for its row."""
    asked = settings(tmp_path, RIGHT.replace("[crawl]", '[cluster]\nseen = "none"\n[crawl]', 1))
    facts = new_facts(asked, SystemClock(), SeededRandom(1))
    recorder = Recorder(MemoryReceiptLog())
    seen = seen_shard(asked, facts, 0, clock=SystemClock(), incarnation="a", recorder=recorder)
    assert isinstance(seen, NoSeen)

    async def scenario() -> None:
        await seen.mark([b"x" * 16])
        assert await seen.present([b"x" * 16, b"y" * 16]) == [False, False]

    asyncio.run(scenario())
