"""A folder that an earlier Limpet left becomes one of this Limpet, shard by shard.

Each shard is brought up to date in one transaction; a death between two shards leaves some old and some new, and the
next look goes on. It happens at the first verb that opens the folder, reading ones included: nothing but the form of
what is stored changes.
"""

from pathlib import Path

from limpet.embedded.faults import not_writable
from limpet.embedded.folder import Folder
from limpet.embedded.lock import FolderLock
from limpet.model.errors import CannotGoOn, UsageError
from limpet.runtime.sqliteopen import (
    FileLockedError,
    OlderVersionError,
    bring_up_to_date,
    open_read_only,
    version_of,
)
from limpet.schemas.sqlite import Schema, shard_schema


def upgrade(folder: Folder) -> int:
    """Bring every shard of an earlier version up to date; their number, 0 for nearly every folder.

    Raises `UsageError` when somebody works on the folder or it cannot be written. What cannot be brought up to date is
    left for whoever opens it, who says why.
    """
    schema = shard_schema()
    old = [
        folder.shard_file(shard) for shard in range(folder.facts.shards) if _is_old(folder.shard_file(shard), schema)
    ]
    if not old:
        return 0
    lock = FolderLock.take(folder.path)
    try:
        for path in old:
            bring_up_to_date(path, schema)
    except FileLockedError as error:
        raise UsageError(f"{error}: a crawl by an earlier Limpet; wait for it or stop it") from error
    except OSError as error:
        raise not_writable(folder.path, error) from error
    finally:
        lock.release()
    return len(old)


def _is_old(path: Path, schema: Schema) -> bool:
    """Whether there are steps to take. The header is quick and may be behind; then the file itself is asked."""
    try:
        if not schema.steps_from(version_of(path)):
            return False
        open_read_only(path, schema).close()
    except OlderVersionError:
        return True
    except (OSError, CannotGoOn):
        return False
    return False
