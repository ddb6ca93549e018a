"""Admission's side of a shard: candidates become rows, rejected links become counts."""

from collections.abc import Sequence
from typing import Final

from limpet.model.lifecycle import Actor, State, move
from limpet.runtime.sqlitetx import Tx
from limpet.urlstore import counters
from limpet.urlstore.sqlite import codes, reading
from limpet.urlstore.sqlite.dueindex import DueIndex
from limpet.urlstore.sqlite.names import Names
from limpet.urlstore.types import AdmitResult, Candidate, Lane, Reject, leads_on

SAMPLES_MAX: Final = 10


def admit(tx: Tx, names: Names, index: DueIndex, candidates: Sequence[Candidate], now_us: int) -> list[AdmitResult]:
    """Due entry and row of each candidate that is new, in this one transaction."""
    born: dict[int, int] = {}
    results = [_admit_one(tx, names, index, candidate, now_us, born) for candidate in candidates]
    for host_id, count in born.items():
        tx.run("host_urls_add", (count, host_id))
    if born:
        tx.count(counters.ADMITTED, sum(born.values()))
    return results


def _admit_one(
    tx: Tx, names: Names, index: DueIndex, candidate: Candidate, now_us: int, born: dict[int, int]
) -> AdmitResult:
    known = tx.one("url_identity", (candidate.fp,))
    if known is not None:
        key, url, depth, hops = known
        if (key or url) != candidate.key:
            return _clash(tx, candidate, now_us)
        return _known(tx, candidate, depth) if leads_on(hops) else AdmitResult.KNOWN
    authority_id, host_id = names.ensure(tx, candidate.authority, candidate.host)
    _insert(tx, index, candidate, authority_id, now_us)
    born[host_id] = born.get(host_id, 0) + 1
    return AdmitResult.NEW


def _known(tx: Tx, candidate: Candidate, depth: int) -> AdmitResult:
    """A row keeps the shortest way from a seed; what was published with a longer one has to be published again."""
    if candidate.depth > depth or not leads_on(candidate.hops):
        return AdmitResult.KNOWN
    if candidate.depth < depth:
        tx.run("url_nearer", (candidate.depth, candidate.hops, candidate.via, candidate.seed, candidate.fp))
    farther = any(output.depth > candidate.depth for output in reading.outputs(tx, candidate.fp))
    return AdmitResult.NEARER if farther else AdmitResult.KNOWN


def _insert(tx: Tx, index: DueIndex, candidate: Candidate, authority_id: int, now_us: int) -> None:
    state = State.PARKED if candidate.parked else State.DUE
    if candidate.cancelled:
        state = State.CANCELLED
        tx.count(counters.CANCELLED)
    move(None, state, Actor.ADMISSION)
    values = (
        candidate.fp,
        authority_id,
        codes.CODES[state],
        candidate.due_us,
        candidate.depth,
        candidate.seed,
        now_us,
        candidate.cancelled or candidate.parked,
        candidate.hops,
        candidate.kind,
        candidate.via,
        candidate.url,
        "" if candidate.key == candidate.url else candidate.key,
    )
    url_id = tx.insert("url_insert", values)
    if state is State.DUE:
        index.add(tx, authority_id, Lane.NEW, candidate.due_us, url_id)
    if state is State.CANCELLED:
        tx.run("ended_insert", (url_id, now_us, codes.CODES[state], candidate.cancelled))
    tx.count(counters.of_state(state))


def _clash(tx: Tx, candidate: Candidate, now_us: int) -> AdmitResult:
    move(None, State.REVIEW, Actor.ADMISSION)
    if tx.run("clash_insert", (candidate.fp, candidate.key, codes.encode(candidate), now_us)) > 0:
        tx.count(counters.CLASHES)
        tx.count(counters.of_state(State.REVIEW))
    return AdmitResult.CLASH


def count_rejects(tx: Tx, rejects: Sequence[Reject]) -> None:
    """Add up per host and rule; keep the first distinct samples."""
    grouped: dict[tuple[str, str], list[Reject]] = {}
    for reject in rejects:
        grouped.setdefault((reject.host, reject.rule), []).append(reject)
    for (host, rule), group in grouped.items():
        stored = tx.one("reject_get", (host, rule))
        count, samples = (stored[0], codes.samples(stored[1])) if stored else (0, [])
        for reject in group:
            if reject.sample and len(samples) < SAMPLES_MAX and reject.sample not in samples:
                samples.append(reject.sample)
        added = sum(reject.count for reject in group)
        tx.run("reject_put", (host, rule, count + added, codes.encode(samples)))
        tx.count(counters.REJECTED, added)
