"""The request as it goes out, and that nothing in a URL or a header can add a line to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.fetch.target import Target, parse_target, request_bytes


@pytest.mark.parametrize(
    ("url", "request_line", "host"),
    [
        ("http://example.com", b"GET / HTTP/1.1", b"example.com"),
        ("http://EXAMPLE.com:80/a", b"GET /a HTTP/1.1", b"example.com"),
        ("https://example.com:443/a?b=c", b"GET /a?b=c HTTP/1.1", b"example.com"),
        ("https://example.com:80/", b"GET / HTTP/1.1", b"example.com:80"),
        ("http://example.com:8080/x#frag?not", b"GET /x HTTP/1.1", b"example.com:8080"),
        ("http://user:p%40ss@example.com/x", b"GET /x HTTP/1.1", b"example.com"),
        ("http://[::1]:8083/p", b"GET /p HTTP/1.1", b"[::1]:8083"),
        ("http://[::1]/p", b"GET /p HTTP/1.1", b"[::1]"),
        ("http://h?a=1", b"GET /?a=1 HTTP/1.1", b"h"),
        ("http://h/a b/\u0642?c=d e", b"GET /a%20b/%D9%82?c=d%20e HTTP/1.1", b"h"),
        ("http://h/caf%e9", b"GET /caf%e9 HTTP/1.1", b"h"),
        ("http://h/foo%20bar%3a%20%2376%2c#bash", b"GET /foo%20bar%3a%20%2376%2c HTTP/1.1", b"h"),
        ("http://h/@x:y//z", b"GET /@x:y//z HTTP/1.1", b"h"),
        ("http://h/?u=http://x@y/", b"GET /?u=http://x@y/ HTTP/1.1", b"h"),
    ],
)
def test_request_line_and_host(url: str, request_line: bytes, host: bytes) -> None:
    """Path and query as WHATWG has them, no fragment, no userinfo; Host first, with a port that is not the default."""
    target = parse_target(url)
    assert isinstance(target, Target)
    assert request_bytes(target, ((b"User-Agent", b"limpet/1 (+x)"), (b"X-B", b"\xff"))) == (
        request_line + b"\r\nHost: " + host + b"\r\nUser-Agent: limpet/1 (+x)\r\nX-B: \xff\r\nConnection: close\r\n\r\n"
    )


def test_ports_and_hosts_of_targets() -> None:
    """What the connection needs, apart from what Host says."""
    assert parse_target("https://a.test/") == Target("https", "a.test", 443, "a.test", "/")
    assert parse_target("http://[::1]:81/") == Target("http", "[::1]", 81, "[::1]:81", "/")
    assert parse_target("http://0x7f.1/") == Target("http", "127.0.0.1", 80, "127.0.0.1", "/")


@pytest.mark.parametrize(
    "header",
    [
        (b"X-A", b"1\r\nX-Evil: 1"),
        (b"X-A", b"1\nX-Evil: 1"),
        (b"X-A", b"1\rX-Evil: 1"),
        (b"X-A", b"nul\0"),
        (b"X A", b"1"),
        (b"X-A:", b"1"),
        (b"X-A\r\nX-Evil", b"1"),
        (b"", b"1"),
        (b"Host", b"other.test"),
        (b"connection", b"keep-alive"),
        (b"Content-Length", b"5"),
        (b"transfer-encoding", b"chunked"),
    ],
)
def test_headers_that_would_change_the_request_are_refused(header: tuple[bytes, bytes]) -> None:
    """A value taken over from a site (an ETag, say) cannot become a second line; framing is the engine's."""
    target = parse_target("http://a.test/")
    assert isinstance(target, Target)
    assert isinstance(request_bytes(target, (header,)), str)


@given(st.text() | st.text().map("http://a.test/{}".format) | st.text().map("http://{}/".format))
def test_any_url_is_one_request_or_none(url: str) -> None:
    """Whatever the string: a request of exactly two lines and an empty one, or a reason."""
    target = parse_target(url)
    if isinstance(target, str):
        assert target
        return
    data = request_bytes(target, ())
    assert isinstance(data, bytes)
    lines = data.split(b"\r\n")
    assert len(lines) == 5
    assert lines[0].startswith(b"GET /")
    assert lines[0].count(b" ") == 2
    assert lines[1].startswith(b"Host: ")
    assert not set(data) - set(range(0x20, 0x7F)) - {13, 10}


@given(st.binary(), st.binary())
def test_any_header_is_one_line_or_none(name: bytes, value: bytes) -> None:
    """Whatever the bytes."""
    target = parse_target("http://a.test/")
    assert isinstance(target, Target)
    data = request_bytes(target, ((name, value),))
    if isinstance(data, bytes):
        assert data.replace(b"\r\n", b"").count(b"\n") == data.replace(b"\r\n", b"").count(b"\r") == 0
        assert data.count(b"\r\n") == 5


def test_a_lone_surrogate_is_no_url() -> None:
    """Python strings can hold what no encoding can: a reason, not an exception."""
    assert parse_target("http://a.test/\ud800") == "not a URL"
