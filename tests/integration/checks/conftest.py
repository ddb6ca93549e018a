"""Crawls to plant faults in."""

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.crawl_maker import SHARDS, make_crawl, make_facts
from integration.planting import (
    CRAWL,
    index_of_segment,
    run_sql,
    segments_in,
)
from limpet.embedded.folder import Folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A crawl with two replicas and nothing wrong. Never changed."""
    return make_crawl(tmp_path_factory.mktemp("sound") / "crawl", CRAWL, facts=make_facts(replicas=2))


@pytest.fixture
def crawl(sound: Folder, tmp_path: Path) -> Folder:
    """A copy of it."""
    shutil.copytree(sound.path, tmp_path / "crawl")
    return Folder.open(tmp_path / "crawl")


@pytest.fixture
def killed(crawl: Folder) -> Folder:
    """The same crawl, whose process died before it sealed: its segment is open, its files are not clean."""
    for replica in (0, 1):
        path = segments_in(crawl, replica)[0]
        index_of_segment(path).unlink()
        path.rename(path.with_name(path.name + ".open"))
    for number in range(SHARDS):
        run_sql(crawl.shard_file(number), "UPDATE meta SET value = '0' WHERE name = 'clean'")
    return crawl


@pytest.fixture
def running(killed: Folder) -> Iterator[Folder]:
    """The killed crawl while somebody holds its lock."""
    lock = killed.path / "run" / "lock"
    lock.touch()
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield killed
