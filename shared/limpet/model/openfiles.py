"""The limit of open files: a process that meets it gets errors that name anything but the limit."""

import errno
import os
import resource
from typing import Final

OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_NEEDED: Final = 3  # a SQLite file, its log and the log's index


def too_many_files() -> str:
    """What to tell a user who met the limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return f"too many open files (the limit is {limit:,}): raise it with `ulimit -n 1024`, then run again"


def files_are_out() -> bool:
    """Whether a few more files cannot be opened now. For failures that do not say why; ask before closing any."""
    opened: list[int] = []
    try:
        while len(opened) < _NEEDED:
            opened.append(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in OUT_OF_FILES
    finally:
        for fd in opened:
            os.close(fd)
    return False
