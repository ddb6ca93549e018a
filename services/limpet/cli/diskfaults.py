"""A verb that the disk stopped in the middle says how far it came, and the way out."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from limpet.cli.units import show_count
from limpet.embedded.faults import disk_reason
from limpet.embedded.finder import Finder
from limpet.embedded.folder import Folder
from limpet.embedded.views import ShardViews
from limpet.model.errors import CannotGoOn, LimpetError

NOTHING_ADDED: Final = "nothing was added"


class DiskFaultError(CannotGoOn):
    """The disk did not let a verb finish; its text says how far it came."""


@contextmanager
def told_of_the_disk(folder: Folder, what: Callable[[], str]) -> Iterator[None]:
    """Where the disk is to blame, `what` says what became of the work. Raises `DiskFaultError` then."""
    try:
        yield
    except DiskFaultError:
        raise
    except (LimpetError, OSError, sqlite3.Error) as error:
        reason = disk_reason(error)
        if reason is None:
            raise
        fix = "free some space" if reason == "full" else "make it writable"
        raise DiskFaultError(
            f"{what()}: the disk below {folder.path} is {reason}; {fix}, then run the same command again"
        ) from error


def what_was_added(folder: Folder, urls: list[str]) -> str:
    """How many of the URLs are in the crawl after a write that failed."""
    try:
        with ShardViews(folder) as views:
            finder = Finder(folder, views)
            known = sum(finder.row(url) is not None for url in urls)
    except (LimpetError, OSError):
        return "it is not known what was added"
    return NOTHING_ADDED if known == 0 else f"only {known:,} of {show_count(len(urls), 'URL')} are in the crawl"
