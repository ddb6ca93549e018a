import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest

from limpet.clock import SystemClock
from limpet.config import Facts, Settings
from limpet.config.settings import Politeness, SharedRange
from limpet.embedded.folder import LOG_BYTES_KEPT_MAX, Folder, check_vacant, is_crawl
from limpet.model.errors import UsageError
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema

FACTS = Facts(crawl="0123456789abcdef", hash_seed=b"s" * 16, suffix_list_digest="d" * 64)


def test_a_created_folder_opens_with_the_same_facts(tmp_path: Path) -> None:
    """Facts survive the round trip byte for byte, the secret seed included, and only their owner can read them."""
    Folder.create(tmp_path / "crawl", FACTS)
    assert Folder.open(tmp_path / "crawl").facts == FACTS
    assert (tmp_path / "crawl" / "facts.json").stat().st_mode & 0o077 == 0


def test_every_replica_has_a_directory(tmp_path: Path) -> None:
    """Three replicas mean three directories, the first named as users expect."""
    folder = Folder.create(tmp_path, msgspec.structs.replace(FACTS, replicas=3))
    assert [path.name for path in folder.segment_directories] == ["segments", "segments-2", "segments-3"]
    assert all(path.is_dir() for path in folder.segment_directories)


def test_a_second_creation_is_refused(tmp_path: Path) -> None:
    """Facts are written once."""
    Folder.create(tmp_path, FACTS)
    with pytest.raises(UsageError, match="holds a crawl already"):
        Folder.create(tmp_path, FACTS)


def test_a_creation_that_was_cut_short_is_completed(tmp_path: Path) -> None:
    """Facts come last: directories and a torn draft without them are no crawl yet, and may become one."""
    (tmp_path / "run").mkdir()
    (tmp_path / "facts.json.tmp").write_bytes(b'{"lay')
    check_vacant(tmp_path)
    assert not is_crawl(tmp_path)
    Folder.create(tmp_path, FACTS)
    assert Folder.open(tmp_path).facts == FACTS
    assert not (tmp_path / "facts.json.tmp").exists()


def write_to(shard: Path) -> None:
    """One committed write, as the owner of a shard makes it."""

    async def main() -> None:
        file = SqliteFile(shard, schema=shard_schema(), runner=InlineRunner(), clock=SystemClock())
        await file.write(lambda tx: tx.count("urls"))
        await file.close()

    asyncio.run(main())


