"""Other people's tools judge one small crawl that holds every kind of answer: warcio, jwarc, pywb.

No single tool suffices, and none is right throughout: what they complain of without cause is counted and allowed by
name.
"""

import gzip
import json
import re
import socket
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from warcio.archiveiterator import ArchiveIterator

from e2e.bug_reports.shared_inputs import CONFIG, LINKED, PATIENCE, TRIES_MAX, B, chunked, cut_at, whole
from e2e.raw_site import Answer, RawCrawl, RawSites, Site, Stored, answer, moved, ok
from integration.judges import Replay, jwarc_validate, warcio_check

pytestmark = pytest.mark.slow

TEXT = b"Content-Type: text/plain"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))

PLAIN: dict[str, Answer] = {
    "": ok(b'<a href="/page?q=1&amp;b=%C3%BC">x</a>'),
    "length": whole(B),
    "close": answer(b"200 OK", B, TEXT),
    "empty": whole(b""),
    "gzip": whole(gzip.compress(LINKED, mtime=0), b"HTTP/1.1 200 OK", b"Content-Encoding: gzip"),
    "deflate": whole(zlib.compress(LINKED), b"HTTP/1.1 200 OK", b"Content-Encoding: deflate"),
    "not-gzip": whole(B, b"HTTP/1.1 200 OK", b"Content-Encoding: gzip"),
    "image": whole(PNG, b"HTTP/1.1 200 OK", b"Content-Type: image/png"),
    "latin-type": whole(b"caf\xe9", b"HTTP/1.1 200 OK", b"Content-Type: text/plain; charset=iso-8859-1"),
    "no-type": whole(b"just text"),
    "big": whole(bytes(range(256)) * 4_000, b"HTTP/1.1 200 OK", b"Content-Type: application/octet-stream"),
    "redirect": moved(b"/length"),
    "404": whole(b"gone", b"HTTP/1.1 404 Not Found", TEXT),
    "410": whole(b"", b"HTTP/1.1 410 Gone"),
    "403": whole(b"no", b"HTTP/1.1 403 Forbidden", TEXT),
    "204": answer(b"204 No Content"),
    "304": answer(b"304 Not Modified", b"", b'ETag: "x"'),
    "long-header": whole(B, b"HTTP/1.1 200 OK", b"X-A: " + b"a" * 9_000),
    "many-headers": whole(B, b"HTTP/1.1 200 OK", *[b"X-%d: %d" % (n, n) for n in range(90)]),
    "interim": answer(b"103 Early Hints", b"", b"Link: </a.css>") + whole(B),
    "inner-warc": answer(b"200 OK", b"WARC/1.1\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n", TEXT),
}
CHUNKED: dict[str, Answer] = {
    "chunked": chunked(b"5\r\n<p>he\r\n7\r\nllo</p>\r\n0\r\n\r\n"),
    "chunked-gzip": answer(
        b"200 OK",
        b"%x\r\n" % len(gzip.compress(B, mtime=0)) + gzip.compress(B, mtime=0) + b"\r\n0\r\n\r\n",
        b"Content-Encoding: gzip",
        b"Transfer-Encoding: chunked",
    ),
    "chunked-trailer": chunked(b"c\r\n" + B + b"\r\n0\r\nX-T: 1\r\n\r\n"),
}
ODD: dict[str, Answer] = {
    "no-reason": whole(B, b"HTTP/1.1 200"),
    "lower-case": whole(B, b"http/1.1 200 OK"),
    "no-version": whole(B, b"HTTP 200 Document follows"),
    "raw-reason": whole(B, b"HTTP/1.1 200 Tr\xc3\xa8s bien"),
    "control": whole(B, b"HTTP/1.1 200 OK", b"Set-Cookie: a=b\x01c"),
    "nul": whole(B, b"HTTP/1.1 200 OK", b"X-A: a\x00b"),
    "gbk": whole(B, b"HTTP/1.1 200 OK", b"Content-Disposition: attachment; filename=\xcf\xc2\xd4\xd8.txt"),
    "fold": whole(B, b"HTTP/1.1 200 OK", b"X-A: one\r\n two"),
    "line-feeds": b"HTTP/1.1 200 OK\nContent-Length: 12\n\n" + B,
}
CUT: dict[str, Answer] = {
    "short": cut_at(100, B),
    "cut-chunked": chunked(b"c\r\n" + B + b"\r\n"),
    "cut-inside": chunked(b"40\r\n" + B),
}
ALL = {**PLAIN, **CHUNKED, **ODD, **CUT}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """The crawl; the sites are gone when the tools judge."""
    answers = {f"/{name}": found for name, found in ALL.items()}
    with RawSites({"all": Site(answers, list(answers), default=ok(B))}) as sites:
        yield RawCrawl(
            tmp_path_factory.mktemp("validated"), sites, *PATIENCE, "--contact", "me@example.org", config=CONFIG
        )


Names = dict[tuple[str, int], str]
"""Segment and offset of each response record -> the name of its answer."""


