"""Bodies and headers made to cost: each limit has its mark or its failure, and the site beside it is crawled whole."""

import gzip
import random
import re
import threading
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Self

import pytest

from e2e.raw_site import RawCrawl, RawSites, Site, answer, ok
from limpet.testing.web import Pause, Step

MEBIBYTE = 1 << 20
PEAK_BYTES_MAX = 250 * MEBIBYTE
CONFIG = """
[retries]
base_seconds = 0.1
factor = 1.0

[fetching]
idle_seconds_max = 3.0
wall_seconds_max = 6.0
body_bytes_max = 40_000_000
throughput_bytes_per_second_min = 500
throughput_window_seconds = 1.0
"""
LINKED = b'<!doctype html><title>x</title><a href="/next">next</a>'
LONG = LINKED + b"<p>a line of a long page</p>\n" * 100_000
NOISE = bytes(range(256)) * 4_096  # 1 MiB
OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
CHUNKED = OPEN + b"Transfer-Encoding: chunked\r\n\r\n"


def with_length(body: bytes, *fields: bytes) -> bytes:
    return answer(b"200 OK", body, b"Content-Type: text/html", b"Content-Length: %d" % len(body), *fields)


def beyond_the_limit() -> list[Step]:
    return [OPEN + b"Content-Length: 2000000000\r\n\r\n" + LINKED, *repeat(NOISE, 60)]


def chunks_without_end() -> list[Step]:
    return [CHUNKED, b"%x\r\n%b\r\n" % (len(LINKED), LINKED), *repeat(b"100000\r\n" + NOISE + b"\r\n", 60)]


def dripping(start: bytes) -> list[Step]:
    return [start, *(step for _ in range(200) for step in (b"a", Pause(0.05)))]


def interims() -> Iterator[bytes]:
    yield from repeat(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 200)


BOMB = gzip.compress(bytes(60_000_000), 9, mtime=0)
MEMBERS = gzip.compress(LINKED, mtime=0) + gzip.compress(b"", mtime=0) * 20_000
SITES = {
    "good": Site({f"/{n}": with_length(LINKED) for n in range(6)} | {"/next": with_length(LINKED)}, ["/0", "/5"]),
    "long": Site({"/": with_length(LONG), "/next": ok(b"n"), "/gz": with_length(gzip.compress(LONG, 1))}, ["/"]),
    "length": Site({"/": beyond_the_limit(), "/next": ok(b"n")}),
    "chunks": Site({"/": chunks_without_end(), "/next": ok(b"n")}),
    "slow-body": Site({"/": dripping(OPEN + b"\r\n" + LINKED), "/next": ok(b"n")}),
    "slow-chunks": Site({"/": [CHUNKED, *(s for _ in range(200) for s in (b"1\r\na\r\n", Pause(0.05)))]}),
    "slow-head": Site({"/": dripping(b"HTTP/1.1 200 OK\r\nX-A: ")}),
    "silent": Site({"/": ["stall"]}),
    "interims": Site({"/": [*interims()]}),
    "header-bomb": Site({"/": [b"HTTP/1.1 200 OK\r\n", *repeat(b"X-A: " + b"a" * 8_000 + b"\r\n", 60)]}),
    "field-bomb": Site({"/": [b"HTTP/1.1 200 OK\r\n", *repeat(b"a:\r\n" * 1_000, 20), b"\r\n"]}),
    "extension-bomb": Site({"/": [CHUNKED, b"5;x=" + b"a" * 100_000 + b"\r\nhello\r\n0\r\n\r\n"]}),
    "trailer-bomb": Site({"/": [CHUNKED, b"5\r\nhello\r\n0\r\n", *repeat(b"X-A: " + b"a" * 8_000 + b"\r\n", 60)]}),
    "chain": Site({"/": with_length(LINKED, b"Content-Encoding: " + b", ".join([b"gzip"] * 50))}),
    "bomb": Site({"/": with_length(BOMB, b"Content-Encoding: gzip")}),
    "members": Site({"/": with_length(MEMBERS, b"Content-Encoding: gzip")}),
    "cut": Site(
        {"/": with_length(gzip.compress(random.Random(1).randbytes(MEBIBYTE), 1)[:-9], b"Content-Encoding: gzip")}
    ),
}


class WorkersWatched:
    """The most memory of the workers of one crawl, looked at while it runs.

    What the system tells at a process's end begins with the size of the process that started it.
    """

    def __init__(self, folder: Path) -> None:
        self.peak_bytes = 0
        self._folder = str(folder)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            told = {path.parent: words for path in Path("/proc").glob("[0-9]*/cmdline") if (words := _read(path))}
            ours = {path.name for path, words in told.items() if self._folder in words}
            workers = [path for path, words in told.items() if "limpet.embedded.worker" in words]
            for path in workers:
                if set(told[path].split("\0")) & ours:
                    high = re.search(r"VmHWM:\s+(\d+) kB", _read(path / "status"))
                    self.peak_bytes = max(self.peak_bytes, int(high[1]) * 1024 if high else 0)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it ended
        return ""


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """One crawl of all of them at once."""
    path = tmp_path_factory.mktemp("hostile")
    with RawSites(SITES) as sites, WorkersWatched(path / "crawl") as watched:
        words = ("--workers", "1", "--patience", "8s")
        crawl = RawCrawl(path, sites, *words, config=CONFIG)
        crawl.peak_bytes = watched.peak_bytes
        yield crawl


