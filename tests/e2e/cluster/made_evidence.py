"""The evidence of a crawl in which nothing went wrong, made by hand: what anomalies are planted in."""

import gzip
import hashlib
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from e2e.cluster.archive import Record, records_of
from e2e.cluster.checkers import DESERVED, mark_of
from e2e.cluster.evidence import Announced, Evidence, Fact, Lag, Marks, Parse, Row
from e2e.cluster.truth import bodies
from origin.events import Requested
from origin.kill import KillWeb
from origin.visits import Visit
from origin.wire import Request, render

SEGMENT: Final = "limpet-20261130120000000-00001-aaaaaaaaaaaaaaaa.warc.gz"
BEGUN_US: Final = 1_796_040_000_000_000
SHARDS: Final = 4
SETS: Final = 3
END: Final = b"\r\n\r\n"


def small_web() -> KillWeb:
    """What was crawled."""
    return KillWeb(seed=3, port=8080, pages=120, hosts=3)


def segment_bytes() -> bytes:
    """The one file of its archive."""
    web = small_web()
    deserved = web.expected()
    return b"".join(_members(web, url, at) for at, url in enumerate(deserved) if deserved[url] != "denied")


def sound() -> Evidence:
    """A crawl of a small web: every record as a WARC writer leaves it, every row in its place."""
    web = small_web()
    deserved = web.expected()
    records, torn = records_of(SEGMENT, segment_bytes())
    assert not torn
    by_url = {record.url: record for record in records}
    rows = [_row(url, DESERVED[kind], by_url.get(url)) for url, kind in deserved.items()]
    facts = [_fact(record) for record in records]
    return Evidence(
        deserved=deserved,
        bodies=bodies(web),
        rows=rows,
        facts=facts,
        parses=[Parse(fact.fp, fact.fetched_us, accepted=True) for fact in facts],
        records=records,
        torn={},
        unsealed=[],
        announced=[Announced(record.url, record.date_us, record.place) for record in records],
        lags=[Lag("document.fetched", part, 10, 10) for part in range(SHARDS)],
        marks=[_marks(shard, rows) for shard in range(SHARDS)],
        visits=[_visit(record) for record in records],
    )


def _members(web: KillWeb, url: str, at: int) -> bytes:
    """A request and its response, one gzip member each."""
    date = datetime.fromtimestamp(BEGUN_US / 1e6 + at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    asked = b"GET / HTTP/1.1" + END
    return _member("request", url, date, asked) + _member("response", url, date, _wire(web, url))


def _wire(web: KillWeb, url: str) -> bytes:
    parts = urlsplit(url)
    host = parts.hostname or ""
    answer = web.answer(Request("GET", parts.path, host, parts.netloc, {b"accept-encoding": b"gzip"}))
    if answer.raw is not None:
        return b"".join(step for step in answer.raw if isinstance(step, bytes))
    return render(answer, date=b"Mon, 30 Nov 2026 12:00:00 GMT", retry_line=b"", close=True)


def _member(kind: str, url: str, date: str, block: bytes) -> bytes:
    fields = {"WARC-Type": kind, "WARC-Target-URI": url, "WARC-Date": date, "Content-Length": str(len(block))}
    head = "WARC/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    return gzip.compress(head.encode() + block + END, mtime=0)


def fp_of(url: str) -> bytes:
    """Any fingerprint will do."""
    return hashlib.md5(url.encode(), usedforsecurity=False).digest()


def _row(url: str, state: str, record: Record | None) -> Row:
    host = urlsplit(url).hostname or ""
    shard = fp_of(host)[0] % SHARDS
    return Row(fp_of(url), url, url, host, shard, state, latest_us=record.date_us if record else 0)


def _fact(record: Record) -> Fact:
    return Fact(
        fp_of(record.url), record.date_us, record.url, record.status, record.place, payload_sha256=record.payload_sha256
    )


def _marks(shard: int, rows: list[Row]) -> Marks:
    return Marks(shard, SETS, frozenset(mark_of(row.fp, SETS) for row in rows if row.shard == shard))


def _visit(record: Record) -> Visit:
    parts = urlsplit(record.url)
    t_ns = record.date_us * 1000
    host = parts.hostname or ""
    asked = Requested(t_ns, t_ns, 1, 1, host, parts.netloc, "GET", parts.path, "", "limpet/1", False, False)
    return Visit(asked, t_ns, t_ns, record.status, None, complete=True)
