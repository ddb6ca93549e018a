"""Recovery's side of a shard: orphans are adopted, leases that ended without a word become due, rows are re-armed."""

from collections.abc import Sequence

from limpet.model.lifecycle import Actor, State, move
from limpet.model.outcome import Outcome
from limpet.runtime.sqlitetx import Tx
from limpet.urlstore import counters
from limpet.urlstore.sqlite import codes, upkeep
from limpet.urlstore.sqlite.dueindex import DueIndex
from limpet.urlstore.sqlite.work import count_page, make_due, put_outcome
from limpet.urlstore.types import Lane, UrlRow, held_by_another

SUSPECTED_POISON = "suspected_poison"
REARMABLE = frozenset({State.FAILED, State.PARKED, State.REVIEW, State.GONE, State.CANCELLED})
_WAITING = frozenset({State.DUE, State.LEASED, State.CANCELLED})


def adopt(tx: Tx, index: DueIndex, outcome: Outcome, state: State, reason: str, now_us: int) -> bool:
    """Insert the outcome of an orphan record, and move its row if that still waits for one."""
    row = tx.one("adopt_get", (outcome.fp,))
    if row is None:
        return False
    url_id, authority_id, code, lane, due_us, page, latest_us, holder = row
    leased = holder is not None
    source = State.LEASED if leased else codes.STATES[code]
    waits = source in _WAITING and latest_us < outcome.fetched_us and not held_by_another(holder or "", outcome)
    move(source if waits else State.LEASED, state, Actor.RECOVERY)
    if tx.one("outcome_exists", (outcome.fp, outcome.fetched_us)) is not None:
        return False
    put_outcome(tx, (url_id, authority_id), outcome, state, now_us)
    tx.count(counters.ADOPTED)
    counted = count_page(tx, outcome, state, page)
    if not waits:
        tx.run("url_page", (counted, url_id))
        return True
    if leased:
        tx.run("lease_delete", (outcome.fp,))
    elif source is State.DUE:
        index.remove(tx, authority_id, lane, due_us, url_id)
    tx.run("url_complete", (codes.CODES[state], reason, 0, lane, 0, 0, counted, outcome.fetched_us, url_id))
    tx.count(counters.of_state(source), -1)
    tx.count(counters.of_state(state))
    return True


def expire(tx: Tx, index: DueIndex, now_us: int, over_us: int, poison_after: int) -> list[tuple[UrlRow, State]]:
    """End every lease that ends by `over_us`, of jobs too; one interruption more for each row."""
    tx.run("jobs_release", (over_us,))
    ended = []
    for (fp,) in tx.all("leases_over", (over_us,)):
        row = codes.url_row(tx.all("row_by_fp", (fp,))[0])
        ended.append((row, _interrupt(tx, index, row, now_us, poison_after)))
    return ended


def _interrupt(tx: Tx, index: DueIndex, row: UrlRow, now_us: int, poison_after: int) -> State:
    url_id, authority_id, *_ = tx.all("lease_get", (row.fp,))[0]
    # The first interruption strikes a URL in company; all later ones, until a success, strike it alone.
    poison = row.alone and row.interruptions >= poison_after
    state = State.REVIEW if poison else State.DUE
    move(State.LEASED, state, Actor.RECOVERY)
    tx.run("lease_delete", (row.fp,))
    reason, due_us = (SUSPECTED_POISON, 0) if poison else ("", now_us)
    tx.run("url_interrupt", (codes.CODES[state], reason, due_us, Lane.SOON, row.interruptions + 1, url_id))
    if poison:
        upkeep.notify(tx, ("review", row.host, SUSPECTED_POISON, 1, row.url, now_us, now_us))
    else:
        index.add(tx, authority_id, Lane.SOON, due_us, url_id)
    tx.count(counters.of_state(State.LEASED), -1)
    tx.count(counters.of_state(state))
    tx.count(counters.INTERRUPTIONS)
    return state


def rearm(tx: Tx, index: DueIndex, fps: Sequence[bytes], now_us: int) -> int:
    """Rows that are out of the queue become due; the others are left alone."""
    count = 0
    for fp in fps:
        row = tx.one("rearm_get", (fp,))
        if row is None:
            continue
        url_id, authority_id, code = row  # a leased row keeps the state it was claimed from, which is not re-armable
        state = codes.STATES[code]
        if state in REARMABLE:
            move(state, State.DUE, Actor.OPERATOR)
            make_due(tx, index, authority_id, url_id, state, (Lane.SOON, now_us))
            count += 1
    return count
