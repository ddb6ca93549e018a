"""Which faults are the disk's."""

import errno
import sqlite3

import pytest

from limpet.embedded.faults import disk_reason
from limpet.model.errors import CannotGoOn


def sqlite_error(code: int) -> sqlite3.Error:
    """As the driver raises it."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "full"),
        (sqlite_error(sqlite3.SQLITE_FULL), "full"),
        (sqlite_error(sqlite3.SQLITE_IOERR_SHMSIZE), "full"),
        (OSError(errno.EROFS, "Read-only file system"), "read-only"),
        (OSError(errno.EACCES, "Permission denied", "/crawl/shards/00.sqlite"), "read-only"),
        (sqlite_error(sqlite3.SQLITE_READONLY_DBMOVED), "read-only"),
        (OSError(errno.EPERM, "Operation not permitted"), None),
        (OSError(errno.EIO, "Input/output error"), None),
        (sqlite_error(sqlite3.SQLITE_IOERR_FSYNC), None),
        (ValueError("no disk is involved"), None),
    ],
)
def test_a_disk_that_is_to_blame_is_found_behind_the_error(cause: Exception, reason: str | None) -> None:
    """A full or a read-only disk is named, however deep; a firewall's EPERM and a broken disk are neither."""
    assert disk_reason(cause) == reason
    error = CannotGoOn("cannot write")
    error.__cause__ = CannotGoOn("the store failed")
    error.__cause__.__cause__ = cause
    assert disk_reason(error) == reason
