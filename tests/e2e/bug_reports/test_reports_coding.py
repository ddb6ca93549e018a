"""Reports G07 to G10: content codings that are absent, damaged, of two kinds, or bombs."""

import gzip
import zlib
from collections.abc import Iterator

import pytest

from e2e.bug_reports.shared_inputs import CONFIG, LINKED, PATIENCE, TRIES_MAX, B, whole
from e2e.raw_site import Answer, RawCrawl, RawSites, Site, answer, ok
from limpet.testing.web import Step

GZIP = b"Content-Encoding: gzip"
DEFLATE = b"Content-Encoding: deflate"
MEBIBYTE = 1 << 20
BOMB_BYTES = 2 << 30
PEAK_BYTES_MAX = 300 * MEBIBYTE


def gz(data: bytes) -> bytes:
    """One gzip member."""
    return gzip.compress(data, mtime=0)


def raw_deflate(data: bytes) -> bytes:
    """Deflate without the zlib wrapping."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def damaged_after(data: bytes) -> bytes:
    """A gzip member whose second block is of a type that does not exist."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return gz(b"")[:10] + packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH) + b"\xff" * 40


ABSENT = {"plain": LINKED, "empty-lines": b"\r\n\r\n" + LINKED, "almost": b"\x1f " + LINKED}
FILLING = b"".join(b"<p>%d</p>" % (number * number) for number in range(400))
DAMAGED = {  # coded bytes, and the flag of their parse
    "trailing": (gz(LINKED) + b"\n\n<!-- x -->", "trailing_bytes"),
    "trailing-zeros": (gz(LINKED) + bytes(40), "trailing_bytes"),
    "wrong-checksum": (gz(LINKED)[:-8] + b"\0\0\0\0" + gz(LINKED)[-4:], "coding_error"),
    "wrong-length": (gz(LINKED)[:-4] + b"\xff\xff\xff\xff", "coding_error"),
    "damaged-inside": (damaged_after(LINKED + FILLING), "coding_error"),
}
CUT = {
    "end": gz(LINKED + FILLING)[:-12],
    "trailer": gz(LINKED + FILLING)[:-3],
    "half": gz(LINKED + FILLING)[: len(gz(LINKED + FILLING)) // 2],
}
TWO_KINDS = {"zlib": zlib.compress(LINKED), "raw": raw_deflate(LINKED), "raw-long": raw_deflate(LINKED + FILLING)}
WHOLE_KINDS = {
    "members": (gz(LINKED[:7]) + gz(LINKED[7:]), GZIP),
    "x-gzip": (gz(LINKED), b"Content-Encoding: X-GZIP"),
    "twice": (gz(gz(LINKED)), b"Content-Encoding: gzip, gzip"),
    "identity": (LINKED, b"Content-Encoding: identity"),
    "none": (LINKED, b"Content-Encoding: none"),
}


def coded(data: bytes, *fields: bytes) -> bytes:
    """A page whose end is the end of the connection."""
    return answer(b"200 OK", data, b"Content-Type: text/html", b"Connection: close", *fields)


def named(prefix: str, answers: dict[str, Answer]) -> Site:
    """A site of which each answer is a seed."""
    found = {f"/{prefix}{name}": data for name, data in answers.items()}
    return Site({**found, "/next": whole(B)}, seeds=list(found))


REDIRECT = whole(B, b"HTTP/1.1 302 Found", b"Location: /next", GZIP)
SITES = {
    "redirect": named("", {"": REDIRECT}),
    "absent": named("", {name: coded(body, GZIP) for name, body in ABSENT.items()}),
    "damaged": named("", {name: coded(body, GZIP) for name, (body, _) in DAMAGED.items()}),
    "cut": named("", {name: coded(body, GZIP) for name, body in CUT.items()}),
    "deflate": named("", {name: coded(body, DEFLATE) for name, body in TWO_KINDS.items()}),
    "whole": named("", {name: coded(body, field) for name, (body, field) in WHOLE_KINDS.items()}),
}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """One crawl of all of it but the bombs."""
    with RawSites(SITES) as sites:
        yield RawCrawl(tmp_path_factory.mktemp("coding"), sites, *PATIENCE, "--workers", "2", config=CONFIG)


def flags(crawl: RawCrawl, name: str, target: str) -> list[list[str]]:
    """Parse flags of each outcome of a URL."""
    return [outcome["parsed"]["flags"] for outcome in crawl.show(name, target)["outcomes"] if outcome["parsed"]]


def test_g07_a_redirect_is_followed_whatever_its_body_is(crawl: RawCrawl) -> None:
    """Marked gzip, not gzip: nobody needs it. The record is what was received."""
    assert crawl.state("redirect") == ("fetched", "")
    assert crawl.sites.asked("redirect") == ["/", "/next"]
    assert crawl.one("redirect").block == REDIRECT


@pytest.mark.parametrize("name", ABSENT)
def test_g07_a_page_that_only_says_gzip_is_read_as_it_is(crawl: RawCrawl, name: str) -> None:
    """Raw bytes and header kept, links found, flagged, asked for once."""
    assert crawl.state("absent", f"/{name}") == ("fetched", "")
    assert crawl.one("absent", f"/{name}").block == coded(ABSENT[name], GZIP)
    assert flags(crawl, "absent", f"/{name}") == [["coding_absent"]]
    assert crawl.sites.asked("absent").count(f"/{name}") == 1
    assert crawl.sites.asked("absent").count("/linked") == 1


@pytest.mark.parametrize("name", DAMAGED)
def test_g08_damage_is_flagged_and_what_decodes_is_read(crawl: RawCrawl, name: str) -> None:
    """Exact wire bytes, no truncation mark since the transport was complete, no second request."""
    body, flag = DAMAGED[name]
    record = crawl.one("damaged", f"/{name}")
    assert (record.block, record.truncated) == (coded(body, GZIP), "")
    assert crawl.state("damaged", f"/{name}") == ("fetched", "")
    (shown,) = crawl.show("damaged", f"/{name}")["outcomes"]
    assert shown["parsed"] == {"links": 1, "flags": [flag]}
    assert crawl.sites.asked("damaged").count(f"/{name}") == 1


@pytest.mark.parametrize("name", CUT)
def test_g08_a_cut_coding_is_no_plain_success(crawl: RawCrawl, name: str) -> None:
    """Tried three times, then visible as truncated; the record is unmarked, for its transport was complete."""
    assert crawl.state("cut", f"/{name}") == ("fetched", "truncated")
    outcomes = crawl.show("cut", f"/{name}")["outcomes"]
    assert [outcome["detail"] for outcome in outcomes] == ["content coding cut short"] * TRIES_MAX
    assert outcomes[-1]["parsed"] == {"links": 1, "flags": ["coding_incomplete"]}
    for record in crawl.stored("cut", f"/{name}"):
        assert (record.block, record.truncated) == (coded(CUT[name], GZIP), "")


@pytest.mark.parametrize("name", TWO_KINDS)
def test_g09_both_kinds_of_deflate_are_read(crawl: RawCrawl, name: str) -> None:
    """With zlib's wrapping or without; the payload digest is over the coded bytes."""
    record = crawl.one("deflate", f"/{name}")
    assert (record.block, record.payload) == (coded(TWO_KINDS[name], DEFLATE), TWO_KINDS[name])
    (shown,) = crawl.show("deflate", f"/{name}")["outcomes"]
    assert shown["parsed"] == {"links": 1, "flags": []}


@pytest.mark.parametrize("name", WHOLE_KINDS)
def test_g09_other_right_codings_are_read(crawl: RawCrawl, name: str) -> None:
    """Several members, old names, chains, and names for no coding at all."""
    body, field = WHOLE_KINDS[name]
    assert crawl.one("whole", f"/{name}").block == coded(body, field)
    (shown,) = crawl.show("whole", f"/{name}")["outcomes"]
    assert shown["parsed"]["links"] == 1


def bomb(start: bytes) -> bytes:
    """A gzip member of 2 GiB of zeros behind `start`, made from one compressed mebibyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(MEBIBYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    end = b"\x03\x00" + (0).to_bytes(4, "little") + (len(start) & 0xFFFF_FFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + head + block * (BOMB_BYTES // MEBIBYTE) + end


PAGE_BOMB = bomb(LINKED)
TWICE = gz(PAGE_BOMB)
MANY_MEMBERS = gz(LINKED) + gz(b"") * 20_000
SITEMAP_BOMB = bomb(b"<?xml version='1.0'?><urlset>")
ROBOTS_BOMB = bomb(b"User-agent: *\nDisallow: /secret/\n")


def sent(data: bytes, field: bytes = GZIP, kind: bytes = b"Content-Type: text/html") -> tuple[Step, ...]:
    """A coded answer with its length."""
    return (whole(data, b"HTTP/1.1 200 OK", kind, field),)


BOMBS = {
    "page": Site({"/": sent(PAGE_BOMB)}),
    "twice": Site({"/": sent(TWICE, b"Content-Encoding: gzip, gzip")}),
    "members": Site({"/": sent(MANY_MEMBERS)}),
    "sitemap": Site(
        {"/sitemap.xml.gz": sent(SITEMAP_BOMB, b"X-A: 1", b"Content-Type: application/gzip")}, ["/sitemap.xml.gz"]
    ),
    "robots": Site(
        {"/robots.txt": sent(ROBOTS_BOMB, kind=b"Content-Type: text/plain"), "/": ok(B), "/secret/x": ok(B)},
        ["/", "/secret/x"],
    ),
    "decent": Site({f"/{number}": ok(B) for number in range(40)}, [f"/{number}" for number in range(40)]),
}


@pytest.fixture(scope="module")
def bombed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawCrawl]:
    """One crawl of the bombs and a decent site, by one worker."""
    with RawSites(BOMBS) as sites:
        yield RawCrawl(tmp_path_factory.mktemp("bombs"), sites, *PATIENCE, "--workers", "1", config=CONFIG)


@pytest.mark.parametrize(("name", "wire"), [("page", PAGE_BOMB), ("twice", TWICE), ("members", MANY_MEMBERS)])
def test_g10_a_bomb_is_stored_whole_and_defused(bombed: RawCrawl, name: str, wire: bytes) -> None:
    """Its wire bytes are small and kept without a mark; decoding stops at the limit, which is said."""
    record = bombed.one(name)
    assert record.payload == wire
    assert record.truncated == ""
    assert bombed.state(name) == ("fetched", "")
    assert flags(bombed, name, "/") == [["decoded_limit"]]


def test_g10_what_comes_before_the_limit_is_read(bombed: RawCrawl) -> None:
    """The link at the head of the bomb was followed."""
    assert bombed.sites.asked("page").count("/linked") == 1


def test_g10_a_bomb_of_a_sitemap_is_one_more_record(bombed: RawCrawl) -> None:
    """Whoever reads sitemaps reads them within limits."""
    assert bombed.state("sitemap", "/sitemap.xml.gz") == ("fetched", "")
    assert bombed.one("sitemap", "/sitemap.xml.gz").payload == SITEMAP_BOMB


def test_g10_a_bomb_of_a_robots_txt_allows_nothing_that_its_head_forbids(bombed: RawCrawl) -> None:
    """It is a file cut at the limit of parsing, not "allow all"."""
    assert bombed.state("robots", "/secret/x") == ("denied", "Disallow: /secret/")
    assert bombed.sites.asked("robots") == ["/"]
    assert bombed.one("robots", "/robots.txt").truncated in {"", "length"}


def test_g10_memory_stays_flat_and_others_are_served(bombed: RawCrawl) -> None:
    """2 GiB are in none of the processes; every page of the decent site is there."""
    assert bombed.peak_bytes < PEAK_BYTES_MAX
    assert len(bombed.sites.asked("decent")) == 40
    assert {bombed.state("decent", f"/{number}") for number in range(40)} == {("fetched", "")}


def test_the_archive_of_it_all_is_intact(crawl: RawCrawl, bombed: RawCrawl) -> None:
    """`verify` and `audit` find nothing."""
    assert crawl.verify() == crawl.audit() == bombed.verify() == bombed.audit() == []
