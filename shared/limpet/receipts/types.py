"""The receipt of one pipeline or other batched write.

It names kinds of commands and codes of errors, never a key, an argument, an address, a credential or the text of an
error (servers quote keys in it).
"""

import re
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

FAILURES_KEPT_MAX: Final = 32
_CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{1,23}\Z")


class Role(StrEnum):
    """What a command's target is to the crawl."""

    AUTHORITY = "authority"
    CLAIM = "claim"
    CACHE = "cache"
    DERIVED_INDEX = "derived_index"


class Transport(StrEnum):
    """How the exchange itself ended."""

    COMPLETE = "complete"  # a reply for each command, good or bad
    UNREACHABLE = "unreachable"  # nothing was sent
    TIMED_OUT = "timed_out"
    DISCONNECTED = "disconnected"
    GARBLED = "garbled"  # not the protocol


class Action(StrEnum):
    """What follows from it."""

    NONE = "none"
    REJECT = "reject"
    RETRY = "retry"
    COMPENSATE = "compensate"
    REPAIR = "repair"
    REBUILD = "rebuild"
    CACHE_MISS = "cache_miss"


class Verdict(StrEnum):
    """What may be said of the operation as a whole."""

    ADMITTED = "admitted"  # done as asked
    ALREADY_CLAIMED = "already_claimed"  # somebody, perhaps an earlier attempt of ours, was first
    COMPLETED_REPAIR_PENDING = "completed_repair_pending"  # the authority has it; something derived lags behind
    UNKNOWN = "unknown"  # read the authority


class CommandFailure(msgspec.Struct, frozen=True, kw_only=True):
    """One command that failed by itself; `index` counts from 0 within the pipeline."""

    index: int
    command: str
    code: str


class Ambiguous(msgspec.Struct, frozen=True, kw_only=True):
    """Commands from `begin` up to, not including, `end`: sent, and never answered."""

    begin: int
    end: int


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """See the module. Times are microseconds; `at_us` is wall clock, when the exchange began.

    `target` names a shard or partition. `roles` gives (role, how many commands) in the order of the pipeline.
    `acquired_before`: an earlier attempt may have had the effect already (None: it does not matter).
    `failures` holds the first `FAILURES_KEPT_MAX` of `failed`. `repair` names the repair item, if one was made;
    `backlog_age_us` is the age of the oldest work that waits behind this one.
    """

    operation: str
    target: str
    crawl: str
    job: str
    attempt: str
    roles: tuple[tuple[Role, int], ...]
    client: str
    server: str = ""
    commands: int
    chunk: int = 1
    chunks: int = 1
    arguments_max: int = 0
    classes: dict[str, int]
    transport: Transport
    at_us: int
    latency_us: int
    succeeded: int
    failed: int = 0
    failures: tuple[CommandFailure, ...] = ()
    ambiguous: Ambiguous | None = None
    idempotent: bool
    acquired_before: bool | None = None
    action: Action = Action.NONE
    repair: str = ""
    backlog_age_us: int = 0
    verdict: Verdict

    @property
    def clean(self) -> bool:
        """Every command was answered, and well."""
        return self.transport is Transport.COMPLETE and not self.failed and self.succeeded == self.commands


def classes_of(verbs: Iterable[str]) -> dict[str, int]:
    """How many commands of each kind, without what they were about."""
    return dict(sorted(Counter(verbs).items()))


def error_code(text: str) -> str:
    """The code that leads an error text, or ERR: everything after it may quote a key."""
    first = text.partition(" ")[0]
    return first if _CODE.match(first) else "ERR"
