"""Canonical URLs: what is dropped, what is kept, what is refused."""

import pytest

from limpet.model.urls import (
    InvalidUrl,
    SplitUrl,
    canonicalize,
    canonicalize_all,
    is_host_name,
    request_target,
    split,
)


@pytest.mark.parametrize(
    ("found", "canonical"),
    [
        ("http://h/a#frag", "http://h/a"),
        ("http://h/a#", "http://h/a"),
        ("http://h/?q=a@b#c@d", "http://h/?q=a@b"),
        ("http://user:pw@h/a", "http://h/a"),
        ("http://user:p@ss@h:81/a@b?c@d", "http://h:81/a@b?c@d"),
        ("http://@h/", "http://h/"),
        ("HTTP://EXAMPLE.org:80", "http://example.org/"),
        ("https://example.org:443/", "https://example.org/"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://h/a/../../b", "http://h/b"),
        ("http://h?a=1", "http://h/?a=1"),
        ("http://h/?", "http://h/?"),
        ("  http://h/a\tb\n", "http://h/ab"),
        ("http:\\\\h\\a", "http://h/a"),
        ("http://bücher.example/ü?ü", "http://xn--bcher-kva.example/%C3%BC?%C3%BC"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
    ],
)
def test_fragment_and_userinfo_are_dropped_and_nothing_else(found: str, canonical: str) -> None:
    """A URL is as the standard's parser serialises it, without the parts that no request carries."""
    assert canonicalize(found) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "//h/a",
        "http://",
        "https:///",
        "http://h:99999/",
        "http://a b/",
        "http://[::1",
        "ftp://h/",
        "data:,x",
        "javascript:void(0)",
        "mailto:x@y.example",
        "file:///etc/passwd",
        "ws://h/",
        "about:blank",
        "http://\ud800/",
    ],
)
def test_what_http_cannot_fetch_is_refused(text: str) -> None:
    """No other scheme, no URL without a host, no text that does not parse; the error is a ValueError."""
    with pytest.raises(InvalidUrl) as caught:
        canonicalize(text)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("found", "canonical"),
    [
        ("/foo%20bar%3a%20%2376%2c#bash", "http://h/foo%20bar%3a%20%2376%2c"),
        ("/cmp/Dia%25", "http://h/cmp/Dia%25"),
        ("/90%+of+My+Mind", "http://h/90%+of+My+Mind"),
        ("/%e3%83%84", "http://h/%e3%83%84"),
        ("/p%2d1/p%2d2/?q=f", "http://h/p%2d1/p%2d2/?q=f"),
        ("/a;jsessionid=1", "http://h/a;jsessionid=1"),
        ("/?b=2&a=1", "http://h/?b=2&a=1"),
        ("/?b=%26&a=+", "http://h/?b=%26&a=+"),
    ],
)
def test_the_url_requested_is_the_url_found(found: str, canonical: str) -> None:
    """Percent-encoding, parameter order and session ids are the site's business; the form is stable."""
    assert canonicalize(found, "http://h/x") == canonical
    assert canonicalize(canonical) == canonical


@pytest.mark.parametrize(
    ("found", "target"),
    [
        ("/a b.jpg", "/a%20b.jpg"),
        ("/ü", "/%C3%BC"),
        ("/Carisch_(1789–1858).jpg", "/Carisch_(1789%E2%80%931858).jpg"),  # noqa: RUF001  (the dash is the case)
        ("/css?family=A|B", "/css?family=A|B"),
        ('/x"y<z>', "/x%22y%3Cz%3E"),
        ('/?x"y<z>', "/?x%22y%3Cz%3E"),
        ("/a\x00\x7fb", "/a%00%7Fb"),
        ("/a\r\nX-Injected: 1", "/aX-Injected:%201"),
    ],
)
def test_a_canonical_url_can_stand_in_a_header_line(found: str, target: str) -> None:
    """ASCII without space, quote, angle bracket or control character: it breaks no request line and no WARC field."""
    url = canonicalize(found, "http://h/")
    assert request_target(url) == target
    assert url.isascii()
    assert url.isprintable()
    assert not set(url) & set(' "<>')


def test_references_resolve_against_the_base() -> None:
    """The base may be any page; a reference may leave out what it shares with it."""
    base = "https://h/d/e/p.html?q"
    found = [canonicalize(x, base) for x in ("x", "../x", "/x", "?x", "//o/x", "///o/x", "http:x", "#x", "")]
    assert found == [
        "https://h/d/e/x",
        "https://h/d/x",
        "https://h/x",
        "https://h/d/e/p.html?x",
        "https://o/x",
        "https://o/x",
        "http://x/",
        base,
        base,
    ]


def test_the_batch_form_marks_invalid_ones() -> None:
    """One result per reference, in order, None for what canonicalize refuses; never an exception."""
    found = canonicalize_all(["a", "mailto:x@y", "http://u@h/#f", "http://", "\ud800"], "http://b/c/")
    assert found == ["http://b/c/a", None, "http://h/", None, None]


@pytest.mark.parametrize("base", ["", "nonsense", "about:blank", "\ud800"])
def test_a_useless_base_spoils_only_relative_references(base: str) -> None:
    """Absolute URLs need no base."""
    assert canonicalize_all(["a", "http://h/x"], base) == [None, "http://h/x"]


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://h/", SplitUrl("http", "h", 80, "http://h", "/")),
        ("https://h:8443/a?b=c:d/@", SplitUrl("https", "h", 8443, "https://h:8443", "/a?b=c:d/@")),
        ("http://[::1]/x", SplitUrl("http", "::1", 80, "http://[::1]", "/x")),
        ("https://[2001:db8::2]:81/", SplitUrl("https", "2001:db8::2", 81, "https://[2001:db8::2]:81", "/")),
    ],
)
def test_split_gives_the_parts_that_requests_need(url: str, parts: SplitUrl) -> None:
    """Host without port or brackets, effective port, authority as a server's name, target as sent."""
    assert split(url) == parts
    assert request_target(url) == parts.path_query


@pytest.mark.parametrize(
    "url", ["", "h", "ftp://h/", "http://h", "http:///x", "http://h:x/", "http://h:\u0661/", "//h/"]
)
def test_split_refuses_what_is_not_canonical(url: str) -> None:
    """Splitting does not guess."""
    with pytest.raises(InvalidUrl):
        split(url)


@pytest.mark.parametrize(
    ("host", "possible"),
    [
        ("example.org", True),
        ("example.org.", True),
        ("a_b.example", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("a" * 63 + ".org", True),
        ("", False),
        (".", False),
        ("a..b", False),
        ("a" * 64 + ".org", False),
        (".".join(["a" * 50] * 6), False),
        ("!\"$&'()*+,-.;=_`{}~", False),
        ("::g", False),
        ("a b", False),
        ("a<b", False),
    ],
)
def test_hosts_that_cannot_exist_are_told_apart(host: str, possible: bool) -> None:
    """The URL standard lets more stand in a host than any name or address has."""
    assert is_host_name(host) is possible
