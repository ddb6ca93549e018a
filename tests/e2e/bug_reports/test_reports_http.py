"""Reports G01 to G06, G12, G21: HTTP as servers speak it, through the command line, checked in the WARC."""

import base64
import hashlib
from collections.abc import Iterator, Mapping

import pytest

from e2e.bug_reports.shared_inputs import CONFIG, LINKED, PATIENCE, TRIES_MAX, B, chunked, cut_at, whole
from e2e.raw_site import Answer, RawCrawl, RawSites, Site, moved
from limpet.testing.web import Ending

STATUS_LINES = {
    "no-reason": (b"HTTP/1.1 200", 200),
    "no-reason-blank": (b"HTTP/1.1 200 ", 200),
    "lower-case": (b"http/1.1 200 OK", 200),
    "mixed-case": (b"Http/1.0 200 ok", 200),
    "no-version": (b"HTTP 200 Document follows", 200),
    "two": (b"HTTP/2 200", 200),
    "blanks": (b"HTTP/1.1   200   OK", 200),
    "utf8-reason": (b"HTTP/1.1 200 Tr\xc3\xa8s bien", 200),
}
BROKEN_LINES = {
    "no-number": b"HTTP/1.1 abc OK",
    "no-status": b"HTTP/1.1",
    "icy": b"ICY 200 OK",
    "two-digits": b"HTTP/1.1 20 OK",
}
FIELDS = {
    "control": b"Set-Cookie: a=b\x01c",
    "nul": b"X-A: a\x00b",
    "cr": b"X-A: a\rb",
    "gbk": b"Content-Disposition: attachment; filename=\xcf\xc2\xd4\xd8.txt",
    "cp1251-type": b'X-Name: \xcf\xf0\xe8\xe2\xe5\xf2; file="\xef.html"',
    "latin-name": b"X-\xe9: 1",
    "no-colon": b"just some words",
    "folded": b"Content-Security-Policy: default-src 'self';\r\n  img-src *\r\nX-After: 1",
    "folded-tab": b"X-A: one\r\n\ttwo\r\n\t\tthree",
    "fold-first": b" X-A: 1",
    "long-9000": b"X-A: " + b"a" * 9_000,
    "long-70000": b"X-A: " + b"a" * 70_000,
    "many": b"\r\n".join(b"X-%d: 1" % number for number in range(500)),
}
SHORT: dict[str, tuple[bytes, bytes, Ending]] = {
    "length": (cut_at(100, LINKED), LINKED, "close"),
    "length-reset": (cut_at(100, LINKED), LINKED, "reset"),
    "no-last-chunk": (chunked(b"15\r\n" + LINKED + b"\r\n"), LINKED, "close"),
    "inside-chunk": (chunked(b"40\r\n" + LINKED), LINKED, "close"),
    "chunk-reset": (chunked(b"40\r\n" + LINKED), LINKED, "reset"),
    "nothing-of-it": (cut_at(5, b""), b"", "close"),
}
EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
BODYLESS = {
    "204-length": (b"HTTP/1.1 204 No Content\r\nContent-Length: 42\r\n\r\n", EVIL, 204),
    "204-chunked": (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", b"4\r\nEVIL\r\n0\r\n\r\n", 204),
    "304": (b"HTTP/1.1 304 Not Modified\r\nConnection: keep-alive\r\n\r\n", b"test", 304),
    "304-length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", b"EVIL", 304),
    "200-stray": (whole(B, b"HTTP/1.1 200 OK", b"Connection: keep-alive"), EVIL, 200),
    "chunked-stray": (chunked(b"c\r\n" + B + b"\r\n0\r\n\r\n"), EVIL, 200),
}
INTERIM = {
    "103": b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
    "100": b"HTTP/1.1 100 Continue\r\n\r\n",
    "102-103": b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\n",
    "100-blank": b"HTTP/1.1 100\r\n\r\n\r\n",
}
JUNK = {
    "page": B,
    "five": b"moom\n",
    "one": b"x",
    "binary": b"\x16\x03\x01\x02\x00\x01",
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "almost": b"HTTPS is not HTTP\r\n\r\n",
}
LOCATIONS = {
    "utf8": (b"/fa/\xd8\xa7\xd8\xb9", "/fa/%D8%A7%D8%B9"),
    "latin1": (b"/caf\xe9", "/caf%E9"),
    "blanks": (b"/a b?c=d e", "/a%20b?c=d%20e"),
    "gbk-query": (b"/s?q=\xcf\xc2", "/s?q=%CF%C2"),
    "encoded-and-raw": (b"/%C3%BC/\xfc", "/%C3%BC/%FC"),
    "relative": (b"d\xe9j\xe0/vu", "/from/d%E9j%E0/vu"),
    "quote": (b'/x"y<z>', "/x%22y%3Cz%3E"),
    "absolute": (b"http://@AUTHORITY@/\xe2\x80\x93.jpg", "/%E2%80%93.jpg"),
}
CHUNKINGS = {
    "two-chunks": b"5\r\n<p>he\r\n7\r\nllo</p>\r\n0\r\n\r\n",
    "one-chunk": b"c\r\n<p>hello</p>\r\n0\r\n\r\n",
    "extensions": b"C;a=b\r\n<p>hello</p>\r\n0;last\r\n\r\n",
    "trailers": b"c\r\n<p>hello</p>\r\n0\r\nX-Checksum: 1\r\n\r\n",
    "single-bytes": b"".join(b"1\r\n%c\r\n" % byte for byte in B) + b"0\r\n\r\n",
    "zeros": b"00c\r\n<p>hello</p>\r\n000\r\n\r\n",
}
B_DIGEST = "sha1:EH2SPSI2J7IA53E7X7MLVOIBNGZPXYIP"