@pytest.mark.parametrize("lost", ["rows", "segment", "damaged"])
def test_a_crawl_that_lost_its_facts_is_never_begun_again(tmp_path: Path, lost: str) -> None:
    """A second crawl on top would lose the URLs of the first: the missing file and the fix are named instead."""
    folder = Folder.create(tmp_path, FACTS)
    folder.store_settings(Settings())
    (tmp_path / "facts.json").unlink()
    check_vacant(tmp_path)  # nothing in it yet: as if the creation had been cut short
    if lost == "rows":
        write_to(folder.shard_file(17))
    elif lost == "segment":
        (tmp_path / "segments" / "A-1.warc.gz.open").touch()
    else:
        folder.shard_file(3).write_bytes(b"x" * 5000)
    for refused in (check_vacant, Folder.open):
        with pytest.raises(UsageError, match=r"facts\.json is missing.*restore facts\.json from a copy"):
            refused(tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "not a crawl folder of this version"),
        (b"{}", "not a crawl folder of this version"),
        (b"\xff\x00", "not a crawl folder of this version"),
        (msgspec.json.encode(msgspec.structs.replace(FACTS, layout_version=9)), "has layout version 9"),
        (msgspec.json.encode(msgspec.structs.replace(FACTS, shards=0)), "damaged"),
        (msgspec.json.encode(msgspec.structs.replace(FACTS, hash_seed=b"")), "damaged"),
        (msgspec.json.encode(msgspec.structs.replace(FACTS, replicas=7)), "damaged"),
    ],
)
def test_damaged_or_foreign_facts_are_refused_in_one_line(tmp_path: Path, text: bytes, complaint: str) -> None:
    """A torn, empty or foreign facts file is named; nothing is guessed."""
    (tmp_path / "facts.json").write_bytes(text)
    with pytest.raises(UsageError, match=complaint) as caught:
        Folder.open(tmp_path)
    assert "facts.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_crawl_folder_is_told_apart(tmp_path: Path) -> None:
    """Missing, a file, and a directory of something else each get their own line."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="does not exist"):
        Folder.open(tmp_path / "none")
    with pytest.raises(UsageError, match="is not a directory"):
        Folder.open(tmp_path / "file")
    with pytest.raises(UsageError, match="is not a crawl folder"):
        Folder.open(tmp_path)


def test_a_folder_of_something_else_is_never_filled(tmp_path: Path) -> None:
    """A non-empty directory is refused by naming what it holds; an empty or absent one is fine."""
    (tmp_path / "empty").mkdir()
    check_vacant(tmp_path / "empty")
    check_vacant(tmp_path / "absent")
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        check_vacant(tmp_path)
    with pytest.raises(UsageError, match="not a directory"):
        check_vacant(tmp_path / "thesis.tex")


def test_settings_are_remembered(tmp_path: Path) -> None:
    """A resume finds the settings of the last run; a damaged file is named with the fix."""
    folder = Folder.create(tmp_path, FACTS)
    assert folder.load_settings() is None
    folder.store_settings(Settings(owned=("127.0.0.0/8",)))
    assert folder.load_settings() == Settings(owned=("127.0.0.0/8",))
    assert json.loads((tmp_path / "settings.json").read_text()) == {"owned": ["127.0.0.0/8"]}, "defaults are not stored"
    slow = Settings(politeness=Politeness(floor_seconds=7.0))
    folder.store_settings(slow)
    assert folder.load_settings() == slow
    (tmp_path / "settings.json").write_text('{"no_such_key": 1}')
    with pytest.raises(UsageError, match=r"settings\.json is damaged .*no_such_key.*delete it"):
        folder.load_settings()


def test_equal_settings_keep_their_time(tmp_path: Path) -> None:
    """An audit judges by settings since when they were stored: a resume with the same ones does not begin anew."""
    folder = Folder.create(tmp_path, FACTS)
    ranges = {"cdn": SharedRange(networks=("198.51.100.0/24",))}
    chosen = Settings(politeness=Politeness(shared_ranges=ranges))
    folder.store_settings(chosen)
    os.utime(tmp_path / "settings.json", ns=(1, 1))
    folder.store_settings(chosen)
    assert (tmp_path / "settings.json").stat().st_mtime_ns == 1
    assert folder.load_settings() == chosen
    folder.store_settings(Settings())
    assert (tmp_path / "settings.json").stat().st_mtime_ns > 1


def test_long_logs_are_put_aside_at_the_next_start(tmp_path: Path) -> None:
    """A log goes on growing through short runs, and starts anew once it is long; one older generation is kept."""
    folder = Folder.create(tmp_path, FACTS)
    for slot, size_bytes in ((0, LOG_BYTES_KEPT_MAX + 1), (1, 10)):
        with folder.worker_log(slot).open("wb") as log:
            log.truncate(size_bytes)
    folder.start_logs()
    assert sorted(path.name for path in folder.run.glob("worker*")) == ["worker-0.log.old", "worker-1.log"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_read_only_place_is_named(tmp_path: Path) -> None:
    """A folder that cannot be made names the place and the fix."""
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="read-only"):
        Folder.create(tmp_path / "crawl", FACTS)


def test_a_place_that_takes_no_folder_is_named() -> None:
    """Also for the superuser: the kernel's own file systems take no directories."""
    with pytest.raises(UsageError, match="/proc/limpet"):
        Folder.create(Path("/proc/limpet"), FACTS)
