"""What is asked of a run, what a supervisor tells a worker, and what the worker answers: one JSON line each way.

The order arrives on the worker's stdin, whose other end the supervisor keeps open for as long as it lives; command
lines are public on a shared machine, pipes are not. Answers leave on stdout.
"""

import logging

import msgspec

from limpet.config import Settings
from limpet.membership import StaticShare


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of one run. `limit` counts the pages of the crawl, earlier runs included."""

    workers: int
    patience_seconds: float
    limit: int | None = None
    time_limit_seconds: float | None = None
    seeds: tuple[str, ...] = ()
    log_level: int = logging.INFO


class WorkerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's part of one run."""

    folder: str
    slot: int
    share: tuple[int, ...]
    settings: Settings
    limited: bool
    log_level: int


class WorkerWord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a worker has to say: who it is, and why it ends.

    `disk` is set when the disk is to blame ("full", "read-only"), so that a restart cannot help.
    """

    incarnation: str = ""
    error: str = ""
    disk: str = ""


def share_of(slot: int, workers: int, shards: int) -> frozenset[int]:
    """The shards of one worker: a static share, every shard in exactly one."""
    return StaticShare(slot, workers, shards).share()