RAW_404 = whole(B, b"HTTP/1.1 404 Art\xc3\xadculo no encontrado", b"Set-Cookie: \xb3\xd2\xda\xcd=1; path=/")
TARGETS = frozenset(target for _, target in LOCATIONS.values())


def page(field: bytes) -> bytes:
    """A page with one more field."""
    return whole(LINKED, b"HTTP/1.1 200 OK", field)


def named(answers: Mapping[str, Answer], then: Mapping[str, Answer] | None = None) -> Site:
    """A site that answers `/name` as `answers` says, all of them seeds, and `then` what they lead to."""
    found = {f"/{name}": answer for name, answer in answers.items()}
    return Site({**found, **(then or {})}, seeds=list(found))


SITES = {
    "status": named({name: whole(LINKED, line) for name, (line, _) in STATUS_LINES.items()}),
    "broken": named({name: whole(B, line) for name, line in BROKEN_LINES.items()}),
    "fields": named({name: page(field) for name, field in FIELDS.items()}),
    "raw-404": named({"": RAW_404}),
    "endless-head": named({"": (b"HTTP/1.1 200 OK\r\nX-A: ", *[b"a" * 65_536] * 64)}),
    "short": named({name: (wire, ending) for name, (wire, _, ending) in SHORT.items()}),
    "bodyless": named(
        {**{name: (head + stray, "stall") for name, (head, stray, _) in BODYLESS.items()}, "2": whole(B)}
    ),
    "interim": named({name: lines + whole(LINKED) for name, lines in INTERIM.items()}),
    "junk": named({**JUNK, "good": whole(B)}),
    "location": named(
        {f"from/{name}": moved(location) for name, (location, _) in LOCATIONS.items()}, dict.fromkeys(TARGETS, whole(B))
    ),
    "chunked": named({name: chunked(body) for name, body in CHUNKINGS.items()}),
}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """One crawl of all of it."""
    with RawSites(SITES) as sites:
        yield RawCrawl(tmp_path_factory.mktemp("wire"), sites, *PATIENCE, "--workers", "2", config=CONFIG)


def sha1(data: bytes) -> str:
    """As WARC fields have it."""
    return "sha1:" + base64.b32encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()


def assert_kept(crawl: RawCrawl, name: str, target: str, wire: bytes, payload: bytes) -> None:
    """Asked once, stored once: the block is the wire, both digests hold, no truncation mark."""
    assert crawl.sites.asked(name).count(target) == 1
    record = crawl.one(name, target)
    assert record.block == wire
    assert record.block_digest == sha1(wire)
    assert record.payload_digest == sha1(payload)
    assert (record.payload, record.truncated) == (payload, "")


