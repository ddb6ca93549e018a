"""Report G11: TLS that browsers forgive, and TLS that nobody should."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from e2e.bug_reports.shared_inputs import CONFIG, PATIENCE, B, whole
from e2e.raw_site import RawCrawl, RawSites, Site, answer

TRIES_MAX = 2  # each takes its time: a failure may be ours, so others are looked at first
CERTS = Path(__file__).parents[2] / "unit" / "fetch" / "certs"
OPEN = answer(b"200 OK", B, b"Connection: close")
NO_RULES = (answer(b"404 Not Found", b"", b"Content-Length: 0"),)


def server_context(certificate: str = "localhost.pem") -> ssl.SSLContext:
    """A server's side of TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / certificate)
    return context


class RefusingServer:
    """A blocking TLS server in a thread: unlike asyncio's, it sends the alert of a failed handshake.

    Its first `answered` handshakes succeed and get a 404; then it knows the name no more.
    """

    def __init__(self, answered: int) -> None:
        self.connections = 0
        self._answered = answered
        self._context = server_context()
        self._context.sni_callback = self._judge
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _judge(self, _socket: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        return None if self.connections <= self._answered else ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = self._listener.accept()
                self.connections += 1
                with contextlib.suppress(OSError), self._context.wrap_socket(raw, server_side=True) as connection:
                    connection.recv(65_536)
                    connection.sendall(NO_RULES[0])


# the first two end without close_notify
SITES = {
    "no-length": Site({"/": (OPEN, "abort"), "/robots.txt": (*NO_RULES, "abort")}, tls=server_context()),
    "length": Site({"/": (whole(B), "abort"), "/robots.txt": (*NO_RULES, "abort")}, tls=server_context()),
    "short": Site({"/": (answer(b"200 OK", B, b"Content-Length: 100"), "abort")}, tls=server_context()),
    "orderly": Site({"/": whole(B)}, tls=server_context()),
    "other-name": Site({"/": whole(B)}, tls=server_context("other.pem")),
    "plain": Site({"/": whole(B)}),
}


@pytest.fixture(scope="module")
def never() -> Iterator[RefusingServer]:
    """A server that refuses the name from the begin."""
    with RefusingServer(0) as server:
        yield server


@pytest.fixture(scope="module")
def later() -> Iterator[RefusingServer]:
    """A server that refuses the name once it has answered for robots.txt."""
    with RefusingServer(1) as server:
        yield server


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory, never: RefusingServer, later: RefusingServer) -> Iterator[RawCrawl]:
    """One crawl that trusts the certificate of localhost as the system's authorities."""
    for site in SITES.values():
        site.host, site.name = "127.0.0.1", "localhost"
    with RawSites(SITES) as sites:
        yield RawCrawl(
            tmp_path_factory.mktemp("tls"),
            sites,
            *PATIENCE,
            config=CONFIG.replace("failures_max = 3", f"failures_max = {TRIES_MAX}"),
            owned=("localhost",),
            seeds=(never.url + "/", later.url + "/"),
            env={"SSL_CERT_FILE": str(CERTS / "localhost.pem")},
        )


@pytest.mark.parametrize(("name", "wire"), [("no-length", OPEN), ("length", whole(B)), ("orderly", whole(B))])
def test_g11_a_missing_close_notify_costs_nothing(crawl: RawCrawl, name: str, wire: bytes) -> None:
    """With a length or without: plain success, body whole, the protocol in the record."""
    assert crawl.state(name) == ("fetched", "")
    record = crawl.one(name)
    assert (record.block, record.truncated) == (wire, "")
    assert record.fields["WARC-Protocol"].startswith("tls/1.")


def test_g11_a_short_body_still_shows(crawl: RawCrawl) -> None:
    """The framing tells what TLS did not."""
    assert crawl.state("short") == ("fetched", "truncated")
    assert [record.truncated for record in crawl.stored("short")] == ["disconnect"] * TRIES_MAX


def test_g11_a_refused_name_is_a_tls_failure_with_its_alert(crawl: RawCrawl, later: RefusingServer) -> None:
    """As many tries as are set, and an end; each outcome names the alert."""
    shown = crawl.show_url(later.url + "/")
    assert (shown["state"], shown["reason"]) == ("failed", "tls")
    told = [(outcome["failure"], "UNRECOGNIZED_NAME" in outcome["detail"]) for outcome in shown["outcomes"]]
    assert told == [("tls", True)] * TRIES_MAX
    assert later.connections == 1 + TRIES_MAX


def test_g11_robots_txt_follows_the_same_rule(crawl: RawCrawl, never: RefusingServer) -> None:
    """A name refused, a certificate of another name: unreachable, told with its reason, nothing asked in the clear."""
    for authority, reason in ((never.url, "robots_tls"), (crawl.sites.url("other-name", ""), "robots_tls_certificate")):
        assert crawl.show_url(authority + "/")["state"] == "due"
        assert crawl.waits[authority] == reason
    assert never.connections == 1
    assert crawl.sites.heads("other-name") == []


def test_g11_others_are_not_touched(crawl: RawCrawl) -> None:
    """The same host without TLS, in the same crawl."""
    assert crawl.state("plain") == ("fetched", "")
