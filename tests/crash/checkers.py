"""Independent checkers: what must hold of a finished crawl, whatever died on the way.

They read the files themselves and the witness's log; nothing of Limpet's logic is used. Each anomaly has the name that
the guarantees give it.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from crash.evidence import INDEX, OPEN, Evidence, Fact, Record, members
from crash.witness import Visit
from crash.world import body_of, expected_rows, visits_planned

Checker = Callable[[Evidence], Iterator[str]]

DAY_US: Final = 86_400_000_000
HOLD_US: Final = 10_000_000  # the least a host is left alone after a death in the middle of a request
FLOOR_US: Final = 1_000_000
FETCH_US_MAX: Final = 140_000_000
LATENCY_GAP_US_MAX: Final = 30_000_000
SLACK_US: Final = 2_000
ROBOTS: Final = ("/robots.txt", "/rules")
UNSETTLED: Final = frozenset({500, 503})  # answers that are tried again: their records need no outcome after a death


def anomalies(evidence: Evidence) -> list[str]:
    """Every anomaly, named; [] is what a proof wants to see."""
    return [anomaly for check in CHECKERS for anomaly in check(evidence)]


def names(found: list[str]) -> set[str]:
    """The names of anomalies."""
    return {anomaly.split(":", 1)[0] for anomaly in found}


# -- G1: no URL is ever lost -------------------------------------------------------------------------------------------
def lost_urls(evidence: Evidence) -> Iterator[str]:
    """Every admissible URL has a row that reached its end; nothing is left waiting that nobody will wake."""
    rows = {row.url: row for row in evidence.rows}
    wanted = expected_rows(evidence.world)
    for url, (state, reason) in wanted.items():
        row = rows.get(url)
        if row is None:
            yield f"lost URL: {url} has no row"
        elif row.state != state or (reason and row.reason != reason):
            yield f"lost URL: {url} is {row.state} ({row.reason}), not {state} ({reason})"
        elif row.due or row.leases:
            yield f"lost URL: {url} is {row.state} and has {row.due} due entries and {row.leases} leases"
    yield from (f"invented URL: {url}" for url in rows.keys() - wanted.keys())
    yield from (f"lost URL: {log} was not read to its end" for log in evidence.unread)


def lost_bodies(evidence: Evidence) -> Iterator[str]:
    """Every fetched body was parsed, or waits for a person because its record reads badly."""
    yield from (f"lost URL: the body of {url} at {at} was never parsed" for url, at in evidence.unparsed)
    never = {url for url, times in evidence.world.bad_reads.items() if times > 1_000} | {*evidence.world.deadly_bodies}
    for url, state in evidence.jobs:
        if state != "review" or url not in never:
            yield f"lost URL: the parse job of {url} is {state}"


def lost_counts(evidence: Evidence) -> Iterator[str]:
    """What the rules turned away was counted; what status shows is what is there."""
    rejected = evidence.rejected
    for host in evidence.world.hosts:
        if rejected.get(host.name, 0) < len(host.rejected):
            yield f"lost URL: links of {host.name} were turned away and not counted"
    rows = Counter(row.state for row in evidence.rows)
    counters = evidence.counters
    for state in rows.keys() | {name.removeprefix("state.") for name in counters if name.startswith("state.")}:
        if counters[f"state.{state}"] != rows[state]:
            yield f"miscount: {counters[f'state.{state}']} rows are said to be {state}, {rows[state]} are"
    to_tell = rows["failed"] + rows["review"] + sum(state == "review" for _, state in evidence.jobs)
    if counters["notices"] < to_tell:
        yield f"untold: {to_tell} rows and jobs need a person, {counters['notices']} notices were given"
    if counters["outcomes"] != len(evidence.facts):
        yield f"miscount: {counters['outcomes']} outcomes are counted, {len(evidence.facts)} are there"


# -- G2: body before fact ----------------------------------------------------------------------------------------------
def phantoms(evidence: Evidence) -> Iterator[str]:
    """A row says fetched only when the archive has the very bytes that the site sent."""
    records = {record.place: record for record in evidence.records}
    proven: set[str] = set()
    for fact in evidence.facts:
        if fact.place is None:
            continue
        record = records.get(fact.place)
        if record is None:
            yield f"phantom fetch: {fact.url} has no whole record at {fact.place}"
        elif fault := _differs(evidence, fact, record):
            yield f"phantom fetch: the record of {fact.url} {fault}"
        else:
            proven.add(fact.url)
    for row in evidence.rows:
        if row.state == "fetched" and row.url not in proven:
            yield f"phantom fetch: {row.url} is fetched without a record"
    for url, place in evidence.announced:
        if place not in records or records[place].url != url:
            yield f"phantom fetch: {url} was announced and has no whole record at {place}"


def _differs(evidence: Evidence, fact: Fact, record: Record) -> str:
    if (record.url, record.date_us, record.status) != (fact.url, fact.fetched_us, fact.status):
        return f"is of {record.url} at {record.date_us} with status {record.status}"
    host = evidence.world.by_name[fact.url.split("/")[2]]
    path = fact.url.removeprefix(host.base)
    if fact.status != 200 or path not in host.served:
        return ""
    sent = body_of(host, path)
    body = record.block.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n\r\n")
    return "" if body == (sent[: len(sent) // 2] if path in host.cut else sent) else "has another body"


# -- G3: few duplicates, never holes -----------------------------------------------------------------------------------
def doubles(evidence: Evidence) -> Iterator[str]:
    """One outcome a request, one request an outcome; one request that is answered well, but for what came too late."""
    keys = Counter((fact.url, fact.fetched_us) for fact in evidence.facts)
    yield from (f"double acceptance: {count} outcomes {key}" for key, count in keys.items() if count > 1)
    places = Counter(fact.place for fact in evidence.facts if fact.place is not None)
    yield from (f"double acceptance: {count} outcomes of the record {at}" for at, count in places.items() if count > 1)
    bodies = Counter(fact.url for fact in evidence.facts if fact.state in {"fetched", "gone"})
    accepted = {url: count for url, count in bodies.items() if count > 1 + evidence.excused}
    yield from (f"double acceptance: {url} was accepted {count} times" for url, count in accepted.items())
    sent = Counter(visit.url for visit in evidence.visits)
    for url, count in Counter(fact.url for fact in evidence.facts).items():
        if count > sent[url]:
            yield f"double acceptance: {count} outcomes of {url}, which was sent {sent[url]} times"


def stale_overwrites(evidence: Evidence) -> Iterator[str]:
    """A row points to its latest outcome."""
    latest: dict[str, int] = defaultdict(int)
    for fact in evidence.facts:
        latest[fact.url] = max(latest[fact.url], fact.fetched_us)
    for row in evidence.rows:
        if row.latest_us != latest[row.url]:
            yield f"stale overwrite: {row.url} points to {row.latest_us}, its latest outcome is {latest[row.url]}"


def orphans(evidence: Evidence) -> Iterator[str]:
    """Every record belongs to an outcome, lies in a sealed segment, and is in the index."""
    known = {(fact.url, fact.fetched_us) for fact in evidence.facts}
    unknown = [record for record in evidence.records if not _needs_none(evidence, record, known)]
    for record in unknown:
        yield f"orphan record: {record.url} at {record.segment}+{record.offset}"
    for name, data in evidence.segments.items():
        end = max((offset + length for offset, length, _ in members(data)), default=0)
        if end != len(data):
            yield f"orphan record: {name} ends in {len(data) - end} bytes that are no record"
        if name not in evidence.archive:
            yield f"orphan record: {name} is still {OPEN}"
        elif evidence.archive.get(name + INDEX, b"").count(b"\n") != sum(r.segment == name for r in evidence.records):
            yield f"orphan record: the index of {name} has not one line a response"


def unlogged(evidence: Evidence) -> Iterator[str]:
    """Every record of a robots.txt has its line, every line the record it names, and what has either was counted."""
    lines = {(url, at): place for url, at, place in evidence.lines}
    records = {(r.url, r.date_us): r.place for r in evidence.records if r.url.endswith(ROBOTS)}
    for url, at in records.keys() - lines.keys():
        yield f"unlogged robots.txt: the record of {url} at {at} has no line"
    for key, place in lines.items():
        if place != records.get(key):
            yield f"phantom line: {key} is said to be at {place}, and is at {records.get(key)}"
    sent = len(lines) + len(evidence.facts)
    if evidence.requests != sent:
        yield f"miscount: {evidence.requests} requests were counted, {sent} have an outcome or a line"


def _needs_none(evidence: Evidence, record: Record, known: set[tuple[str, int]]) -> bool:
    """Whether a record may be without an outcome: robots.txt, attempts that settle nothing, what reads badly."""
    host = evidence.world.by_name[record.url.split("/")[2]]
    path = record.url.removeprefix(host.base)
    settles_nothing = record.status in UNSETTLED or path in host.cut or record.url in evidence.world.bad_reads
    return path in ROBOTS or settles_nothing or (record.url, record.date_us) in known


def ghosts(evidence: Evidence) -> Iterator[str]:
    """A mark always follows its row."""
    rows = {row.fp for row in evidence.rows}
    yield from (f"ghost seen: {fp.hex()} is marked and has no row" for fp in evidence.marks if fp not in rows)


def too_many(evidence: Evidence) -> Iterator[str]:
    """A death costs at most the requests whose outcome was not committed."""
    planned = visits_planned(evidence.world)
    for url, count in Counter(visit.url for visit in evidence.visits).items():
        lost = sum(url in _in_flight(evidence, place) for place in range(len(evidence.deaths)))
        plan = planned.get(url, 1) + evidence.excused
        if count > plan + lost:
            yield f"too many requests: {url} was sent {count} times, {plan} planned, {lost} lost to deaths"


def _in_flight(evidence: Evidence, place: int) -> set[str]:
    """URLs sent since the death before, whose outcome was not durable at this one."""
    death = evidence.deaths[place]
    before = evidence.deaths[place - 1].visits if place else {}
    done = evidence.deaths[place - 1].outcomes if place else {}
    in_flight: set[str] = set()
    for url, count in death.visits.items():
        since = count - before.get(url, 0)
        if url.endswith(ROBOTS):
            host = evidence.world.by_name[url.split("/")[2]]
            asks = [other for other in evidence.world.hosts if other is host or other.robots_at == url]
            asked_twice = host.robots_busy or host.disallowed_before is not None
            if since and (asked_twice or any(other.base not in death.robots for other in asks)):
                in_flight.add(url)
        elif since > death.outcomes.get(url, 0) - done.get(url, 0):
            in_flight.add(url)
    return in_flight


# -- G4: never impolite ------------------------------------------------------------------------------------------------
def impolite(evidence: Evidence) -> Iterator[str]:
    """One connection a host, the gap after each response, every wait kept; also across deaths."""
    by_host: dict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(evidence.visits, key=lambda visit: visit.start_us):
        by_host[visit.host].append(visit)
    for host, visits in by_host.items():
        for before, after in pairwise(visits):
            yield from _too_soon(evidence, before, after, _gap_us(evidence, before))
        yield from _against_waits(evidence, host, visits)


def _too_soon(evidence: Evidence, before: Visit, after: Visit, gap_us: int) -> Iterator[str]:
    what = f"{after.url} {(after.start_us - before.start_us) / 1e6:.2f} s after {before.url} began"
    if after.open_before:
        yield f"impolite fetch: {what}, on a second connection"
    if before.end_us is not None:
        if after.start_us < before.end_us + gap_us - SLACK_US:
            yield f"impolite fetch: {what}, {(after.start_us - before.end_us) / 1e6:.2f} s after it ended"
        return
    died_us = min((death.at_us for death in evidence.deaths if death.at_us >= before.start_us), default=None)
    if died_us is None or died_us > after.start_us:
        yield f"impolite fetch: {what}, which nobody had ended"
    elif after.start_us < died_us + max(HOLD_US, 2 * gap_us) - SLACK_US:
        yield f"impolite fetch: {what}, and {(after.start_us - died_us) / 1e6:.2f} s after a death left that open"


def _gap_us(evidence: Evidence, before: Visit) -> int:
    """The gap after a request: floor, five times the time it took, and the crawl-delay.

    Crawl-delay binds from the first robots.txt on that outlived the next death, and so does the time an answer took.
    """
    took_us = before.end_us - before.start_us if before.end_us is not None and _outlived(evidence, before) else 0
    took_us = 0 if evidence.slept and took_us > FETCH_US_MAX else took_us  # it was the client that took so long
    gap_us = max(FLOOR_US, min(LATENCY_GAP_US_MAX, 5 * took_us))
    base = evidence.world.by_name[before.host].base
    ends = [v.end_us for v in evidence.visits if v.url == base + "/robots.txt" and v.end_us and v.status == 200]
    read_us = next((end_us for end_us in sorted(ends) if not _forgotten(evidence, base, end_us)), None)
    known = read_us is not None and read_us <= (before.end_us or before.start_us)
    delay_us = int(evidence.world.by_name[before.host].crawl_delay_seconds * 1e6)
    return max(gap_us, delay_us) if known else gap_us


def _outlived(evidence: Evidence, visit: Visit) -> bool:
    """Whether the outcome of a visit was durable at the death that came next, if one came."""
    died = [death for death in evidence.deaths if death.at_us >= visit.start_us]
    return not died or died[0].outcomes.get(visit.url, 0) >= died[0].visits.get(visit.url, 0)


def _forgotten(evidence: Evidence, authority: str, read_us: int) -> bool:
    died = [death for death in evidence.deaths if death.at_us >= read_us]
    return bool(died) and authority not in died[0].robots


def _against_waits(evidence: Evidence, host: str, visits: list[Visit]) -> Iterator[str]:
    """Retry-After binds from the head on. The documented residual: a death before the head's wait was durable."""
    for told in visits:
        if not told.retry_after_us or told.head_us is None:
            continue
        until_us = told.head_us + told.retry_after_us
        died = [death for death in evidence.deaths if death.at_us >= told.head_us]
        residual = told.end_us is None and bool(died) and died[0].waits_us.get(host, 0) < until_us - SLACK_US
        for visit in visits:
            if told.head_us < visit.start_us < until_us - SLACK_US and not residual:
                yield f"impolite fetch: {visit.url} inside the Retry-After of {told.url}"