@pytest.mark.parametrize("name", STATUS_LINES)
def test_g01_odd_status_lines_are_success_and_kept(crawl: RawCrawl, name: str) -> None:
    """Fetched with the status that was sent; the record begins with the line byte for byte; links were read."""
    line, status = STATUS_LINES[name]
    assert crawl.state("status", f"/{name}") == ("fetched", "")
    assert_kept(crawl, "status", f"/{name}", whole(LINKED, line), LINKED)
    outcome = crawl.show("status", f"/{name}")["outcomes"][0]
    assert (outcome["status"], outcome["parsed"]["links"]) == (status, 1)
    assert crawl.sites.asked("status").count("/linked") == 1


@pytest.mark.parametrize("name", BROKEN_LINES)
def test_g01_a_line_without_a_status_fails_once(crawl: RawCrawl, name: str) -> None:
    """One recorded failure of class protocol: no record, no second try."""
    assert crawl.state("broken", f"/{name}") == ("failed", "protocol")
    assert crawl.sites.asked("broken").count(f"/{name}") == 1
    assert crawl.stored("broken", f"/{name}") == []


@pytest.mark.parametrize("name", FIELDS)
def test_g02_g06_odd_fields_cost_nothing(crawl: RawCrawl, name: str) -> None:
    """Control bytes, NUL, foreign bytes, folds, long values: fetched, read, and in the record as they came."""
    assert crawl.state("fields", f"/{name}") == ("fetched", "")
    assert_kept(crawl, "fields", f"/{name}", page(FIELDS[name]), LINKED)
    assert crawl.show("fields", f"/{name}")["outcomes"][0]["parsed"]["links"] == 1


def test_g02_a_status_is_what_the_server_said(crawl: RawCrawl) -> None:
    """Raw bytes in reason and cookie name: gone with the server's own 404, archived as it came."""
    assert crawl.state("raw-404") == ("gone", "http_404")
    assert crawl.show("raw-404")["outcomes"][0]["status"] == 404
    assert_kept(crawl, "raw-404", "/", RAW_404, B)


def test_g06_a_fold_is_one_value_with_the_field_behind_it(crawl: RawCrawl) -> None:
    """The folded policy reads as one line with a space, and X-After was seen."""
    headers = dict(crawl.one("fields", "/folded").headers)
    assert headers[b"Content-Security-Policy"] == b"default-src 'self'; img-src *"
    assert headers[b"X-After"] == b"1"


def test_g06_a_header_that_never_ends_is_stopped_at_the_limit(crawl: RawCrawl) -> None:
    """`header_bytes_max`: failed with that reason after one request, and not by waiting for the rest."""
    assert crawl.state("endless-head") == ("failed", "protocol")
    (outcome,) = crawl.show("endless-head")["outcomes"]
    assert outcome["detail"].startswith("header too large")
    assert outcome["duration_us"] < 1_000_000
    assert crawl.stored("endless-head") == []


@pytest.mark.parametrize("name", SHORT)
def test_g03_a_cut_body_is_kept_marked_and_tried_again(crawl: RawCrawl, name: str) -> None:
    """The block is exactly what came, the wrong length included; marked; tried three times, never a plain success."""
    wire, payload, _ = SHORT[name]
    assert crawl.state("short", f"/{name}") == ("fetched", "truncated")
    outcomes = crawl.show("short", f"/{name}")["outcomes"]
    assert [outcome["truncated"] for outcome in outcomes] == ["disconnect"] * TRIES_MAX
    assert crawl.sites.asked("short").count(f"/{name}") == TRIES_MAX
    for record in crawl.stored("short", f"/{name}"):
        assert (record.block, record.payload) == (wire, payload)
        assert record.truncated == "disconnect"
        assert (record.block_digest, record.payload_digest) == (sha1(wire), sha1(payload))
        assert record.fields["Content-Length"] == str(len(wire))


def test_g03_links_of_a_cut_page_are_used(crawl: RawCrawl) -> None:
    """What is there of a page is a page."""
    assert crawl.sites.asked("short").count("/linked") == 1


