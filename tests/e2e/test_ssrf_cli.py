"""No path leads from a page of ours to an address that is not ours, through the command line.

A small network of loopback is owned. Its pages link, redirect, frame and embed, and its robots.txt files redirect, to
every other address that a crawler must not touch; listeners on some of them would notice a connection, and the archive
and the rows tell of the others that none was made.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address, ip_network
from typing import Self

import pytest

from e2e.in_thread import InThread
from e2e.raw_site import RawCrawl, RawSites, Site, moved, ok
from limpet.fetch.denylist import packed
from limpet.model.urls import split
from limpet.testing.proxy import FakeProxy

OURS = "127.0.9.128/25"
HOSTS = [
    # this machine, spelled in every way
    *("127.0.0.1", "127.0.0.2", "127.0.9.2", "127.1", "127.0.1", "127.255.255.254", "0.0.0.0", "0", "0.1.2.3"),  # noqa: S104 - refused
    *("2130706433", "017700000001", "0x7f000001", "0x7f.1", "0177.0.0.1", "0x7f.0.0x0.1", "127.0.2306"),
    *("2130708738", "0x7f000902"),
    *("localhost", "LOCALHOST.", "127.0.0.1.", "%31%32%37.0.0.1", "\uff11\uff12\uff17.0.0.1"),
    *("127\u30020\u30020\u30021", "127%2e0%2e0%2e1"),
    *("[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::127.0.0.1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:902]"),
    *("[::ffff:0:7f00:1]", "[::ffff:127.0.9.2]"),
    *("[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]"),
    *("[2a00:1450::5efe:7f00:1]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[fd00:ec2::254]"),
    # what clouds answer on, and networks of other people
    *("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.170.2", "100.100.100.200"),
    *("[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "168.63.129.16", "192.0.0.192"),
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1"),
    *("192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
    *("255.255.255.255", "[ff02::1]", "[2001:db8::1]", "[100::1]", "[3fff::1]", "[5f00::1]", "[4000::1]"),
]  # fmt: skip
SCHEMES = ["file:///etc/passwd", "gopher://127.0.0.1/", "ftp://127.0.0.1/", "dict://127.0.0.1:11211/", "//127.0.0.1/x"]
NOBODYS = "http://nobody.invalid/"
LISTENING = ["127.0.0.1", "127.0.0.2", "127.0.9.2", "::1"]


CONFIG = """
[politeness] # of servers that nobody will ever ask for anything
floor_seconds = 0.0
address_connections_max = 1000
address_starts_per_second_max = 0.0
"""


class Trap:
    """Listens on addresses that nobody may connect to, all on one port, and counts who does."""

    def __init__(self, hosts: list[str]) -> None:
        self.connections: list[str] = []
        self.port = 0
        self._hosts = hosts
        self._threads: list[threading.Thread] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for host in self._hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = self._stack.enter_context(socket.create_server((host, self.port), family=family))
            self._stack.callback(listener.shutdown, socket.SHUT_RDWR)
            self.port = listener.getsockname()[1]
            self._threads.append(threading.Thread(target=self._count, args=(host, listener), daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        for thread in self._threads:
            thread.join()

    def _count(self, host: str, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections.append(host)
            connection.close()


def ours(host: str) -> bool:
    """Whether a host is of the owned network."""
    return packed(host) is not None and ip_address(host) in ip_network(OURS)


def tricky_sites(port: int) -> dict[str, Site]:
    """A site of pages whose links and redirects lead astray, and one for each robots.txt that does."""
    targets = [f"http://{host}:{port}/bait" for host in HOSTS]
    anchors = "".join(f'<a href="{t}">x</a><img src="{t}"><iframe src="{t}"></iframe>' for t in [*targets, *SCHEMES])
    head = "".join(f'<link rel=stylesheet href="{t}"><script src="{t}"></script>' for t in targets)
    refresh = {
        f"/refresh/{n}": ok(f'<meta http-equiv=refresh content="0;url={t}">'.encode()) for n, t in enumerate(targets)
    }
    redirects = {f"/go/{n}": moved(t.encode()) for n, t in enumerate([*targets, *SCHEMES])}
    twice = {f"/twice/{n}": moved(b"/go/%d" % n) for n in range(0, len(targets), 6)}
    pages = {"/": ok(b"<meta charset=utf-8>" + (head + anchors).encode()), **refresh, **redirects, **twice}
    sites = {"pages": Site(pages, ["/", *refresh, *redirects, *twice], host="127.0.9.128")}
    for number, target in enumerate(targets):
        robots = moved(target.replace("/bait", "/robots.txt").encode())
        sites[f"robots-{number}"] = Site({"/robots.txt": robots, "/": ok(b"never")}, host=f"127.0.9.{129 + number}")
    return sites


@pytest.fixture(scope="module")
def trap() -> Iterator[Trap]:
    """Listeners where nobody may come."""
    with Trap(LISTENING) as listening:
        yield listening


@pytest.fixture(scope="module", params=["direct", "proxied"])
def crawl(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, trap: Trap) -> Iterator[RawCrawl]:
    """One crawl of all tricks, by one worker, so that no redirect is left to another one.

    A seed that is not owned, with a contact, opens all doors before the gate: what pages need elsewhere is asked for.
    Through a proxy, which would go anywhere, the same holds: it is asked for nothing but what is ours.
    """
    words = ("--workers", "1", "--patience", "2s", "--contact", "me@example.org")
    proxy = FakeProxy()
    with InThread(proxy), RawSites(tricky_sites(trap.port)) as sites:
        by = ("--proxy", proxy.url) if request.param == "proxied" else ()
        path = tmp_path_factory.mktemp("ssrf")
        yield RawCrawl(path, sites, *words, *by, config=CONFIG, owned=(OURS,), seeds=[NOBODYS])
        tunnels = list(proxy.targets)
    assert bool(tunnels) is (request.param == "proxied")
    assert all(ours(target.rpartition(":")[0]) for target in tunnels)


def test_nobody_was_connected_to(crawl: RawCrawl, trap: Trap) -> None:
    """The listeners of this machine that are not ours heard nothing, though every trick was asked for."""
    assert len(HOSTS) >= 60
    assert set(crawl.sites.asked("pages")) >= {f"/go/{n}" for n in range(len(HOSTS))}
    assert trap.connections == []


def test_the_listeners_do_listen(crawl: RawCrawl) -> None:
    """A connection would have been seen."""
    assert crawl.result.code == 3
    with Trap(LISTENING) as other:
        for host in LISTENING:
            socket.create_connection((host, other.port)).close()
        deadline = threading.Event()
        while len(other.connections) < len(LISTENING):
            deadline.wait(0.01)
    assert sorted(other.connections) == sorted(LISTENING)


def test_no_answer_came_from_elsewhere(crawl: RawCrawl) -> None:
    """Every record of the archive is of the address that is ours."""
    records = [record for found in crawl.archive.values() for record in found]
    assert records
    assert all(ours(record.fields["WARC-IP-Address"]) for record in records)


def test_whatever_became_a_row_was_refused(crawl: RawCrawl) -> None:
    """Targets of redirects, and what pages need, end at the gate, with that reason; none waits for another try."""
    strangers = {url: found for url, found in crawl.rows.items() if not ours(split(url).host) and url != NOBODYS}
    assert len(strangers) > 50
    assert any(crawl.show_url(url)["hops"].endswith("E") for url in strangers)
    assert set(strangers.values()) == {("failed", "refused_by_gate")}


@pytest.mark.parametrize("number", range(len(HOSTS)), ids=HOSTS)
def test_a_robots_txt_that_leads_astray_closes_its_site(crawl: RawCrawl, number: int) -> None:
    """The redirect is not followed; robots.txt counts as unreachable and the page is never asked for."""
    name = f"robots-{number}"
    assert crawl.state(name) == ("due", "")
    assert crawl.sites.asked_robots(name) == 1
    assert crawl.sites.asked(name) == []
    assert crawl.waits[crawl.sites.url(name, "")] in {"robots_gate", "robots_dns"}
