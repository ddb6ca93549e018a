"""Facts of a crawl on a cluster: written once, and never adapted to."""

import asyncio
import re
from pathlib import Path

import pytest

from limpet.clock import SystemClock
from limpet.cluster.facts import CRAWL, read_facts, write_facts
from limpet.model.errors import UsageError
from limpet.testing.chance import SeededRandom
from unit.cluster.conf import RIGHT, settings
from unit.cluster.doubles import MemoryFacts

OTHERS = {
    "shards": ("shards = 4", "shards = 2", "crawl.shards is 4 in this crawl, but 2 was asked for"),
    "scope": ("[crawl]", '[crawl]\nscope = "domain"', "crawl.scope is 'host' in this crawl, but 'domain' was asked"),
    "depth": ("[crawl]", "[crawl]\ndepth = 3", "crawl.depth is None in this crawl, but 3 was asked for"),
    "identity": ("[crawl]", "[crawl]\nexact_urls = true", "crawl.exact_urls is False in this crawl, but True"),
    "prefix": ('prefix = "c1"', 'prefix = "c2"', "kafka.prefix is 'c1' in this crawl, but 'c2' was asked for"),
    "root": ("/limpet/c1", "/limpet/c2", "hdfs.root is '/limpet/c1' in this crawl, but '/limpet/c2' was asked for"),
    "slots": ("[cassandra]", "[cassandra]\nslot_seconds = 60", "cassandra.slot_seconds is 600 in this crawl, but 60"),
    "contact": ("crawl@example.org", "new@example.org", "crawl.contact is 'crawl@example.org' in this crawl"),
}


def test_the_first_init_makes_the_facts_and_the_second_finds_them(tmp_path: Path) -> None:
    """Id and secret are made once; whoever comes later, at the same time even, takes those."""

    async def scenario() -> None:
        table, asked = MemoryFacts(), settings(tmp_path)
        first = await write_facts(table, asked, SystemClock(), SeededRandom(1))
        assert await write_facts(table, asked, SystemClock(), SeededRandom(2)) == first
        assert await read_facts(table, asked, SystemClock(), SeededRandom(3)) == first
        assert len(first.hash_seed) == 16
        assert first.contact == "crawl@example.org"

    asyncio.run(scenario())


@pytest.mark.parametrize("name", OTHERS)
def test_other_facts_are_refused_naming_both_values(name: str, tmp_path: Path) -> None:
    """By `init` and by every start, before anything is written."""
    old, new, said = OTHERS[name]
    other = RIGHT.replace(old, new, 1)
    if name == "shards":
        other = re.sub(r"addresses = .*", 'addresses = ["127.0.0.1:1", "127.0.0.1:2"]', other)

    async def scenario() -> None:
        table = MemoryFacts()
        await write_facts(table, settings(tmp_path), SystemClock(), SeededRandom(1))
        before = dict(table.values)
        for act in (write_facts, read_facts):
            with pytest.raises(UsageError, match=re.escape(said)):
                await act(table, settings(tmp_path, other), SystemClock(), SeededRandom(2))
        assert table.values == before

    asyncio.run(scenario())


def test_a_keyspace_without_a_crawl_names_the_way_out(tmp_path: Path) -> None:
    """A role never makes facts."""

    async def scenario() -> None:
        table = MemoryFacts()
        with pytest.raises(UsageError, match="run `limpet init`"):
            await read_facts(table, settings(tmp_path), SystemClock(), SeededRandom(1))
        assert CRAWL not in table.values

    asyncio.run(scenario())
