"""Other people's tools judge revisit records: jwarc and warcio find nothing wrong, pywb replays the content."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.crawl_maker import Sent, answer, make_crawl, robots
from integration.judges import Replay, jwarc_validate, warcio_check
from integration.planting import segments_in

pytestmark = pytest.mark.slow

TEXT = b"<p>the same content, however it comes</p>"
PACKED = gzip.compress(TEXT, mtime=0)
HTML = b"Content-Type: text/html"
PAGE, CODED, COPY, BIG = "http://a.test/page", "http://a.test/coded", "http://b.test/copy", "http://b.test/big"


def chunked(body: bytes, *fields: bytes) -> bytes:
    """The same entity in chunks."""
    head = b"\r\n".join([b"HTTP/1.1 200 OK", HTML, *fields, b"Transfer-Encoding: chunked", b"", b""])
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


SENT = (
    robots(0),
    robots(0, host="b.test"),
    Sent(url=PAGE, at=10, wire=answer(200, TEXT, HTML, b'ETag: "1"'), again=True),
    Sent(url=PAGE, at=20, wire=b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n', revisits=PAGE),
    Sent(url=CODED, at=30, wire=answer(200, PACKED, HTML, b"Content-Encoding: gzip")),
    Sent(url=COPY, at=40, wire=answer(200, TEXT, HTML), revisits=PAGE),
    Sent(url=BIG, at=50, wire=chunked(PACKED, b"Content-Encoding: gzip"), revisits=CODED),
)


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One segment with responses, a 304, and repeated content: plain, and chunked and coded."""
    return segments_in(make_crawl(tmp_path_factory.mktemp("revisits") / "crawl", SENT))[0]


def test_jwarc_finds_nothing_wrong(segment: Path) -> None:
    """Profiles, references, digests and truncation are as it knows them; only WARC-Protocol is new to it."""
    assert [line for line in jwarc_validate(segment) if line.startswith("ERROR")] == []
    strict = {line for line in jwarc_validate(segment, "--forbid-extensions") if line.startswith("ERROR")}
    assert strict == {"ERROR: Unknown field: WARC-Protocol"}


def test_warcio_finds_nothing_wrong(segment: Path) -> None:
    """A revisit's payload digest is the original's, which it knows not to count over the block."""
    assert [line for line in warcio_check(segment) if re.search("failed|no digest", line)] == []


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory, segment: Path) -> Iterator[Replay]:
    """A server that replays the segment."""
    with Replay(tmp_path_factory.mktemp("pywb"), [segment]) as server:
        yield server


@pytest.mark.parametrize(
    ("url", "timestamp", "body"),
    [
        (PAGE, "20270115080010", TEXT),
        (PAGE, "20270115080020", TEXT),
        (COPY, "20270115080040", TEXT),
        (CODED, "20270115080030", PACKED),
        (BIG, "20270115080050", PACKED),
    ],
)
def test_pywb_replays_the_content_of_the_original(replay: Replay, url: str, timestamp: str, body: bytes) -> None:
    """Asked for the time of the revisit, it gives the original's entity, byte for byte; for a 304 too."""
    assert replay.ask(url, timestamp) == (200, body)
