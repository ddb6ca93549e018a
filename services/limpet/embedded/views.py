"""All shards of a crawl seen from outside, read while their owners write."""

import errno
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from limpet.embedded.faults import disk_reason, not_writable
from limpet.embedded.folder import Folder
from limpet.model.errors import CannotGoOn
from limpet.runtime.sqliteopen import OtherVersionError, ReadOnlyFile, TooManyFilesError, open_read_only
from limpet.runtime.sqlitetx import Reader
from limpet.schemas.sqlite import shard_schema
from limpet.urlstore.sqlite import ShardView

T = TypeVar("T")


class ShardViews:
    """Read-only files of all shards, opened when first asked for. Takes no lock and disturbs no owner."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files: dict[int, ReadOnlyFile] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[tuple[int, ShardView]]:
        """(shard, view) of every shard. Raises `CannotGoOn` for a missing or damaged one."""
        for shard in range(self._folder.facts.shards):
            yield shard, self.view(shard)

    def view(self, shard: int) -> ShardView:
        """One shard. Raises `CannotGoOn`."""
        return ShardView(self._file(shard))

    def read(self, op: Callable[[Reader], T]) -> Iterator[T]:
        """`op` over each shard in turn."""
        for shard in range(self._folder.facts.shards):
            yield self._file(shard).read(op)

    def read_one(self, shard: int, op: Callable[[Reader], T]) -> T:
        """`op` over one shard."""
        return self._file(shard).read(op)

    def close(self) -> None:
        """Let go of all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _file(self, shard: int) -> ReadOnlyFile:
        file = self._files.get(shard)
        if file is not None:
            return file
        path = self._folder.shard_file(shard)
        if not path.exists():  # every shard was made with the folder: an empty one in its place would lose its URLs
            raise CannotGoOn(f"{path} is missing: restore it from a copy of the crawl")
        try:
            file = self._files[shard] = open_read_only(path, shard_schema())
        except (OtherVersionError, TooManyFilesError):
            raise
        except CannotGoOn as error:
            if disk_reason(error) == "full":  # reading takes an index beside the file, a few kB
                raise not_writable(self._folder.path, OSError(errno.ENOSPC, "")) from error
            raise CannotGoOn(f"{error}; restore it from a copy of the crawl") from error
        return file


def was_left_unclean(folder: Folder) -> bool:
    """Whether an owner died in the folder: a shard is not marked clean, or a segment is not sealed."""
    with ShardViews(folder) as views:
        if "0" in views.read(lambda reader: reader.value("meta_get", ("clean",))):
            return True
    return any(entry.name.endswith(".open") for place in folder.segment_directories for entry in place.iterdir())
