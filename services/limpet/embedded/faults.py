"""Which faults are the disk's, so that a restart cannot help, and how to say so in one line."""

import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from limpet.model.errors import CannotGoOn, UsageError
from limpet.model.openfiles import OUT_OF_FILES, too_many_files

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_SQLITE_FULL: Final = sqlite3.SQLITE_FULL
_SQLITE_NO_ROOM: Final = sqlite3.SQLITE_IOERR_SHMSIZE  # the WAL's index cannot grow: no space is all it takes
_SQLITE_READ_ONLY: Final = sqlite3.SQLITE_READONLY
_CAUSES_MAX: Final = 16


def disk_reason(error: BaseException) -> str | None:
    """What the disk is ("full", "read-only") when it stands behind `error`, looking through its causes; else None."""
    for cause in _chain(error):
        if isinstance(cause, OSError):
            if cause.errno in _FULL:
                return "full"
            if cause.errno == errno.EROFS or (cause.errno in _READ_ONLY and cause.filename is not None):
                return "read-only"  # without a file's name, EACCES and EPERM may come from a firewall
        code = getattr(cause, "sqlite_errorcode", None)
        if code is not None and (code & 0xFF == _SQLITE_FULL or code == _SQLITE_NO_ROOM):
            return "full"
        if code is not None and code & 0xFF == _SQLITE_READ_ONLY:
            return "read-only"
    return None


def not_writable(path: Path, error: OSError) -> UsageError | CannotGoOn:
    """What to tell a user when writing below `path` failed: a full disk ends the run, the rest is theirs to mend."""
    if error.errno in _FULL:
        return CannotGoOn(f"no space left below {path}: free some, then run the same command again")
    if error.errno in OUT_OF_FILES:
        return CannotGoOn(too_many_files())
    if error.errno in _READ_ONLY:
        return UsageError(f"{path} is read-only ({error.strerror}): choose another folder, or make it writable")
    return UsageError(f"cannot write below {path}: {error.strerror or error}")


def one_line(error: BaseException) -> str:
    """The error as one line that names its kind unless its text was written for users."""
    text = " ".join(str(error).split())
    return text or type(error).__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if link is None:
            return
        yield link
        link = link.__cause__ or link.__context__
