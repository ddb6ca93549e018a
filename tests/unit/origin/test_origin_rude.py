"""Each rude host misbehaves in its own way, byte for byte."""

import gzip
import socket
import time
import zlib
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import pytest

from origin import OriginProcess, Policy, judge
from origin.events import Responded
from origin.rude import HABITS, RudeWeb

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
WHOLE = 1 << 40


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OriginProcess]:
    with OriginProcess("rude", log_path=tmp_path_factory.mktemp("rude") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def web(origin: OriginProcess) -> RudeWeb:
    assert isinstance(origin.web, RudeWeb)
    return origin.web


class Client:
    """Asks one rude host over a fresh connection each time."""

    def __init__(self, origin: OriginProcess, web: RudeWeb, habit: str) -> None:
        self._origin = origin
        self.host = web.host(habit)
        self.page = web.body(self.host)

    def dial(self, target: str = "/") -> socket.socket:
        client = socket.create_connection((self.host, self._origin.port), timeout=10)
        head = f"GET {target} HTTP/1.1\r\nHost: {self.host}:{self._origin.port}\r\nUser-Agent: limpet/0.1\r\n"
        client.sendall(head.encode() + b"Connection: close\r\n\r\n")
        return client

    def get(self, target: str = "/", *, size_max: int = WHOLE) -> bytes:
        """What arrives until the server closes, or `size_max` and more has come."""
        answer = bytearray()
        with self.dial(target) as client:
            while len(answer) < size_max and (data := client.recv(1 << 20)):
                answer += data
        return bytes(answer)


def test_chunked_body_is_exact(origin: OriginProcess, web: RudeWeb) -> None:
    """Chunks of 1, 10, 255, 256 and 1000 bytes, then the rest, then the last chunk."""
    client = Client(origin, web, "chunked")
    head, _, body = client.get().partition(b"\r\n\r\n")
    assert head + b"\r\n" == OK + b"Transfer-Encoding: chunked\r\n"
    page, wanted, at = client.page, b"", 0
    for size in (1, 10, 255, 256, 1000, len(client.page) - 1522):
        wanted += f"{size:x}".encode() + b"\r\n" + page[at : at + size] + b"\r\n"
        at += size
    assert body == wanted + b"0\r\n\r\n"


def test_gzip_body_is_exact(origin: OriginProcess, web: RudeWeb) -> None:
    """A gzip body with the right length holds the page."""
    client = Client(origin, web, "gzip")
    head, _, body = client.get().partition(b"\r\n\r\n")
    assert head + b"\r\n" == OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(body)
    assert gzip.decompress(body) == client.page


def test_cut_bodies_are_exact(origin: OriginProcess, web: RudeWeb) -> None:
    """Half of what Content-Length promises; half of a chunked body; both end with the connection."""
    client = Client(origin, web, "cut-body")
    length = len(client.page)
    assert client.get() == OK + b"Content-Length: %d\r\n\r\n" % length + client.page[: length // 2]
    whole = Client(origin, web, "chunked").get().partition(b"\r\n\r\n")[2]
    cut = Client(origin, web, "cut-chunked")
    body = cut.get().partition(b"\r\n\r\n")[2]
    assert len(body) == pytest.approx(len(whole) / 2, abs=10)
    assert not body.endswith(b"0\r\n\r\n")


def test_cut_gzip_is_whole_to_http_only(origin: OriginProcess, web: RudeWeb) -> None:
    """The length is right, the gzip stream ends too early."""
    client = Client(origin, web, "cut-gzip")
    head, _, body = client.get().partition(b"\r\n\r\n")
    assert head.endswith(b"Content-Length: %d" % len(body))
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    assert client.page.startswith(unpacker.decompress(body))
    assert not unpacker.eof


def test_bare_status_and_http_0_9_are_exact(origin: OriginProcess, web: RudeWeb) -> None:
    """A status line without a reason, and an answer without any head at all."""
    bare = Client(origin, web, "bare-status")
    assert bare.get().startswith(b"HTTP/1.1 200\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: ")
    old = Client(origin, web, "http-0.9")
    assert old.get() == old.page


def test_endless_and_oversized_answers(origin: OriginProcess, web: RudeWeb) -> None:
    """An endless body goes on as long as it is read; a header bomb holds two megabytes of header."""
    assert len(Client(origin, web, "endless").get(size_max=8 << 20)) >= 8 << 20
    head = Client(origin, web, "header-bomb").get().partition(b"\r\n\r\n")[0]
    assert len(head) > 2_000_000
    assert head.count(b"\r\nX-Bomb-") == 2000


def test_an_endless_answer_does_not_fill_the_origin(origin: OriginProcess, web: RudeWeb) -> None:
    """Nothing is piled up for a client that does not read, and others are served meanwhile."""
    with Client(origin, web, "endless").dial():
        time.sleep(0.2)
        assert Client(origin, web, "gzip").get()
    with open(f"/proc/{origin.pid}/status", encoding="ascii") as status:  # noqa: PTH123 (not a path of ours)
        resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    assert resident < 100_000


def test_slow_answers(origin: OriginProcess, web: RudeWeb) -> None:
    """A dripping body sends its head at once and then a byte a second; a silent host sends nothing."""
    with Client(origin, web, "drip").dial() as client:
        time.sleep(0.1)
        assert client.recv(65536).startswith(OK)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(65536)
    for habit, target in (("silent", "/"), ("robots-timeout", "/robots.txt")):
        with Client(origin, web, habit).dial(target) as client:
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(65536)


@pytest.mark.parametrize(("habit", "status"), [("retry-seconds", b"503"), ("retry-429", b"429")])
def test_retry_after_in_seconds(origin: OriginProcess, web: RudeWeb, habit: str, status: bytes) -> None:
    """The first page request is refused for two seconds, the second is answered; robots.txt always is."""
    client = Client(origin, web, habit)
    assert client.get("/robots.txt").startswith(b"HTTP/1.1 200 OK\r\n")
    refusal = client.get()
    assert refusal.startswith(b"HTTP/1.1 " + status)
    assert b"\r\nRetry-After: 2\r\n" in refusal
    assert client.get().endswith(client.page)
    found = judge(origin.events(), Policy(owned=True))
    assert ("retry_after", client.host) in {(entry.kind, entry.host) for entry in found}


def test_retry_after_as_a_date(origin: OriginProcess, web: RudeWeb) -> None:
    """The date lies two to three seconds ahead, and the log says how far exactly."""
    client = Client(origin, web, "retry-date")
    head = client.get().decode("latin-1")
    line = next(line for line in head.split("\r\n") if line.startswith("Retry-After: "))
    until = parsedate_to_datetime(line.removeprefix("Retry-After: ")).timestamp()
    answered = [event for event in origin.events() if isinstance(event, Responded)][-1]
    assert answered.retry_after_seconds is not None
    assert answered.retry_after_seconds == pytest.approx(until - answered.wall_ns / 1e9, abs=0.1)
    assert 2 <= answered.retry_after_seconds <= 3


def test_retry_after_comes_before_a_slow_body(origin: OriginProcess, web: RudeWeb) -> None:
    """The wait is known from the head while the body is still to come, and is logged from the head on."""
    client = Client(origin, web, "retry-slow-body")
    with client.dial() as connection:
        assert b"\r\nRetry-After: 2\r\n" in connection.recv(65536)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(65536)
    assert client.get().endswith(client.page)
    waits = [event for event in origin.events() if isinstance(event, Responded) and event.status == 503]
    assert [event.retry_after_seconds for event in waits if not event.complete] == [2.0]


@pytest.mark.parametrize("hops", [5, 6])
def test_robots_chains(origin: OriginProcess, web: RudeWeb, hops: int) -> None:
    """robots.txt lies behind exactly so many redirects; five license the host, six do not."""
    client, target = Client(origin, web, f"robots-chain-{hops}"), "/robots.txt"
    for _ in range(hops):
        head = client.get(target).decode()
        assert head.startswith("HTTP/1.1 302 Found\r\n")
        target = head.partition("Location: ")[2].partition("\r\n")[0]
    assert b"\r\nDisallow: /private/\n" not in client.get(target).partition(b"\r\n\r\n")[0]
    assert client.get(target).endswith(b"User-agent: *\nDisallow: /private/\n")
    client.get("/")
    found = [entry for entry in judge(origin.events(), Policy(owned=True)) if entry.host == client.host]
    assert [entry.kind for entry in found] == (["robots"] if hops == 6 else [])


@pytest.mark.parametrize(
    ("habit", "start"),
    [("robots-500", b"HTTP/1.1 500 "), ("robots-429", b"HTTP/1.1 429 "), ("robots-404", b"HTTP/1.1 404 ")],
)
def test_robots_refusals(origin: OriginProcess, web: RudeWeb, habit: str, start: bytes) -> None:
    """robots.txt fails in every way that a crawler must tell apart."""
    assert Client(origin, web, habit).get("/robots.txt").startswith(start)


def test_large_robots(origin: OriginProcess, web: RudeWeb) -> None:
    """Two megabytes, the rule that counts at the start."""
    body = Client(origin, web, "robots-2mb").get("/robots.txt").partition(b"\r\n\r\n")[2]
    assert 2_000_000 < len(body) < 2_200_000
    assert body.index(b"Disallow: /private/") < 1000


def test_each_habit_has_a_host_and_a_declared_end(web: RudeWeb) -> None:
    """Every habit is served somewhere, and `expected` says what its root must end as."""
    assert len(web.seeds()) == len(HABITS) == len({web.host(habit) for habit in HABITS})
    expected = web.expected()
    assert all(expected[url] == HABITS[habit].root for url, habit in zip(web.seeds(), HABITS, strict=True))
    assert expected[web.url(web.host("crawl-delay"), "/two")] == "page"