@pytest.fixture(scope="module")
def names(crawl: RawCrawl) -> Names:
    """By our own indexes."""
    found: Names = {}
    for segment in crawl.segments:
        for line in segment.with_name(segment.name + ".cdxj").read_text().splitlines():
            entry = json.loads(line.split(" ", 2)[2])
            found[segment.name, int(entry["offset"])] = urlsplit(entry["url"]).path.removeprefix("/")
    return found


def faults(segments: Sequence[Path], names: Names) -> Counter[tuple[str, str]]:
    """What jwarc complains of: (answer, kind of complaint) -> how often."""
    found: Counter[tuple[str, str]] = Counter()
    for segment in segments:
        error = ""
        for line in jwarc_validate(segment):
            if line.startswith("ERROR: "):
                error = next((kind for kind in JWARC_KINDS if kind in line), line)
            elif match := re.match(r" *offset (\d+) .* failed", line):
                found[names.get((segment.name, int(match[1])), match[1]), error] += 1
    return found


def errors(segments: Sequence[Path], *words: str) -> Counter[str]:
    """The error lines of `jwarc validate`."""
    return Counter(line for segment in segments for line in jwarc_validate(segment, *words) if line.startswith("ERROR"))


JWARC_KINDS = (
    "invalid HTTP message at byte position 0",
    "invalid HTTP header Content-Length",
    "EOF reached before end of chunked encoding",
)
JWARC_ALLOWED = {
    ("lower-case", JWARC_KINDS[0]): 1,  # what the server sent, and RFC 9112 wants capitals
    ("short", JWARC_KINDS[1]): TRIES_MAX,
    ("cut-chunked", JWARC_KINDS[2]): TRIES_MAX,
    ("cut-inside", JWARC_KINDS[2]): TRIES_MAX,
}


def test_jwarc_finds_what_the_servers_did_wrong_and_nothing_else(crawl: RawCrawl, names: Names) -> None:
    """Every well-formed capture passes; a status line and lengths that are not, were so on the wire."""
    assert faults(crawl.segments, names) == JWARC_ALLOWED


def test_jwarc_knows_all_our_fields_but_one(crawl: RawCrawl) -> None:
    """With extensions forbidden only WARC-Protocol is new to it: in each response and request record."""
    strict, plain = errors(crawl.segments, "--forbid-extensions"), errors(crawl.segments)
    assert set(strict - plain) == {"ERROR: Unknown field: WARC-Protocol"}


def test_warcio_complains_of_chunked_payload_digests_only(crawl: RawCrawl, names: Names) -> None:
    """G21: it takes payload digests over the chunk framing; every other digest holds by its count."""
    failed: Counter[str] = Counter()
    complaints: list[str] = []
    for segment in crawl.segments:
        said = warcio_check(segment)[1:]  # the first line names the file, if there is anything to say
        for line in said:
            if match := re.match(r"  offset (\d+) WARC-Record-ID \S+ response", line):
                failed[names[segment.name, int(match[1])]] += 1
            elif not re.match(r"  offset \d+ WARC-Record-ID", line):
                complaints.append(line)
    cut = {name: TRIES_MAX for name in CUT if name != "short"}
    assert failed == {**dict.fromkeys(CHUNKED, 1), **cut}
    assert len(complaints) == failed.total()
    assert all(line.startswith("    payload digest failed sha1:") for line in complaints)


def test_the_warcinfo_record_tells_who_and_how_and_no_machine(crawl: RawCrawl) -> None:
    """Software, standard, robots policy, User-Agent, contact, scope, read by warcio; the host's name is nowhere."""
    segment = crawl.segments[0]
    with segment.open("rb") as stream:
        record = next(iter(ArchiveIterator(stream)))
        text = record.content_stream().read().decode()
    said = dict(line.split(": ", 1) for line in text.splitlines())
    assert record.rec_headers.get_header("WARC-Filename") == segment.name
    assert set(said) >= {"software", "format", "conformsTo", "robots", "scope", "isPartOf"}
    assert said["http-header-user-agent"].startswith("limpet/")
    assert said["http-header-user-agent"].endswith("(+me@example.org)")
    assert said["http-header-from"] == "me@example.org"
    assert socket.gethostname() not in text + str(record.rec_headers) + segment.name


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory, crawl: RawCrawl) -> Iterator[Replay]:
    """A server that replays the crawl."""
    with Replay(tmp_path_factory.mktemp("pywb"), crawl.segments) as server:
        yield server


PYWB_FAILS = {
    "no-version": 503,  # it cannot read the status line, which is as the server sent it
    "chunked-trailer": 200,  # it takes the trailer for a part of the body
}


def test_pywb_replays_what_the_server_sent(crawl: RawCrawl, replay: Replay) -> None:
    """By our own index, status and entity of each URL: content coding kept, transfer coding removed."""
    wrong: dict[str, int] = {}
    for name in ALL:
        latest: Stored = crawl.stored("all", f"/{name}")[-1]
        status, body = replay.ask(crawl.sites.url("all", f"/{name}"))
        if (status, body) != (latest.status, latest.payload):
            wrong[name] = status
    assert wrong == PYWB_FAILS
