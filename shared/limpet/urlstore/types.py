"""The records that cross the urlstore port. Times ending in `_us` are durable time: microseconds since the epoch."""

from enum import IntEnum
from typing import Final

import msgspec

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.warc import parse_segment_name

DAMAGED_SEGMENT: Final = "damaged_segment"
"""The kind of notice that is kept after it was delivered."""

ROBOTS_FETCHES_KEPT_US: Final = 90 * 86_400_000_000
"""How long a `RobotsFetch` is kept: an authority is asked once or twice a day, so that it has some hundred at most."""


class Lane(IntEnum):
    """Reading order inside one queue: interruptions and retries come before what is new."""

    SOON = 0
    NEW = 1


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A URL that passed the rules and may become a row."""

    fp: bytes  # 16 bytes
    key: str  # identity key: two rows with one fp and different keys are a clash
    url: str
    host: str
    authority: str  # scheme://host[:port], the unit of robots.txt and of a queue
    depth: int
    hops: str  # hop path from the seed: L navigation, R redirect, E requisite
    kind: str
    seed: bool = False
    via: bytes = b""  # fingerprint of the page it was found on
    due_us: int = 0
    parked: str = ""  # rule that holds it back, "" = due
    cancelled: str = ""  # who took it out before it was ever due, "" = nobody


def leads_on(hops: str) -> bool:
    """Whether links of what such a hop path ends at are followed: not those of a requisite, wherever it moved."""
    return hops.rstrip("R")[-1:] != "E"


class AdmitResult(IntEnum):
    """What the authority says of a candidate after the write."""

    NEW = 0
    KNOWN = 1
    CLASH = 2  # another identity under the same fingerprint: in review
    NEARER = 3  # known, and its links were published with a greater depth than it now has: parse it again


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One leased URL. The token names this claim, not the worker."""

    fp: bytes
    token: bytes
    url: str
    host: str
    authority: str
    lease_us: int
    depth: int
    hops: str
    seed: bool
    failures: int
    interruptions: int
    alone: bool  # claimed alone, because it was interrupted before
    latest_us: int  # fetch time of the latest outcome, 0 = none
    due_us: int
    via: str = ""  # URL of the page it was found on; "" for a seed, and where another shard has that page


def held_by_another(holder: str, outcome: Outcome) -> bool:
    """Whether a lease is that of a later owner: not of the incarnation that wrote the outcome's record."""
    written = parse_segment_name(outcome.location.segment) if outcome.location is not None else None
    return bool(holder) and written is not None and written.incarnation != holder


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """How a claim ends. Applied whole or not at all, and only while the token is ours and the lease runs."""

    claim: Claim
    state: State
    now_us: int
    reason: str = ""
    due_us: int = 0  # next due time; 0 = none
    lane: Lane = Lane.SOON
    failures: int = 0
    outcome: Outcome | None = None


class UrlRow(msgspec.Struct, frozen=True, kw_only=True):
    """A URL as the authority knows it."""

    fp: bytes
    key: str
    url: str
    host: str
    authority: str
    state: State
    reason: str
    due_us: int
    depth: int
    hops: str
    kind: str
    seed: bool
    via: bytes
    failures: int
    interruptions: int
    alone: bool
    token: bytes
    lease_us: int
    holder: str
    latest_us: int
    admitted_us: int


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """What politeness must remember of a host across restarts. `wait_us`: no request before it (0 = none)."""

    host: str
    wait_us: int = 0
    wait_reason: str = ""
    response_us: int = 0  # duration of the last response
    failing: int = 0  # consecutive transient failures of the site
    urls: int = 0  # rows admitted, for the host cap; kept by the store, ignored on write
    addresses: str = ""  # where the host was last found: up to three addresses, separated by spaces
    transient: int = 0  # consecutive transient failures, for the breaker
    refused: int = 0  # consecutive 401, 403 and 429
    trips: int = 0  # how often the breaker opened since the last good answer
    broken_us: int = 0  # when it opened first since then; 0 = it did not


class AuthorityRow(msgspec.Struct, frozen=True, kw_only=True):
    """What robots must remember of one scheme, host and port."""

    authority: str
    host: str
    robots: bytes = b""  # encoded RobotsState; b"" = never asked
    robots_digest: str = ""
    wait_us: int = 0
    wait_reason: str = ""


class RobotsFetch(msgspec.Struct, frozen=True, kw_only=True):
    """One request for a robots.txt, or for what one redirects to: a line of the log, known by URL and fetch time."""

    outcome: Outcome  # its `fp` is empty: there is no row
    hops: str  # those of the URL that waited for it, and P; then R for each redirect
    via: str  # that URL; after a redirect the one that redirected
    cause: bytes  # fingerprint of the URL that waited for it


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """One authority with something in its due index. `due_us` is its earliest entry."""

    authority: str
    host: str
    due_us: int


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """Links that a rule turned away: counted per host and rule, `sample` kept for the first few."""

    host: str
    rule: str
    count: int
    sample: str


class ParseOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What the parser made of one body; accepted once per (fp, fetched_us, parser_version)."""

    fp: bytes
    fetched_us: int
    parser_version: int
    links: int
    positions: tuple[tuple[int, int, int], ...] = ()  # (partition, source, offset) of its links.discovered messages
    flags: tuple[str, ...] = ()
    depth: int = 0  # its links were published with; 0 where depth bounds nothing

    def went_to(self, partition: int, source: int, begin: int, end: int) -> bool:
        """Whether links of it were published to these places: from offset `begin` to `end` - 1."""
        return any((to, log) == (partition, source) and begin <= offset < end for to, log, offset in self.positions)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A second or later attempt at a parse, durable, claimed with lease and token."""

    fp: bytes
    fetched_us: int
    event: bytes  # the document.fetched payload: the exact input reference
    attempt: int
    due_us: int
    reason: str
    token: bytes = b""
    lease_us: int = 0
    state: str = "open"  # open | review


class RepairItem(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of the reconciler. Its age is the alert."""

    kind: str
    subject: str
    detail: str
    created_us: int


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person should hear of, aggregated per host and reason until delivered."""

    id: int
    kind: str
    host: str
    reason: str
    count: int
    sample: str
    first_us: int
    last_us: int
