"""The server serves, and its log tells the truth about every connection."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import pytest

from origin import OriginProcess, Policy, examine, judge, requests_by_url
from origin.__main__ import main
from origin.events import Closed, Event, Opened, Requested, Responded, Started, Stopped
from origin.rude import RudeWeb
from origin.walk import ask

AGENT = {"User-Agent": "limpet/0.1 (+me@example.org)"}
OWNED = Policy(owned=True)
HOST = "127.0.1.1"
Kind = TypeVar("Kind", bound=Event)


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[OriginProcess]:
    with OriginProcess("kill", log_path=tmp_path / "log", pages=60, hosts=3, latency_ms=1.0) as running:
        yield running


def _get(origin: OriginProcess, target: str, *, host: str = HOST) -> bytes:
    connection = http.client.HTTPConnection(host, origin.port, timeout=10)
    try:
        connection.request("GET", target, headers={**AGENT, "Connection": "close"})
        return connection.getresponse().read()
    finally:
        connection.close()


def _dial(origin: OriginProcess, *, host: str = HOST) -> socket.socket:
    return socket.create_connection((host, origin.port), timeout=10)


def _request(target: str, *, method: str = "GET", host: str = HOST) -> bytes:
    return f"{method} {target} HTTP/1.1\r\nHost: {host}:80\r\nUser-Agent: limpet/0.1\r\n\r\n".encode()


def _wait_for(condition: Callable[[], bool]) -> None:
    until = time.perf_counter() + 5
    while not condition():
        assert time.perf_counter() < until, "waited 5 s in vain"
        time.sleep(0.005)


def _of(origin: OriginProcess, kind: type[Kind]) -> list[Kind]:
    return [event for event in origin.events() if isinstance(event, kind)]


def test_fifty_pages_are_served_and_judged_polite(origin: OriginProcess) -> None:
    """Every page arrives as the web computes it; the log holds exactly these requests, and no violation."""
    web = origin.web
    pages = [url for url, kind in web.expected().items() if kind == "page"][:50]
    seen: set[str] = set()
    for url in pages:
        host = urlsplit(url).hostname or ""
        if host not in seen:
            _get(origin, "/robots.txt", host=host)
            seen.add(host)
        assert _get(origin, urlsplit(url).path, host=host) == ask(web, host, urlsplit(url).path)[2]
    origin.stop()
    assert requests_by_url(origin.events()) == dict.fromkeys(
        [*pages, *(web.url(host, "/robots.txt") for host in seen)], 1
    )
    verdict = examine(origin.events(), OWNED)
    assert (verdict.violations, verdict.residuals) == ([], [])
    assert [found.kind for found in judge(origin.events(), Policy())].count("gap") == 50


def test_one_connection_serves_many_requests(origin: OriginProcess) -> None:
    """Keep-alive works, and a Date header comes along."""
    connection = http.client.HTTPConnection(HOST, origin.port, timeout=10)
    for target in ("/robots.txt", "/", "/page/1.html", "/page/2.html"):
        connection.request("GET", target, headers=AGENT)
        response = connection.getresponse()
        assert response.read() == ask(origin.web, HOST, target)[2]
    assert response.status == 200
    connection.close()
    origin.stop()
    assert len(_of(origin, Opened)) == len(_of(origin, Closed)) == 1
    assert judge(origin.events(), OWNED) == []


def test_stamps_enclose_what_the_client_sees(origin: OriginProcess) -> None:
    """A request is stamped after it was sent and an answer's end before it was received, on one clock."""
    sent = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    _get(origin, "/page/1.html")
    received = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    origin.stop()
    requested, responded = _of(origin, Requested)[0], _of(origin, Responded)[0]
    assert responded.head_ns is not None
    assert sent < requested.t_ns < responded.head_ns <= responded.t_ns < received
    assert responded.complete


def test_early_use_of_a_connection_is_a_violation(origin: OriginProcess) -> None:
    """Requests sent before the last answer has come are stamped at their arrival, though answered in order."""
    with _dial(origin) as client:
        client.sendall(_request("/robots.txt") + _request("/nothing") + _request("/nothing"))
        answer = b""
        while answer.count(b"</h1>") < 2:
            answer += client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.count(b"HTTP/1.1 404 Not Found\r\n") == 2
    assert {found.kind for found in judge(origin.events(), OWNED)} == {"concurrency", "robots"}


def _has_asked(origin: OriginProcess, count: int) -> bool:
    return len(_of(origin, Requested)) == count


def test_half_a_request_is_none(origin: OriginProcess) -> None:
    """A client that goes before its request is whole has opened and closed a connection, and asked nothing."""
    with _dial(origin) as client:
        client.sendall(_request("/page/1.html")[:-2])
        _wait_for(lambda: len(_of(origin, Opened)) == 1)
    _wait_for(lambda: len(_of(origin, Closed)) == 1)
    assert _of(origin, Requested) == []


def test_an_answer_cut_off_by_the_client_is_noted(tmp_path: Path) -> None:
    """An answer still to come when the client goes ends then, incomplete, in time for the next request."""
    with OriginProcess("rude", log_path=tmp_path / "log") as origin:
        web = origin.web
        assert isinstance(web, RudeWeb)
        for turn in (1, 2):
            with _dial(origin, host=web.host("silent")) as client:
                client.sendall(_request("/", host=web.host("silent")))
                _wait_for(partial(_has_asked, origin, turn))
    answers = _of(origin, Responded)
    assert [(event.complete, event.head_ns, event.bytes) for event in answers] == [(False, None, 0)] * 2
    assert [event.by for event in _of(origin, Closed)] == ["client"] * 2
    assert {found.kind for found in judge(origin.events(), OWNED)} == {"robots"}


