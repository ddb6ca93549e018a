"""How the records of the port lie in the tables of a shard."""

from typing import Final

import msgspec

from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime.sqlitetx import Row
from limpet.urlstore.types import AuthorityRow, Candidate, HostRow, Job, Notice, ParseOutput, RobotsFetch, UrlRow

CODES: Final = {
    State.DUE: 0,
    State.LEASED: 1,
    State.FETCHED: 2,
    State.DENIED: 3,
    State.GONE: 4,
    State.FAILED: 5,
    State.PARKED: 6,
    State.REVIEW: 7,
    State.CANCELLED: 8,
}
"""Stored for ever: a code is never given to another state. Queries name 0, 1, 2, 3, 5 and 8."""

STATES: Final = {code: state for state, code in CODES.items()}

_ENCODER: Final = msgspec.msgpack.Encoder()
_OUTCOME: Final = msgspec.msgpack.Decoder(Outcome)
_OUTPUT: Final = msgspec.msgpack.Decoder(ParseOutput)
_ROBOTS_FETCH: Final = msgspec.msgpack.Decoder(RobotsFetch)
_CANDIDATE: Final = msgspec.msgpack.Decoder(Candidate)
_SAMPLES: Final = msgspec.msgpack.Decoder(list[str])

CLASH: Final = "clash"


def encode(record: Outcome | ParseOutput | RobotsFetch | Candidate | list[str]) -> bytes:
    """A record as one value."""
    return _ENCODER.encode(record)


def outcome(data: bytes) -> Outcome:
    """An outcome as stored."""
    return _OUTCOME.decode(data)


def robots_fetch(data: bytes) -> RobotsFetch:
    """A request for a robots.txt as stored."""
    return _ROBOTS_FETCH.decode(data)


def output(data: bytes) -> ParseOutput:
    """A parse output as stored."""
    return _OUTPUT.decode(data)


def samples(data: bytes) -> list[str]:
    """Samples of rejected links as stored."""
    return _SAMPLES.decode(data)


def url_row(row: Row) -> UrlRow:
    """A row of the view `url_row`."""
    (_, fp, key, url, host, authority, state, reason, due_us, depth, hops, kind, seed, via, *rest) = row
    failures, interruptions, latest_us, admitted_us, token, lease_us, holder, alone = rest
    return UrlRow(
        fp=fp,
        key=key or url,
        url=url,
        host=host,
        authority=authority,
        state=STATES[state],
        reason=reason,
        due_us=due_us,
        depth=depth,
        hops=hops,
        kind=kind,
        seed=bool(seed),
        via=via,
        failures=failures,
        interruptions=interruptions,
        alone=bool(alone),
        token=token or b"",
        lease_us=lease_us or 0,
        holder=holder or "",
        latest_us=latest_us,
        admitted_us=admitted_us,
    )


def clash_row(data: bytes, admitted_us: int) -> UrlRow:
    """A clashing candidate as the row in review that it is."""
    candidate = _CANDIDATE.decode(data)
    return UrlRow(
        fp=candidate.fp,
        key=candidate.key,
        url=candidate.url,
        host=candidate.host,
        authority=candidate.authority,
        state=State.REVIEW,
        reason=CLASH,
        due_us=0,
        depth=candidate.depth,
        hops=candidate.hops,
        kind=candidate.kind,
        seed=candidate.seed,
        via=candidate.via,
        failures=0,
        interruptions=0,
        alone=False,
        token=b"",
        lease_us=0,
        holder="",
        latest_us=0,
        admitted_us=admitted_us,
    )


def host_row(row: Row) -> HostRow:
    """A row of query `host_get`."""
    host, wait_us, wait_reason, response_us, failing, urls, addresses, transient, refused, trips, broken_us = row
    return HostRow(
        host=host,
        wait_us=wait_us,
        wait_reason=wait_reason,
        response_us=response_us,
        failing=failing,
        urls=urls,
        addresses=addresses,
        transient=transient,
        refused=refused,
        trips=trips,
        broken_us=broken_us,
    )


def host_values(row: HostRow) -> Row:
    """The parameters of query `host_put`."""
    waits = (row.wait_us, row.wait_reason, row.response_us, row.failing)
    return (row.host, *waits, row.addresses, row.transient, row.refused, row.trips, row.broken_us)


def authority_row(row: Row) -> AuthorityRow:
    """A row of query `authority_get`."""
    authority, host, robots, robots_digest, wait_us, wait_reason = row
    return AuthorityRow(
        authority=authority,
        host=host,
        robots=robots,
        robots_digest=robots_digest,
        wait_us=wait_us,
        wait_reason=wait_reason,
    )


def job(row: Row) -> Job:
    """A row of query `jobs`."""
    fp, fetched_us, event, attempt, due_us, reason, token, lease_us, state = row
    return Job(
        fp=fp,
        fetched_us=fetched_us,
        event=event,
        attempt=attempt,
        due_us=due_us,
        reason=reason,
        token=token,
        lease_us=lease_us,
        state=state,
    )


def job_values(job: Job) -> Row:
    """The parameters of query `job_put`."""
    return (
        job.fp,
        job.fetched_us,
        job.event,
        job.attempt,
        job.due_us,
        job.reason,
        job.token,
        job.lease_us,
        job.state,
    )


def notice(row: Row) -> Notice:
    """A row of query `notices`."""
    number, kind, host, reason, count, sample, first_us, last_us = row
    return Notice(
        id=number,
        kind=kind,
        host=host,
        reason=reason,
        count=count,
        sample=sample,
        first_us=first_us,
        last_us=last_us,
    )
