"""limpet.toml: what is right is taken, what is wrong is refused by name, with the way out."""

import re
from pathlib import Path

import pytest

from limpet.cluster import matrix
from limpet.cluster.settings import load_cluster_settings, process_settings
from limpet.model.errors import UsageError
from unit.cluster.conf import RIGHT, settings, written

KAFKA = '[kafka]\nbootstrap = "127.0.0.1:9092"\nprefix = "c1"'
SPOILT = {
    "unknown key": ("[crawl]", "[crawl]\ncolour = 1", "colour"),
    "unknown table": ("[crawl]", "[colour]\nred = 1\n[crawl]", "colour"),
    "wrong type": ("shards = 4", 'shards = "4"', "crawl.shards"),
    "no table": (KAFKA, "", "kafka"),
    "kafka option": (KAFKA, f'{KAFKA}\n[kafka.options]\nacks = "1"', "kafka option 'acks'"),
    "keyspace": ("[cassandra]", '[cassandra]\nkeyspace = "A;"', "cassandra.keyspace"),
    "hdfs key": ("[hdfs]", "[hdfs]\ncopies = 1", "copies"),
    "too few seen shards": ("shards = 4", "shards = 5", "seen.addresses names 4 servers and crawl.shards is 5"),
    "seen address": ("127.0.0.1:6400", "http://x/", "seen shard address"),
    "agent": ("[crawl]", '[crawl]\nagent = "a b"', "crawl.agent"),
    "contact": ("crawl@example.org", "nobody", "crawl.contact 'nobody' reaches nobody"),
    "scope": ("[crawl]", '[crawl]\nscope = "web"', "crawl.scope = 'web'"),
    "owned": ("127.0.0.0/8", "127.0.0.0/99", "127.0.0.0/99"),
    "insync": ("[kafka]", "[kafka]\nreplication = 1", "kafka.min_insync = 2 is more than kafka.replication = 1"),
    "replicas": ("[hdfs]", "[hdfs]\nreplication = 1", "hdfs.replicas_min = 2"),
    "root": ("/limpet/c1", "limpet", "hdfs.root = 'limpet'"),
    "lease": (
        "[crawl]",
        "[cluster]\nlease_seconds = 4\nmargin_seconds = 1\n[crawl]",
        "cluster.lease_seconds = 4 must be longer than work.health_seconds_max = 5",
    ),
    "margin": ("[crawl]", "[cluster]\nmargin_seconds = 0.01\n[crawl]", "margin_seconds = 0.01"),
    "retention": (
        KAFKA,
        f"{KAFKA}\nretention_seconds = 3600\n[fetching]\nwall_seconds_max = 4000\n[work]\nlease_seconds = 5000",
        "kafka.retention_seconds = 3600 must outlast a take-over",
    ),
    "url lease": ("[crawl]", "[work]\nlease_seconds = 10\n[crawl]", "work.lease_seconds = 10"),
    "capacity": ("[crawl]", "[crawl]\nseen_capacity = 1000000000000", "seen_capacity 1000000000000 is too large"),
}


def test_a_right_file_is_taken(tmp_path: Path) -> None:
    """What an embedded crawl knows means the same here; the rest has the documented defaults."""
    found = settings(tmp_path)
    assert found.crawl.shards == 4
    assert (found.kafka.replication, found.kafka.min_insync, found.hdfs.replicas_min) == (3, 2, 2)
    assert found.politeness.floor_seconds == 1.0
    assert process_settings(found).owned == ("127.0.0.0/8",)
    assert not process_settings(found).rules.owned_hosts_only


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_is_refused_by_name(name: str, tmp_path: Path) -> None:
    """The file, the key and what is wrong with it are in one line."""
    old, new, said = SPOILT[name]
    assert old in RIGHT
    path = written(tmp_path, RIGHT.replace(old, new, 1))
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        load_cluster_settings(path)
    assert str(caught.value).startswith(f"configuration {path}: ")


@pytest.mark.parametrize(("port", "name"), [*matrix.REFUSED, ("bus", "carrier pigeon")])
def test_back_ends_that_break_a_guarantee_are_refused(port: str, name: str, tmp_path: Path) -> None:
    """Each with its reason and what to write instead."""
    with pytest.raises(UsageError, match=rf"cluster\.{port} = '{name}' cannot be used: .*; write ") as caught:
        settings(tmp_path, RIGHT.replace("[crawl]", f'[cluster]\n{port} = "{name}"\n[crawl]', 1))
    assert matrix.REFUSED.get((port, name), "there is no such back end") in str(caught.value)


def test_the_matrix_is_documented() -> None:
    """Every back end that is taken or refused is in the page's table, with the reason."""
    page = (Path(__file__).parents[3] / "docs" / "cluster.md").read_text()
    for port, taken in matrix.TAKEN.items():
        assert all(f"`{name}`" in page for name in taken), port
    for (_, name), reason in matrix.REFUSED.items():
        assert f"`{name}`: {reason}" in page


def test_without_a_contact_only_own_hosts_are_asked(tmp_path: Path) -> None:
    """Nobody could reach us; and without own hosts either, there is nothing to crawl."""
    silent = RIGHT.replace('contact = "crawl@example.org"\n', "")
    assert process_settings(settings(tmp_path, silent)).rules.owned_hosts_only
    with pytest.raises(UsageError, match=r"crawl\.contact is missing"):
        settings(tmp_path, silent.replace('owned = ["127.0.0.0/8"]', ""))


def test_no_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """A cluster has no defaults for where its servers are."""
    with pytest.raises(UsageError, match="--config"):
        load_cluster_settings(None)
    with pytest.raises(UsageError, match="cannot read configuration"):
        load_cluster_settings(tmp_path / "absent.toml")
