"""Independent checkers: what must hold of a finished crawl, whatever died on the way.

They read the files themselves (plain SQL, plain gzip) and the web's own log; nothing of Limpet's logic is used. Each
anomaly has the name that the guarantees give it.
"""

import gzip
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from crash.world import RETRY_AFTER_SECONDS, Host, body_of, expected_states

from limpet.testing.web import Visit

STATES = {0: "due", 1: "leased", 2: "fetched", 3: "denied", 4: "gone", 5: "failed", 6: "parked", 7: "review"}
DAY_US = 86_400_000_000


class Evidence(msgspec.Struct):
    """What a finished crawl left behind."""

    shard_files: list[Path]
    seen_files: list[Path]
    segments: dict[str, bytes]  # name without `.open` -> bytes, one replica
    visits: list[Visit]
    deaths_us: list[int]
    hosts: list[Host]


def anomalies(evidence: Evidence) -> list[str]:
    """Every anomaly, named; [] is what a proof wants to see."""
    found: list[str] = []
    for check in (_lost_urls, _phantoms, _doubles, _ghosts, _orphans, _impolite, _unlicensed, _too_many):
        found += check(evidence)
    return found


def _query(path: Path, sql: str) -> list[tuple]:  # type: ignore[type-arg]
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def _lost_urls(evidence: Evidence) -> Iterator[str]:
    """Every admissible URL has a row, and the row reached its end."""
    rows = {
        url: STATES.get(state, str(state))
        for path in evidence.shard_files
        for url, state in _query(path, "SELECT url, state FROM url")
    }
    wanted = expected_states(evidence.hosts)
    for url, state in wanted.items():
        if url not in rows:
            yield f"lost URL: {url} has no row"
        elif rows[url] != state:
            yield f"lost URL: {url} is {rows[url]}, not {state}"
    for url in rows.keys() - wanted.keys():
        yield f"invented URL: {url}"
    for path in evidence.shard_files:
        for (count,) in _query(path, "SELECT count(*) FROM lease"):
            if count:
                yield f"lost URL: {count} leases are left in {path.name}"
        for authority, due_us in _query(path, "SELECT authority, due_us FROM due"):
            yield f"lost URL: an entry is still due at {due_us} (authority {authority})"


def _outcomes(evidence: Evidence) -> Iterator[tuple[str, dict]]:  # type: ignore[type-arg]
    for path in evidence.shard_files:
        for url, data in _query(path, "SELECT u.url, o.data FROM outcome o JOIN url u ON u.id = o.url"):
            yield url, msgspec.msgpack.decode(data)


def _phantoms(evidence: Evidence) -> Iterator[str]:
    """A row says fetched only when the archive has the very bytes that the site sent."""
    pages = {f"http://{host.name}{path}": body_of(host, path) for host in evidence.hosts for path in host.pages}
    proven: set[str] = set()
    for url, outcome in _outcomes(evidence):
        location = outcome.get("location")
        if location is None:
            continue
        segment, offset, length = _location(location)
        member = evidence.segments.get(segment, b"")[offset : offset + length]
        try:
            record = gzip.decompress(member)
        except (OSError, EOFError):
            yield f"phantom fetch: {url} has no whole record at {segment}+{offset}"
            continue
        if f"WARC-Target-URI: {url}\r\n".encode() not in record:
            yield f"phantom fetch: the record of {url} is of another URL"
        if outcome.get("status") == 200:
            if pages[url] not in record:
                yield f"phantom fetch: the record of {url} has another body"
            proven.add(url)
    for path in evidence.shard_files:
        for (url,) in _query(path, "SELECT url FROM url WHERE state = 2"):
            if url in pages and url not in proven:
                yield f"phantom fetch: {url} is fetched without a record"


def _location(value: object) -> tuple[str, int, int]:
    if isinstance(value, dict):
        return value["segment"], value["offset"], value["length"]
    segment, offset, length = value  # type: ignore[misc]
    return segment, offset, length


def _doubles(evidence: Evidence) -> Iterator[str]:
    """One outcome a key, one output a key; every fetched body parsed exactly once."""
    keys: Counter[tuple[str, int]] = Counter()
    for url, outcome in _outcomes(evidence):
        keys[url, outcome["fetched_us"]] += 1
    yield from (f"double acceptance: outcome {key} {count} times" for key, count in keys.items() if count > 1)
    for path in evidence.shard_files:
        missing = _query(
            path,
            "SELECT u.url, o.fetched_us FROM outcome o JOIN url u ON u.id = o.url"
            " LEFT JOIN output p ON p.fp = u.fp AND p.fetched_us = o.fetched_us WHERE o.state = 2 AND p.fp IS NULL",
        )
        yield from (f"lost URL: the body of {url} at {at} was never parsed" for url, at in missing)
        for (count,) in _query(path, "SELECT count(*) FROM job"):
            if count:
                yield f"lost URL: {count} parse jobs are left in {path.name}"