def test_the_site_beside_them_is_crawled_whole(crawl: RawCrawl) -> None:
    """What hostile pages cost is their own outcome."""
    assert crawl.result.code in {0, 3}, crawl.result
    assert [crawl.state("good", path) for path in ("/0", "/5", "/next")] == [("fetched", "")] * 3


def test_memory_stays_flat(crawl: RawCrawl) -> None:
    """Large bodies are on disk, bombs stop at the decoder's limit; nothing is left in the spool."""
    assert 20 * MEBIBYTE < crawl.peak_bytes < PEAK_BYTES_MAX
    assert list((crawl.folder / "run" / "spool").iterdir()) == []


def test_a_long_page_is_archived_whole_and_parsed(crawl: RawCrawl) -> None:
    """A page that went through the spool has every byte, the right digests, and its links."""
    assert crawl.state("long") == ("fetched", "")
    assert crawl.one("long").payload == LONG
    assert crawl.one("long").truncated == ""
    assert crawl.state("long", "/next") == ("fetched", "")


@pytest.mark.parametrize(
    ("site", "mark", "bytes_min"),
    [("length", "length", 40_000_000), ("chunks", "length", 39_000_000), ("slow-body", "time", 60)],
)
def test_wire_limits_keep_what_arrived_and_mark_it(crawl: RawCrawl, site: str, mark: str, bytes_min: int) -> None:
    """WARC-Truncated says why; what came is parsed."""
    assert crawl.state(site) == ("fetched", "truncated")
    stored = crawl.one(site)
    assert stored.truncated == mark
    assert len(stored.payload) >= bytes_min
    assert crawl.state(site, "/next")[0] == "fetched"


def test_chunks_that_drip_are_cut_for_their_pace(crawl: RawCrawl) -> None:
    """The least throughput ends it long before the wall does: a second, not six."""
    stored = crawl.one("slow-chunks")
    assert stored.truncated == "time"
    assert set(stored.payload) == {ord("a")}
    assert len(stored.payload) < 60


@pytest.mark.parametrize(
    ("site", "state", "reason"),
    [
        ("slow-head", "failed", "timeout"),
        ("silent", "failed", "timeout"),
        ("interims", "failed", "protocol"),
        ("header-bomb", "failed", "protocol"),
        ("field-bomb", "failed", "protocol"),
    ],
)
def test_a_head_that_never_ends_is_no_answer(crawl: RawCrawl, site: str, state: str, reason: str) -> None:
    """Slow heads are retried like any timeout; heads beyond the bounds are not HTTP worth asking for again."""
    assert crawl.state(site) == (state, reason)


def test_an_endless_chunk_extension_is_a_cut_body(crawl: RawCrawl) -> None:
    """It breaks the body off, before any content."""
    assert {stored.truncated for stored in crawl.stored("extension-bomb")} == {"disconnect"}
    assert crawl.state("extension-bomb") == ("fetched", "truncated")
    assert crawl.stored("extension-bomb")[-1].payload == b""


def test_endless_trailers_leave_the_body_whole(crawl: RawCrawl) -> None:
    """After the last chunk everything is there: no mark, no second request."""
    assert crawl.state("trailer-bomb") == ("fetched", "")
    assert (crawl.one("trailer-bomb").truncated, crawl.one("trailer-bomb").payload) == ("", b"hello")


@pytest.mark.parametrize(
    ("site", "flag"), [("bomb", "decoded_limit"), ("members", "decoded_limit"), ("chain", "decoded_limit")]
)
def test_decoded_limits_stop_the_parser_only(crawl: RawCrawl, site: str, flag: str) -> None:
    """Wire bytes are kept whole and unmarked; the parse says where it stopped."""
    assert crawl.state(site) == ("fetched", "")
    assert crawl.one(site).truncated == ""
    flags = {flag for outcome in crawl.show(site)["outcomes"] for flag in outcome["parsed"]["flags"]}
    assert flag in flags


def test_a_long_coded_body_that_is_cut_is_tried_again_and_stands(crawl: RawCrawl) -> None:
    """The framing was whole, the coding was not: also where the body is on disk."""
    assert crawl.state("cut") == ("fetched", "truncated")
    assert len(crawl.stored("cut")) == 3


def test_archive_and_rows_agree(crawl: RawCrawl) -> None:
    """`verify --links` and `audit` have nothing to say against it."""
    assert crawl.verify() == []
    assert crawl.audit() == []
