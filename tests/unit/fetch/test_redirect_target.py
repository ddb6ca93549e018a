"""Where redirects point."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.fetch import Head, redirect_target


def head(location: bytes, status: int = 301) -> Head:
    return Head(status=status, headers=((b"LOCATION", location), (b"Location", b"/second")))


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (b"/fa/\xd8\xa7\xd8\xb9", "http://h/fa/%D8%A7%D8%B9"),
        (b"/caf\xe9", "http://h/caf%E9"),
        (b"/a b?c=d e", "http://h/a%20b?c=d%20e"),
        (b"x", "http://h/a/x"),
        (b"?q", "http://h/a/b?q"),
        (b"//other/x", "http://other/x"),
        (b"https://other", "https://other/"),
        (b"/%E9%zz", "http://h/%E9%zz"),
        (b"http://h/x\r\ny", "http://h/xy"),
        (b"mailto:a@b", "mailto:a@b"),
    ],
)
def test_targets(location: bytes, target: str) -> None:
    """The first Location, joined by the WHATWG rules; bytes beyond ASCII stay the bytes they are."""
    assert redirect_target("http://h/a/b?old", head(location)) == target


@pytest.mark.parametrize(
    ("location", "status"),
    [(b"", 301), (b"http://", 301), (b"http://[", 302), (b"/x", 200), (b"/x", 304), (b"/x", 300), (b"/" * 70_000, 301)],
)
def test_no_target(location: bytes, status: int) -> None:
    """Empty, unreadable, oversized, or not a redirect: None."""
    assert redirect_target("http://h/", head(location, status)) is None
    assert redirect_target("http://h/", Head(status=301, headers=())) is None


@given(st.binary(max_size=300))
def test_any_bytes(location: bytes) -> None:
    """Never an exception; what comes out is ASCII."""
    target = redirect_target("http://h/", head(location))
    assert target is None or target.isascii()
