"""The shard files of a new crawl: one is made, the others are copies of it.

Making a database costs half a dozen syncs; thirty-two of them cost a second, which is all that a start may take.
"""

import os
from pathlib import Path
from typing import Final

from limpet.runtime.sqliteopen import connect_writer
from limpet.schemas.sqlite import shard_schema

_CACHE_BYTES: Final = 1_000_000
_TEMPLATE_NAME: Final = "empty.tmp"


def create_shard_files(directory: Path, names: list[str]) -> None:
    """Make the empty shard files that are absent, durable but for their directory's entries. Raises OSError."""
    wanted = [directory / name for name in names if not (directory / name).exists()]
    if not wanted:
        return
    data = _empty_database(directory / _TEMPLATE_NAME)
    drafts = [path.with_name(path.name + ".tmp") for path in wanted]
    for draft in drafts:
        draft.write_bytes(data)
    for draft in drafts:  # after all were written: the first sync carries most of the others through the journal
        _sync(draft)
    for draft, path in zip(drafts, wanted, strict=True):
        draft.replace(path)  # whole or not at all: a torn file of the right name would be a damaged shard
    (directory / _TEMPLATE_NAME).unlink()


def _empty_database(path: Path) -> bytes:
    for leftover in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        leftover.unlink(missing_ok=True)
    connection = connect_writer(path, shard_schema(), "OFF", _CACHE_BYTES)
    connection.close()  # the last connection folds the WAL into the file and removes it
    return path.read_bytes()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
