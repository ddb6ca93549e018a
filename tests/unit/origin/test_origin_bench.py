"""The bench web has the size, links and compressibility that the speed figures speak of."""

import gzip
import hashlib
import zlib

import pytest

from origin import make_web
from origin.walk import _Links
from origin.web import Web
from origin.wire import Request


@pytest.fixture(scope="module")
def web() -> Web:
    return make_web("bench", seed=7, port=34567, templates=4)


def _body(web: Web, host: str, target: str, *, packed: bool) -> bytes:
    headers = {b"accept-encoding": b"gzip"} if packed else {}
    return web.answer(Request("GET", target, host, host, headers)).body


def _hosts(web: Web) -> list[str]:
    return [url.split("/")[2].partition(":")[0] for url in web.seeds()]


def test_a_thousand_loopback_hosts(web: Web) -> None:
    """Every host has an address of its own in 127/8, in canonical form."""
    hosts = _hosts(web)
    assert len(set(hosts)) == 1000
    assert all(host.startswith("127.") and all(len(part) == 3 for part in host.split(".")) for host in hosts)


@pytest.mark.parametrize("target", ["/", "/notes/0000001.html", "/notes/0000099.html"])
def test_size_links_and_gzip_figures(web: Web, target: str) -> None:
    """About 72 KB with 50 links, half of them to other hosts, and a third of the size on the wire."""
    for host in _hosts(web)[:3]:
        plain, packed = (_body(web, host, target, packed=packed) for packed in (False, True))
        assert 71_000 < len(plain) < 73_000
        assert 23_000 < len(packed) < 32_000
        assert 2.7 < len(plain) / len(gzip.compress(plain, 6)) < 3.3
        links = _Links(web.url(host, target))
        links.feed(plain.decode("ascii"))
        pages = [link for link in links.found if not link.endswith(".css")]
        assert len(pages) == 50
        assert sum(link.startswith(web.url(host)) for link in pages) in range(25, 28)


def test_gzip_bodies_are_one_valid_member(web: Web) -> None:
    """The assembled stream is a single gzip member with a right checksum, and holds the plain page."""
    for place, host in enumerate(_hosts(web)[::97]):
        target = f"/notes/{place + 1:07d}.html"
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        assert unpacker.decompress(_body(web, host, target, packed=True)) == _body(web, host, target, packed=False)
        assert unpacker.eof
        assert not unpacker.unused_data


def test_no_two_pages_are_alike(web: Web) -> None:
    """Every page has a digest of its own, though pages share their text."""
    digests = {
        hashlib.sha256(_body(web, host, f"/notes/{page:07d}.html", packed=True)).digest()
        for host in _hosts(web)[:20]
        for page in range(1, 20)
    }
    assert len(digests) == 20 * 19


def test_links_spread_through_the_text(web: Web) -> None:
    """No quarter of a page is without its share of links."""
    body = _body(web, _hosts(web)[0], "/notes/0000003.html", packed=False)
    quarter = len(body) // 4
    assert all(10 <= body[at : at + quarter].count(b"<a ") <= 15 for at in range(0, 4 * quarter, quarter))


def test_pages_take_no_memory_each() -> None:
    """A web of a hundred million pages is built as quickly as a small one is, since no page is stored."""
    web = make_web("bench", seed=7, port=34567, hosts=1000, pages=100_000, templates=1)
    assert len(_body(web, _hosts(web)[999], "/notes/0099999.html", packed=False)) > 71_000
