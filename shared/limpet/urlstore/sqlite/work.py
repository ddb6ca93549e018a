"""The crawl node's side of a shard: claim, renew, hand back, complete. One function, one operation."""

from collections.abc import Sequence
from typing import NamedTuple

from limpet.model.lifecycle import Actor, State, move
from limpet.model.outcome import UNSENT, Outcome
from limpet.runtime.randomness import Random
from limpet.runtime.sqlitetx import Row, Tx
from limpet.urlstore import counters
from limpet.urlstore.sqlite import codes
from limpet.urlstore.sqlite.dueindex import DueIndex
from limpet.urlstore.types import ROBOTS_FETCHES_KEPT_US, Claim, Completion, HostRow, Lane, RobotsFetch

TOKEN_BYTES = 16
SUCCESS = frozenset({State.FETCHED, State.GONE})
DAY_US = 86_400_000_000


class ClaimRequest(NamedTuple):
    """What `claim` was asked for, with the id of the queue."""

    authority_id: int
    authority: str
    host: str
    limit: int
    now_us: int
    lease_us: int
    holder: str


def claim(tx: Tx, index: DueIndex, random: Random, request: ClaimRequest) -> list[Claim]:
    """Lease what is due, lane by lane; a URL that was interrupted only alone."""
    claims: list[Claim] = []
    for lane in Lane:
        wanted = request.limit - len(claims)
        if wanted <= 0:
            break
        for row in tx.all("claim_due", (request.authority_id, lane, request.now_us, wanted)):
            interrupted = row[9] > 0
            if interrupted and claims:
                return claims
            claims.append(_lease(tx, index, random, request, lane, row))
            if interrupted:
                return claims
    return claims


def _lease(tx: Tx, index: DueIndex, random: Random, request: ClaimRequest, lane: Lane, row: Row) -> Claim:
    due_us, url_id, fp, url, code, depth, hops, seed, failures, interruptions, latest_us, via = row
    state = codes.STATES[code]
    move(state, State.LEASED, Actor.CRAWLNODE)
    token, alone = random.token(TOKEN_BYTES), interruptions > 0
    index.remove(tx, request.authority_id, lane, due_us, url_id)
    tx.run("lease_insert", (fp, url_id, request.authority_id, token, request.lease_us, alone, request.holder))
    tx.count(counters.of_state(state), -1)
    tx.count(counters.of_state(State.LEASED))
    tx.count(counters.CLAIMS)
    return Claim(
        fp=fp,
        token=token,
        url=url,
        host=request.host,
        authority=request.authority,
        lease_us=request.lease_us,
        depth=depth,
        hops=hops,
        seed=bool(seed),
        failures=failures,
        interruptions=interruptions,
        alone=alone,
        latest_us=latest_us,
        due_us=due_us,
        via=via or "",
    )


def renew(tx: Tx, claims: Sequence[Claim], now_us: int, lease_us: int) -> list[bool]:
    """Extend each lease that is still ours."""
    return [tx.run("lease_extend", (lease_us, claim.fp, claim.token, now_us)) > 0 for claim in claims]


def hand_back(tx: Tx, index: DueIndex, claims: Sequence[Claim], due_us: int) -> None:
    """Return claims that are still ours to the lane they came from."""
    for claim in claims:
        lease = tx.one("lease_get", (claim.fp,))
        if lease is None or lease[2] != claim.token:
            continue
        url_id, authority_id, _, _, _, lane, was_due_us, *_ = lease
        move(State.LEASED, State.DUE, Actor.CRAWLNODE)
        tx.run("lease_delete", (claim.fp,))
        tx.run("url_hand_back", (codes.CODES[State.DUE], due_us or was_due_us, url_id))
        index.add(tx, authority_id, lane, due_us or was_due_us, url_id)
        tx.count(counters.of_state(State.LEASED), -1)
        tx.count(counters.of_state(State.DUE))
        tx.count(counters.HANDED_BACK)


def complete(tx: Tx, index: DueIndex, completion: Completion, host: HostRow | None) -> bool:
    """Everything that ends a claim, or nothing but `host` when the claim is over."""
    if host is not None:
        put_host(tx, host)
    claim, state = completion.claim, completion.state
    lease = tx.one("lease_get", (claim.fp,))
    if lease is None or lease[2] != claim.token or lease[3] <= completion.now_us:
        tx.count(counters.LATE_COMPLETIONS)
        return False
    move(State.LEASED, state, Actor.CRAWLNODE)
    url_id, authority_id, _, _, _, _, _, interruptions, page = lease
    tx.run("lease_delete", (claim.fp,))
    counted = count_page(tx, completion.outcome, state, page)
    failures = 0 if state in SUCCESS else completion.failures
    interruptions = 0 if state in SUCCESS else interruptions
    values = (
        codes.CODES[state],
        completion.reason,
        completion.due_us,
        completion.lane,
        failures,
        interruptions,
        counted,
    )
    if completion.outcome is None:
        tx.run("url_end", (*values, url_id))
        if state is not State.DUE:
            tx.run("ended_insert", (url_id, completion.now_us, codes.CODES[state], completion.reason))
    else:
        tx.run("url_complete", (*values, completion.outcome.fetched_us, url_id))
        put_outcome(tx, (url_id, authority_id), completion.outcome, state, completion.now_us)
    if state is State.DUE or (state is State.FETCHED and completion.due_us > 0):
        index.add(tx, authority_id, completion.lane, completion.due_us, url_id)
    tx.count(counters.of_state(State.LEASED), -1)
    tx.count(counters.of_state(state))
    tx.count(counters.COMPLETIONS)
    return True


