"""What a checker needs of a crawl folder, whoever made it."""

import fcntl
import os
from pathlib import Path
from typing import Protocol

from limpet.config import Facts, Settings


class CrawlFolder(Protocol):
    """A crawl on disk, read only. `limpet.embedded.folder.Folder` is one."""

    @property
    def path(self) -> Path:
        """Directory of the crawl."""
        ...

    @property
    def facts(self) -> Facts:
        """Facts of the crawl."""
        ...

    @property
    def segment_directories(self) -> tuple[Path, ...]:
        """One directory a replica."""
        ...

    def shard_file(self, shard: int) -> Path:
        """SQLite file of one shard of the authority."""
        ...

    def seen_file(self, shard: int) -> Path:
        """SQLite file of one seen shard; may be missing."""
        ...

    def load_settings(self) -> Settings | None:
        """Settings of the last run, None before the first."""
        ...


def is_running(path: Path) -> bool:
    """Whether a supervisor works on the folder now. Takes the lock shared for an instant, as `limpet status` does."""
    try:
        fd = os.open(path / "run" / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def settings_stored_us(path: Path) -> int | None:
    """When the settings of the last run were stored, microseconds since the epoch; None if there are none."""
    try:
        return (path / "settings.json").stat().st_mtime_ns // 1000
    except OSError:
        return None
