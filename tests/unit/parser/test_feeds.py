"""Feeds: where their items lead."""

import time

import pytest

from limpet.model.links import LinkKind
from limpet.parser import feeds
from unit.parser.pages import EXTRAS, NOTHING_MORE, links, parsed

RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
<title>t</title><link>/home</link><atom:link href="/feed" rel="self"/>
<item><title>one</title><link> http://site.test/1?a&amp;b </link><guid isPermaLink="true">/g</guid>
<enclosure url="/e.mp3" length="1" type="audio/mpeg"/><comments>/c</comments></item>
<item><link><![CDATA[/2?a&b]]></link><description>&lt;a href="/no"&gt;</description></item>
<item><atom:link href="/3"/></item><item><title>none</title></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><link href="/home"/><link rel="next" href="/page2"/>
<entry><link href="/1"/><link rel="edit" href="/no"/><content type="html">&lt;p></content></entry>
<entry><link rel="alternate" href='/2?a&amp;b'/></entry><entry><link rel="enclosure" href="/no.mp3"/></entry></feed>"""
RDF = """<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel rdf:about="/no"><link>/home</link></channel>
<item rdf:about="/x"><link>/1</link></item></rdf:RDF>"""
JSON = """{"version": "https://jsonfeed.org/version/1.1", "home_page_url": "/home", "items": [
{"id": "1", "url": "/1", "attachments": [{"url": "/no"}]}, {"external_url": "/2"}, {"id": 3}, {"url": 4}]}"""


def paths(body: str | bytes, content_type: str | None) -> list[str]:
    found = parsed(body, content_type=content_type, wants=EXTRAS)
    assert all(kind is LinkKind.NAVIGATION for _, kind in links(found))
    return [path for path, _ in links(found)]


@pytest.mark.parametrize(
    ("body", "content_type", "found"),
    [
        (RSS, "application/rss+xml", ["/1?a&b", "/2?a&b", "/3"]),
        (RSS, "text/xml", ["/1?a&b", "/2?a&b", "/3"]),
        (RSS, "application/xml; charset=utf-8", ["/1?a&b", "/2?a&b", "/3"]),
        (RSS, None, ["/1?a&b", "/2?a&b", "/3"]),
        (ATOM, "application/atom+xml", ["/1", "/2?a&b"]),
        (RDF, "application/rdf+xml", ["/1"]),
        (JSON, "application/feed+json", ["/1", "/2"]),
        (JSON, "application/json", ["/1", "/2"]),
        ("\n " + JSON, "application/json", ["/1", "/2"]),
        (JSON.replace("/", "\\/"), "application/json", ["/1", "/2"]),
        (JSON.replace("jsonfeed.org", "other.org"), "application/json", []),
        (JSON[:-5], "application/json", []),
        ('{"version": "https://jsonfeed.org/version/1", "items": 5}', "application/json", []),
        (RSS, "text/html", []),
        (RSS, "text/plain", []),
        ("<rss", "text/xml", []),
        ("<rssx><item><link>/no</link></item>", "text/xml", []),
    ],
)
def test_items(body: str, content_type: str | None, found: list[str]) -> None:
    """The page of each item, and nothing else: no home, no self, no media, no markup inside texts."""
    assert paths(body, content_type) == found


def test_a_mark_before_a_json_feed_is_no_harm() -> None:
    """As some servers send it."""
    assert paths("\ufeff" + JSON, "application/json") == ["/1", "/2"]


def test_a_feed_is_flagged_and_off_is_off() -> None:
    """The output says what the document was read as."""
    assert parsed(RSS, content_type="text/xml", wants=EXTRAS).flags == ("feed",)
    assert parsed(RSS, content_type="text/xml", wants=NOTHING_MORE).links == ()


def test_deep_json_is_just_damaged() -> None:
    """No recursion gets out."""
    start = '{"version": "https://jsonfeed.org/version/1", "x": '
    assert paths(start + "[" * 100_000, "application/json") == []
    assert paths(start + '{"a":' * 100_000, "application/json") == []


@pytest.mark.parametrize(
    "piece",
    ["<item>", "<link>", "<item><link>", "<link href=", "<item><link>x", "<entry><link href='", "<item><link><!--"],
)
def test_time_is_linear(piece: str) -> None:
    """A megabyte of open items costs what its bytes cost."""
    start = time.process_time()
    for _ in feeds.links(("<rss>" + piece * (1_000_000 // len(piece))).encode(), "utf-8"):
        pass
    assert time.process_time() - start < 4