def count_page(tx: Tx, outcome: Outcome | None, state: State, page: int) -> int:
    """Whether the URL now counts among the pages; it does so once."""
    if page or outcome is None or not outcome.page or state is not State.FETCHED:
        return page
    tx.count(counters.PAGES)
    return 1


def put_outcome(tx: Tx, ids: tuple[int, int], outcome: Outcome, state: State, now_us: int) -> bool:
    """Insert an outcome; the same key again overwrites itself. Whether it is new. `ids`: of the URL, its authority."""
    url_id, authority_id = ids
    said = (outcome.wire_bytes, str(outcome.status) if outcome.status else outcome.failure, outcome.mime)
    values = (*said, codes.encode(outcome))
    if tx.run("outcome_insert", (url_id, outcome.fetched_us, now_us, codes.CODES[state], authority_id, *values)) <= 0:
        tx.run("outcome_replace", (*values, url_id, outcome.fetched_us))
        return False
    if outcome.failure not in UNSENT:
        count_requests(tx, outcome.fetched_us // DAY_US, 1)
    tx.count(counters.OUTCOMES)
    tx.count(counters.BYTES, outcome.wire_bytes)
    if outcome.location is not None:
        tx.count(counters.RECORDS)
    return True


def put_host(tx: Tx, row: HostRow) -> None:
    """Store what politeness must remember of a host."""
    tx.run("host_put", codes.host_values(row))


def put_robots_fetch(tx: Tx, fetch: RobotsFetch) -> bool:
    """Insert a request for a robots.txt, count it, and let go of what is too old by then. Whether it is new."""
    outcome = fetch.outcome
    if tx.run("robots_fetch_insert", (outcome.fetched_us, outcome.url, codes.encode(fetch))) <= 0:
        return False
    if outcome.failure not in UNSENT:
        count_requests(tx, outcome.fetched_us // DAY_US, 1)
    tx.run("robots_fetch_drop", (outcome.fetched_us - ROBOTS_FETCHES_KEPT_US,))
    return True


def count_requests(tx: Tx, day: int, requests: int) -> None:
    """Add to the requests of a UTC day."""
    tx.run("day_add", (day, requests))


def rearm_denied(tx: Tx, index: DueIndex, authority_id: int, now_us: int) -> int:
    """Every denied row of an authority becomes due."""
    denied = tx.all("denied_of_authority", (authority_id,))
    for (url_id,) in denied:
        move(State.DENIED, State.DUE, Actor.CRAWLNODE)
        make_due(tx, index, authority_id, url_id, State.DENIED, (Lane.NEW, now_us))
    return len(denied)


def make_due(tx: Tx, index: DueIndex, authority_id: int, url_id: int, state: State, when: tuple[Lane, int]) -> None:
    """A row that was out of the queue comes back with its counts cleared. `when`: lane and due time."""
    lane, due_us = when
    tx.run("url_rearm", (due_us, lane, url_id))
    index.add(tx, authority_id, lane, due_us, url_id)
    tx.count(counters.of_state(state), -1)
    tx.count(counters.of_state(State.DUE))
    tx.count(counters.REARMED)


def wait_out(tx: Tx, index: DueIndex, authority_id: int, reason: str, now_us: int) -> int:
    """Every row of an authority that waits in `due` becomes failed."""
    waiting = tx.all("waiting_of_authority", (authority_id,))
    for lane, due_us, url_id in waiting:
        move(State.DUE, State.FAILED, Actor.CRAWLNODE)
        index.remove(tx, authority_id, lane, due_us, url_id)
        tx.run("url_wait_out", (reason, url_id))
        tx.run("ended_insert", (url_id, now_us, codes.CODES[State.FAILED], reason))
    if waiting:
        tx.count(counters.of_state(State.DUE), -len(waiting))
        tx.count(counters.of_state(State.FAILED), len(waiting))
        tx.count(counters.WAITED_OUT, len(waiting))
    return len(waiting)