def unlicensed(evidence: Evidence) -> Iterator[str]:
    """No page without a robots.txt served within the last day, none that it disallows, and the copy is named."""
    rules = evidence.world.by_name
    served: dict[str, int] = {}
    for visit in sorted(evidence.visits, key=lambda visit: visit.start_us):
        host = rules[visit.host]
        path = visit.url.removeprefix(host.base)
        if path in ROBOTS:
            if visit.status == 200 and visit.end_us is not None:
                owners = [other.name for other in evidence.world.hosts if other.robots_at == visit.url]
                served |= dict.fromkeys(owners or [host.name], visit.end_us)
            continue
        if host.is_disallowed(path):
            yield f"unlicensed fetch: {visit.url} is disallowed"
        if visit.start_us - served.get(visit.host, -DAY_US) >= DAY_US:
            yield f"unlicensed fetch: {visit.url} without a valid robots.txt"
    for fact in evidence.facts:
        host = rules[fact.url.split("/")[2]]
        said = {host.robots(), host.robots(host.disallowed_before)}
        if fact.robots_digest not in {hashlib.sha256(body).hexdigest() for body in said}:
            yield f"unlicensed fetch: {fact.url} names a robots.txt that its host does not have"


CHECKERS: Final[tuple[Checker, ...]] = (
    lost_urls,
    lost_bodies,
    lost_counts,
    phantoms,
    doubles,
    stale_overwrites,
    orphans,
    unlogged,
    ghosts,
    too_many,
    impolite,
    unlicensed,
)