def test_reconnecting_at_once_is_no_second_connection(origin: OriginProcess) -> None:
    """A client may close and connect again without a pause, however late the server's loop hears of the end."""
    for target in ("/robots.txt", *["/page/1.html"] * 200):
        client = _dial(origin)
        client.sendall(_request(target))
        assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        client.close()
    with _dial(origin):
        pass
    origin.stop()
    assert judge(origin.events(), Policy(owned=True, tolerance_seconds=0.0)) == []


def test_two_connections_are_noticed(origin: OriginProcess) -> None:
    """A second connection counts even if nothing is asked over it."""
    _get(origin, "/robots.txt")
    with _dial(origin), _dial(origin):
        time.sleep(0.05)
    _wait_for(lambda: len(_of(origin, Closed)) == 3)
    assert [found.kind for found in judge(origin.events(), OWNED)] == ["concurrency"]


@pytest.mark.parametrize(
    ("sent", "status"), [(_request("/", method="POST"), 405), (b"hello\r\n\r\n", 400), (b"GET / HTTP/2\r\n\r\n", 400)]
)
def test_what_is_not_get_is_refused(origin: OriginProcess, sent: bytes, status: int) -> None:
    """Other methods and other protocols are answered, logged, and end the connection."""
    with _dial(origin) as client:
        client.sendall(sent)
        answer = b""
        while data := client.recv(65536):
            answer += data
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert "method" in {found.kind for found in judge(origin.events(), OWNED)}


def test_an_endless_request_head_is_cut(origin: OriginProcess) -> None:
    """A head that never ends takes bounded memory and the connection with it."""
    with _dial(origin) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(OSError, match=r"reset|pipe"):
            client.sendall(b"X: " + b"x" * (64 << 20))
    assert _get(origin, "/robots.txt")


def test_other_addresses_are_turned_away(origin: OriginProcess) -> None:
    """The origin answers on loopback only, though its socket takes every address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if probe.connect_ex(("192.0.2.1", 9)):  # picks this machine's outward address, sends nothing
            pytest.skip("this machine has no address besides loopback")
        outward = probe.getsockname()[0]
    with _dial(origin, host=outward) as client:
        assert _first_bytes(client) == b""
    origin.stop()
    assert _of(origin, Opened) == []


def _first_bytes(client: socket.socket) -> bytes:
    """What a request is answered with; nothing when the connection is torn down."""
    try:
        client.sendall(_request("/"))
        return client.recv(65536)
    except ConnectionError:
        return b""


def test_the_log_outlives_a_restart(tmp_path: Path) -> None:
    """An origin started again on its log and port goes on with it; ids stay apart."""
    first = OriginProcess("demo", log_path=tmp_path / "log")
    with first:
        _get(first, "/robots.txt", host="127.0.0.2")
    with OriginProcess("demo", log_path=tmp_path / "log", port=first.port) as second:
        assert second.port == first.port
        _get(second, "/", host="127.0.0.2")
    events = second.events()
    assert [type(event) for event in events] == [Started, Opened, Requested, Responded, Closed, Stopped] * 2
    assert len({event.request for event in events if isinstance(event, Requested)}) == 2
    assert judge(events, OWNED) == []


def test_the_origin_never_outlives_its_parent(tmp_path: Path) -> None:
    """When the process that started it is killed, the origin ends too, with its log in order."""
    log = tmp_path / "log"
    code = (
        "import sys, time, pathlib; from origin import OriginProcess\n"
        f"with OriginProcess('demo', log_path=pathlib.Path({str(log)!r})) as origin:\n"
        "    print(origin.pid, flush=True); time.sleep(60)"
    )
    root = Path(__file__).resolve().parents[3] / "loadtest"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)}
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(child, 0)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        _wait_for(lambda: log.read_text().count('"stopped"') == 1)


def test_wrong_options_are_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An origin that cannot start says why and raises at once."""
    with pytest.raises(RuntimeError, match="did not start"), OriginProcess("demo", log_path=tmp_path / "log", hosts=3):
        pytest.fail("started")
    assert "web 'demo' has no option 'hosts'" in capfd.readouterr().err


def test_the_command_line_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`judge` exits 0 on a polite log and 1 on another, naming host and kind."""
    log = tmp_path / "log"
    with OriginProcess("demo", log_path=log) as origin:
        _get(origin, "/robots.txt", host="127.0.0.2")
        _get(origin, "/", host="127.0.0.2")
    assert main(["judge", str(log), "--owned"]) == 0
    assert capsys.readouterr().out == "2 requests to 1 hosts, 0 URLs more than once: 0 violations, 0 residual\n"
    assert main(["judge", str(log), "--owned", "--agent", "crab", "--json", "--grace-after-kill", "1.5,2"]) == 1
    assert '"kind": "identity", "host": "127.0.0.2"' in capsys.readouterr().out
    assert main(["judge", str(log)]) == 1
    assert capsys.readouterr().out.startswith("gap\t127.0.0.2\thttp://127.0.0.2:")


def test_the_command_line_tells_what_is_expected(capsys: pytest.CaptureFixture[str]) -> None:
    """`expected` prints each URL with its kind; a value of a wrong type is a usage error."""
    assert (
        main(["expected", "--web", "kill", "--pages", "3", "--hosts", "1", "--port", "80", "--one-seed", "true"]) == 0
    )
    assert '"http://127.0.1.1:80/page/2.html": "page"' in capsys.readouterr().out
    for wrong in (["--pages", "many"], ["--one-seed", "perhaps"]):
        with pytest.raises(SystemExit, match="2"):
            main(["expected", "--web", "kill", *wrong])
