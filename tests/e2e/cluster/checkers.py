"""What must hold of a finished crawl of the cluster, whatever died: each anomaly by the name the guarantees give it.

The checkers know the web (what it deserves) and the servers' contents; nothing of Limpet decides here.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from e2e.cluster.archive import Record
from e2e.cluster.evidence import Evidence

Checker = Callable[[Evidence], Iterator[str]]

DESERVED: Final = {"page": "fetched", "redirect": "fetched", "gone": "gone", "denied": "denied"}
SETTLED: Final = frozenset({200, 301, 302, 404, 410})


def anomalies(evidence: Evidence) -> list[str]:
    """Every anomaly, named; [] is what a proof wants to see."""
    return [anomaly for check in CHECKERS for anomaly in check(evidence)]


# -- G1: no URL is ever lost -------------------------------------------------------------------------------------------
def lost_urls(evidence: Evidence) -> Iterator[str]:
    """Every URL that the web names has one row, in the state that it deserves; no row is of anything else."""
    states = {row.url: (row.state, row.reason) for row in evidence.rows}
    for url, kind in evidence.deserved.items():
        state, reason = states.get(url, ("", ""))
        if not state:
            yield f"lost URL: {url} ({kind}) has no row"
        elif state != DESERVED[kind]:
            yield f"lost URL: {url} ({kind}) is {state} ({reason})"
    yield from (f"invented URL: {url}" for url in states.keys() - evidence.deserved.keys())
    counts = Counter(row.url for row in evidence.rows)
    yield from (f"invented URL: {url} has {count} rows" for url, count in counts.items() if count > 1)


def unfinished(evidence: Evidence) -> Iterator[str]:
    """Nothing is leased, due, unread, waiting for a parser or for a person."""
    for row in evidence.rows:
        if row.state == "leased" or row.token:
            yield f"unfinished: {row.url} is {row.state}, leased by {row.holder or 'nobody'} until {row.lease_us}"
        elif row.state in {"due", "review", "parked"} or row.due_us:
            yield f"unfinished: {row.url} is {row.state}, due at {row.due_us}"
    for lag in evidence.lags:
        if lag.committed < lag.end:
            yield f"unfinished: {lag.topic}[{lag.partition}] is read up to {lag.committed} of {lag.end}"
    for parse in evidence.parses:
        if parse.job and not parse.accepted:
            yield f"unfinished: the parse job of {_url(evidence, parse.fp)} is {parse.job}"
    yield from (f"unfinished: {trouble}" for trouble in evidence.troubles)
    if evidence.dead_letters:
        yield f"unfinished: {evidence.dead_letters} dead letters, though every message was sound"


def lost_bodies(evidence: Evidence) -> Iterator[str]:
    """Every page that stands as fetched has been parsed."""
    accepted = {(parse.fp, parse.fetched_us) for parse in evidence.parses if parse.accepted}
    for fact in evidence.facts:
        if fact.status == 200 and (fact.fp, fact.fetched_us) not in accepted:
            yield f"lost URL: the body of {fact.url} at {fact.fetched_us} was never parsed"


def ghosts(evidence: Evidence) -> Iterator[str]:
    """A mark always follows its row, and lies in its shard."""
    explained: dict[int, set[tuple[int, int]]] = {}
    sets = {marks.shard: marks.sets for marks in evidence.marks}
    for row in evidence.rows:
        if row.shard in sets:
            explained.setdefault(row.shard, set()).add(mark_of(row.fp, sets[row.shard]))
    for marks in evidence.marks:
        for place in marks.members - explained.get(marks.shard, set()):
            yield f"ghost seen: shard {marks.shard} has a mark {place} without a row"


def mark_of(fp: bytes, sets: int) -> tuple[int, int]:
    """Where a fingerprint is marked, as docs/seen.md has it: half of it chooses the set, the other is the member."""
    return int.from_bytes(fp[:8], "big") * sets >> 64, int.from_bytes(fp[8:], "big", signed=True)


# -- G2: body before fact ----------------------------------------------------------------------------------------------
def phantoms(evidence: Evidence) -> Iterator[str]:
    """A row says fetched only when a readable record has the very bytes that the site gives."""
    proven: set[bytes] = set()
    for fact in evidence.facts:
        if fact.place is None:
            continue
        record = evidence.by_place.get(fact.place)
        if record is None:
            yield f"phantom fetch: {fact.url} at {fact.fetched_us} has no whole record at {fact.place}"
        elif (record.url, record.date_us, record.status) != (fact.url, fact.fetched_us, fact.status):
            yield f"phantom fetch: the record of {fact.url} is of {record.url}, {record.date_us}, {record.status}"
        elif record.payload_sha256 != fact.payload_sha256:
            yield f"phantom fetch: the record of {fact.url} has another digest than its row"
        elif fact.status == 200 and record.body_sha256 != evidence.bodies.get(fact.url):
            yield f"phantom fetch: the record of {fact.url} is not what the site gives"
        else:
            proven.add(fact.fp)
    for row in evidence.rows:
        if row.state in {"fetched", "gone"} and row.fp not in proven:
            yield f"phantom fetch: {row.url} is {row.state} without a record"


def rumours(evidence: Evidence) -> Iterator[str]:
    """What was announced is there."""
    for event in evidence.announced:
        record = evidence.by_place.get(event.place)
        if record is None or record.url != event.url:
            yield f"phantom fetch: {event.url} was announced and has no whole record at {event.place}"


# -- G3: few duplicates, never holes -----------------------------------------------------------------------------------
def doubles(evidence: Evidence) -> Iterator[str]:
    """One outcome a record, and no more outcomes than requests."""
    places = Counter(fact.place for fact in evidence.facts if fact.place is not None)
    yield from (f"double acceptance: {count} outcomes of the record {at}" for at, count in places.items() if count > 1)
    keys = Counter((fact.fp, fact.fetched_us) for fact in evidence.facts)
    yield from (f"double acceptance: {count} outcomes {key}" for key, count in keys.items() if count > 1)
    sent = Counter(visit.url for visit in evidence.visits)
    for url, count in Counter(fact.url for fact in evidence.facts).items():
        if count > sent[url]:
            yield f"double acceptance: {count} outcomes of {url}, which was sent {sent[url]} times"


def stale_overwrites(evidence: Evidence) -> Iterator[str]:
    """A row points to an outcome that is there, and to none that another came after."""
    latest: dict[bytes, int] = {}
    for fact in evidence.facts:
        latest[fact.fp] = max(fact.fetched_us, latest.get(fact.fp, 0))
    for row in evidence.rows:
        if row.latest_us != latest.get(row.fp, 0):
            yield f"stale overwrite: {row.url} points to {row.latest_us}, its latest outcome is {latest.get(row.fp, 0)}"
    for fp in latest.keys() - evidence.by_fp.keys():
        yield f"stale overwrite: outcomes of {fp.hex()} have no row"


def orphans(evidence: Evidence) -> Iterator[str]:
    """Every record that settles something has its outcome, or is a copy of one that has; segments are whole and sealed.

    Copies: an append without an answer is made again in another segment, and may have been done all the same. A record
    whose completion came too late is none: recovery adopts it.
    """
    answered = {(fact.url, fact.fetched_us, fact.payload_sha256) for fact in evidence.facts}
    for record in without_outcome(evidence):
        if (record.url, record.date_us, record.payload_sha256) not in answered:
            yield f"orphan record: {record.url} of {record.date_us} at {record.segment}+{record.offset}"
    yield from (f"orphan record: {name} ends in {size} bytes that are none" for name, size in evidence.torn.items())
    yield from (f"orphan record: {name} was never sealed" for name in evidence.unsealed)


def without_outcome(evidence: Evidence) -> list[Record]:
    """Records that settle something and that no outcome names."""
    known = {fact.place for fact in evidence.facts}
    settling = (one for one in evidence.records if one.status in SETTLED and not one.url.endswith("/robots.txt"))
    return [record for record in settling if record.place not in known]


def _url(evidence: Evidence, fp: bytes) -> str:
    row = evidence.by_fp.get(fp)
    return row.url if row else fp.hex()


CHECKERS: Final[tuple[Checker, ...]] = (
    lost_urls,
    unfinished,
    lost_bodies,
    ghosts,
    phantoms,
    rumours,
    doubles,
    stale_overwrites,
    orphans,
)
