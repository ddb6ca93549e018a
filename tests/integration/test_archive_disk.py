"""Checks read an archive on HDFS where it is, and find there what they find in files."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from integration.crawl_maker import Sent, make_crawl, robots
from limpet.cluster.archivedisk import READERS_MAX, ArchiveDisk
from limpet.embedded.folder import Folder
from limpet.reconciler.audit import audit
from limpet.reconciler.kinds import VerifyKind
from limpet.reconciler.verify import verify
from limpet.testing.hdfs import MemoryHdfs

ROOT: Final = "/limpet/made"


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    """Turns while HDFS is asked."""
    with asyncio.Runner() as runner:
        yield runner


async def put(hdfs: MemoryHdfs, name: str, data: bytes) -> None:
    """A file below the root."""
    file = await hdfs.create(f"{ROOT}/{name}", overwrite=True)
    await file.write(data)
    await file.close()


def moved(folder: Folder, loop: asyncio.Runner) -> MemoryHdfs:
    """The folder's archive on HDFS, and no longer in the folder."""
    hdfs = MemoryHdfs()
    loop.run(hdfs.mkdirs(ROOT))
    for path in folder.segment_directories[0].iterdir():
        loop.run(put(hdfs, path.name, path.read_bytes()))
        path.unlink()
    return hdfs


def test_an_archive_on_hdfs_is_judged_where_it_is(tmp_path: Path, loop: asyncio.Runner) -> None:
    """`verify` and `audit` say the same of it, and find what is damaged."""
    folder = make_crawl(tmp_path / "made", [robots(0.0), Sent(url="http://a.test/", at=2.0)])
    before = verify(folder), audit(folder)
    hdfs = moved(folder, loop)
    assert (
        verify(folder, disk=ArchiveDisk(hdfs, ROOT, loop)),
        audit(folder, disk=ArchiveDisk(hdfs, ROOT, loop)),
    ) == before
    assert before[0].checked["records"] > 0
    (name,) = [path.rpartition("/")[2] for path in loop.run(hdfs.files(ROOT)) if path.endswith(".gz")]
    data = hdfs.content(f"{ROOT}/{name}")
    loop.run(put(hdfs, name, data[:-20]))
    found = verify(folder, disk=ArchiveDisk(hdfs, ROOT, loop)).findings
    assert {finding.kind for finding in found} >= {VerifyKind.DAMAGED}


def test_files_are_read_as_they_were_when_they_were_listed(loop: asyncio.Runner) -> None:
    """What comes to a file afterwards is not met; more files than are kept open can be read in turn."""
    hdfs = MemoryHdfs()
    loop.run(hdfs.mkdirs(ROOT))
    names = [f"f{number:02d}" for number in range(READERS_MAX + 4)]
    for name in names:
        loop.run(put(hdfs, name, name.encode() * 3))
    disk = ArchiveDisk(hdfs, ROOT, loop)
    assert disk.names(Path("anywhere")) == names
    loop.run(put(hdfs, names[0], b"longer than it was"))
    for name in names * 2:
        assert disk.size(Path("x", name)) == 9
        assert disk.read(Path("x", name), 7, 100) == hdfs.content(f"{ROOT}/{name}")[7:9]
        assert disk.read(Path("x", name), 9, 1) == b""


def test_what_hdfs_does_not_give_is_an_error_of_the_disk(loop: asyncio.Runner) -> None:
    """Checks tell of it as of any disk; nothing is ever written."""
    hdfs = MemoryHdfs()
    loop.run(hdfs.mkdirs(ROOT))
    disk = ArchiveDisk(hdfs, ROOT, loop)
    with pytest.raises(FileNotFoundError):
        disk.size(Path("x", "absent"))
    for write in (disk.create, disk.reopen, disk.remove, disk.sync_dir):
        with pytest.raises(OSError, match="only read"):
            write(Path("x"))
