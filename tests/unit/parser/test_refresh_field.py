"""The ``Refresh`` field of a response: a meta refresh that stands in the head."""

import pytest

from limpet.model.links import LinkKind
from limpet.parser.page import Parsed
from unit.parser.pages import NOTHING_MORE, links, parsed


def refresh(value: str, body: str = "", content_type: str = "text/html", hops: str = "") -> Parsed:
    return parsed(body, f"Refresh: {value}", content_type=content_type, hops=hops, wants=NOTHING_MORE)


@pytest.mark.parametrize(
    ("value", "target"),
    [
        ("0; url=/x", "/x"),
        ("5;URL='x'", "/dir/x"),
        ("0, /x", "/x"),
        ('1.5; url="http://site.test/x" y', "/x"),
        ("0; url=/\xe9?\xe9", "/%E9?%E9"),
    ],
)
def test_it_is_followed_as_a_redirect(value: str, target: str) -> None:
    """As a meta refresh is, relative to the URL; bytes beyond ASCII stay what they are."""
    assert links(refresh(value)) == [(target, LinkKind.REDIRECT)]


@pytest.mark.parametrize("value", ["5", "", "soon; url=/x", "0; url=javascript:x", "0; url=" + "x" * 10_000, "0; url="])
def test_what_leads_nowhere(value: str) -> None:
    """Reloading, nonsense, other schemes, endless references."""
    assert links(refresh(value)) == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/pdf", "image/png", "application/xml"])
def test_only_pages_refresh(content_type: str) -> None:
    """What is shown in no browsing context sends nobody anywhere."""
    assert links(refresh("0; url=/x", "body", content_type)) == []


def test_base_and_meta_of_the_page() -> None:
    """The page's base does not count for it; named twice, it is one link."""
    body = "<base href=/b/><meta http-equiv=refresh content='0; url=/dir/x'><a href=y>"
    assert links(refresh("0; url=x", body)) == [("/dir/x", LinkKind.REDIRECT), ("/b/y", LinkKind.NAVIGATION)]
    assert links(refresh("0; url=z", body))[-1] == ("/dir/z", LinkKind.REDIRECT)


def test_the_first_of_several_counts() -> None:
    """One response sends its reader to one place."""
    found = parsed("", "Refresh: 0; url=/x", "Refresh: 0; url=/y", wants=NOTHING_MORE)
    assert links(found) == [("/x", LinkKind.REDIRECT)]


def test_of_a_requisite_it_is_a_plain_link() -> None:
    """An error page in the place of an image redirects no image."""
    assert links(refresh("0; url=/x", hops="E")) == [("/x", LinkKind.NAVIGATION)]


def test_a_page_that_endorses_nothing_does_not_endorse_it() -> None:
    """Nofollow counts for every link of the page."""
    found = refresh("0; url=/x", "<meta name=robots content=nofollow>")
    assert [link.nofollow for link in found.links] == [True]