def _ghosts(evidence: Evidence) -> Iterator[str]:
    """A mark always follows its row."""
    rows = {fp for path in evidence.shard_files for (fp,) in _query(path, "SELECT fp FROM url")}
    for path in evidence.seen_files:
        for (fp,) in _query(path, "SELECT fp FROM seen"):
            if fp not in rows:
                yield f"ghost seen: {fp.hex()} is marked and has no row"


def _orphans(evidence: Evidence) -> Iterator[str]:
    """Every response record of a page that settled something belongs to an outcome."""
    known = {(_location(outcome["location"])[:2]) for _, outcome in _outcomes(evidence) if outcome.get("location")}
    for name, data in evidence.segments.items():
        offset = 0
        for member in _members(data):
            header = gzip.decompress(member).split(b"\r\n\r\n", 1)
            is_page = b"WARC-Type: response" in header[0] and b"/robots.txt\r\n" not in header[0]
            status = header[1].split(b" ", 2)[1] if is_page else b""
            if is_page and status not in {b"500", b"503"} and (name, offset) not in known:
                yield f"orphan record: {name}+{offset}"
            offset += len(member)
        if offset != len(data):
            yield f"orphan record: {name} ends in {len(data) - offset} bytes that are no record"


def _members(data: bytes) -> Iterator[bytes]:
    import zlib  # noqa: PLC0415 - only here

    while data:
        inflater = zlib.decompressobj(31)
        try:
            inflater.decompress(data)
        except zlib.error:
            return
        if not inflater.eof:
            return
        size = len(data) - len(inflater.unused_data)
        yield data[:size]
        data = data[size:]


def _impolite(evidence: Evidence) -> Iterator[str]:
    """One connection a host, the gap after each response, Retry-After kept; also across deaths."""
    by_host: dict[str, list[Visit]] = defaultdict(list)
    for visit in evidence.visits:
        by_host[visit.host].append(visit)
    gaps_us = {host.name: int(host.gap_seconds * 1e6) for host in evidence.hosts}
    for host, visits in by_host.items():
        visits.sort(key=lambda visit: visit.start_us)
        waits_us = 0
        for before, after in zip(visits, visits[1:], strict=False):
            end_us = before.end_us if before.end_us is not None else before.start_us
            told = before.end_us is not None and before.status == 503
            waits_us = max(waits_us, end_us + RETRY_AFTER_SECONDS * 1_000_000 if told else 0)
            if before.end_us is None and not _died_between(evidence, before.start_us, after.start_us):
                yield f"impolite fetch: {after.url} while {before.url} was open"
            gap_us = gaps_us[host] if before.end_us is not None else 10_000_000
            if after.start_us < end_us + gap_us - 2_000:
                yield f"impolite fetch: {after.url} came {(after.start_us - end_us) / 1e6:.2f} s after {before.url}"
            if after.start_us < waits_us - 2_000:
                yield f"impolite fetch: {after.url} inside the Retry-After of {host}"
            if after.open_before:
                yield f"impolite fetch: {after.url} on a second connection"


def _died_between(evidence: Evidence, start_us: int, end_us: int) -> bool:
    return any(start_us <= at <= end_us for at in evidence.deaths_us)


def _unlicensed(evidence: Evidence) -> Iterator[str]:
    """No page before its robots.txt was served within the last day, and none that it disallows."""
    rules = {host.name: host for host in evidence.hosts}
    licensed: dict[str, int] = {}
    for visit in sorted(evidence.visits, key=lambda visit: visit.start_us):
        path = visit.url.removeprefix(f"http://{visit.host}")
        if path == "/robots.txt":
            if visit.status == 200 and visit.end_us is not None:
                licensed[visit.host] = visit.end_us
            continue
        if any(path.startswith(prefix) for prefix in rules[visit.host].disallowed):
            yield f"unlicensed fetch: {visit.url} is disallowed"
        if visit.start_us - licensed.get(visit.host, -DAY_US) >= DAY_US:
            yield f"unlicensed fetch: {visit.url} without a valid robots.txt"


def _too_many(evidence: Evidence) -> Iterator[str]:
    """A death costs duplicates, few: at most what was under way, one request a host."""
    allowed = len(evidence.deaths_us) * len(evidence.hosts)
    counts = Counter(visit.url for visit in evidence.visits)
    normal = {f"http://{host.name}{path}" for host in evidence.hosts for path in (*host.busy, *host.flaky)}
    extra = sum(count - (2 if url in normal else 1) for url, count in counts.items())
    if extra > allowed:
        yield f"too many duplicates: {extra} for {len(evidence.deaths_us)} deaths: {json.dumps(counts)}"
