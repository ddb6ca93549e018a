"""Copying an archive out of HDFS: for tools that read files, our checks and the validators of others among them."""

from pathlib import Path
from typing import Final

from limpet.runtime.disk import Disk, DiskFile
from limpet.runtime.executor import Runner
from limpet.segments.hdfs.cluster import Hdfs, HdfsReader
from limpet.segments.layout import INDEX, create_afresh
from limpet.warc import parse_segment_name

_SLICE_BYTES: Final = 4_194_304


async def pull(hdfs: Hdfs, root: str, folder: Path, *, disk: Disk, runner: Runner) -> list[str]:
    """Copy every sealed segment below `root`, and its index, into `folder`, which exists; the names of the segments.

    The folder is then a replica directory as the local adapter would have left it. What is there by the same name is
    replaced. `HdfsFault`, OSError; safe to repeat.
    """
    found = {path.rpartition("/")[2]: path for path in await hdfs.files(root)}
    names = sorted(name for name in found if parse_segment_name(name) is not None)
    for name in names:
        for entry in (f"{name}{INDEX}", name):  # a segment always has its index
            await _copy(await hdfs.open(found[entry]), folder / entry, disk, runner)
    await runner.run(lambda: disk.sync_dir(folder))
    return names


async def _copy(reader: HdfsReader, target: Path, disk: Disk, runner: Runner) -> None:
    file = await runner.run(lambda: create_afresh(disk, target))
    try:
        for offset in range(0, reader.size_bytes, _SLICE_BYTES):
            data = await reader.read(offset, min(_SLICE_BYTES, reader.size_bytes - offset))
            await _write(file, data, runner)
        await runner.run(file.sync)
    finally:
        await runner.run(file.close)


async def _write(file: DiskFile, data: bytes, runner: Runner) -> None:
    await runner.run(lambda: file.write(data))