@pytest.mark.parametrize("name", BODYLESS)
def test_g04_stray_bytes_are_nobodys_body(crawl: RawCrawl, name: str) -> None:
    """What follows a response that has ended is neither stored with it nor taken for the next one."""
    head, stray, status = BODYLESS[name]
    record = crawl.one("bodyless", f"/{name}")
    assert (record.status, record.block, record.truncated) == (status, head, "")
    assert stray not in record.block
    assert crawl.sites.asked("bodyless").count(f"/{name}") == 1


def test_g04_the_next_url_has_its_own_answer(crawl: RawCrawl) -> None:
    """And EVIL is in no record of the crawl."""
    assert crawl.state("bodyless", "/2") == ("fetched", "")
    assert_kept(crawl, "bodyless", "/2", whole(B), B)
    assert not [url for url, records in crawl.archive.items() for record in records if b"EVIL" in record.block]


@pytest.mark.parametrize("name", INTERIM)
def test_g04_an_interim_response_is_not_the_answer(crawl: RawCrawl, name: str) -> None:
    """100, 102 and 103 are passed over; the record is that of the final response."""
    assert crawl.state("interim", f"/{name}") == ("fetched", "")
    assert_kept(crawl, "interim", f"/{name}", whole(LINKED), LINKED)


def test_g04_nothing_but_get_is_ever_sent(crawl: RawCrawl) -> None:
    """So no answer to a HEAD can be mistaken; and each request has its own connection, which it says."""
    heads = [head for name in SITES for head in crawl.sites.heads(name)]
    assert len(heads) > 80
    assert all(head.startswith(b"GET ") and b"\r\nConnection: close\r\n" in head for head in heads)
    assert all(crawl.sites.connections(name) == len(crawl.sites.heads(name)) for name in SITES)


@pytest.mark.parametrize("name", JUNK)
def test_g05_what_is_not_http_fails_once_with_its_byte_count(crawl: RawCrawl, name: str) -> None:
    """No invented status line, no record, no retry; the operator sees how many bytes came."""
    assert crawl.state("junk", f"/{name}") == ("failed", "protocol")
    (outcome,) = crawl.show("junk", f"/{name}")["outcomes"]
    count = len(JUNK[name])
    assert outcome["detail"] == f"not HTTP, {count} {'byte' if count == 1 else 'bytes'} received"
    assert crawl.sites.asked("junk").count(f"/{name}") == 1
    assert crawl.stored("junk", f"/{name}") == []


def test_g05_the_host_is_not_punished(crawl: RawCrawl) -> None:
    """Another page of it is fetched, and nothing of it waits."""
    assert crawl.state("junk", "/good") == ("fetched", "")
    assert f"http://{crawl.sites.authority('junk')}" not in crawl.waits


@pytest.mark.parametrize("name", LOCATIONS)
def test_g12_raw_bytes_of_a_location_are_sent_back_as_they_are(crawl: RawCrawl, name: str) -> None:
    """Percent-encoded without a guess at their charset; the redirect's record keeps them raw."""
    location, target = LOCATIONS[name]
    assert crawl.sites.asked("location").count(target) == 1
    assert crawl.one("location", target).payload == B
    raw = location.replace(b"@AUTHORITY@", crawl.sites.authority("location").encode())
    assert b"\r\nLocation: " + raw + b"\r\n" in crawl.one("location", f"/from/{name}").block
    assert crawl.state("location", f"/from/{name}") == ("fetched", "")


def test_g12_nothing_else_was_asked_for(crawl: RawCrawl) -> None:
    """No second spelling of a target."""
    assert set(crawl.sites.asked("location")) == {f"/from/{name}" for name in LOCATIONS} | TARGETS


@pytest.mark.parametrize("name", CHUNKINGS)
def test_g21_the_payload_digest_leaves_the_chunking_out(crawl: RawCrawl, name: str) -> None:
    """One page, one payload digest, wherever the chunks end; the block keeps the framing."""
    assert_kept(crawl, "chunked", f"/{name}", chunked(CHUNKINGS[name]), B)
    assert crawl.one("chunked", f"/{name}").payload_digest == B_DIGEST


def test_the_archive_of_it_all_is_intact(crawl: RawCrawl) -> None:
    """`verify` and `audit` find nothing."""
    assert crawl.verify() == []
    assert crawl.audit() == []
