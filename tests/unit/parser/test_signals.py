"""What pages ask of those who use them, and what is obeyed."""

import pytest

from limpet.parser.page import Parsed
from limpet.parser.signals import DIRECTIVES, of_headers
from limpet.parser.wants import Wants
from unit.parser.pages import parsed

PLAIN = Wants(agent="Limpet-Test")


def signals(found: Parsed) -> list[str]:
    return [flag.removeprefix("signal:") for flag in found.flags if flag.startswith("signal:")]


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_each_directive_in_each_place(directive: str) -> None:
    """Meta tag or header, for everybody or for our token, on a page or on anything else."""
    shouted = directive.upper()
    for name in ("robots", "limpet-test", "LIMPET-TEST"):
        assert signals(parsed(f"<meta name={name} content='x, {shouted}'>", wants=PLAIN)) == [directive]
    for value in (
        directive,
        f"x,{shouted} ",
        f"limpet-test: {shouted}",
        f"*: {directive}",
        f"other: x, limpet-test: {directive}",
    ):
        for content_type in ("text/html", "application/pdf"):
            assert signals(parsed("", f"X-Robots-Tag: {value}", content_type=content_type, wants=PLAIN)) == [directive]


@pytest.mark.parametrize(
    "value",
    ["otherbot: noindex", "otherbot: noindex, nofollow", "limpet-test: index, other: noai", "index", "noindexed", ""],
)
def test_directives_for_others_are_not_for_us(value: str) -> None:
    """A robot's name holds up to the next one."""
    assert signals(parsed("", f"X-Robots-Tag: {value}", wants=PLAIN)) == []
    assert signals(parsed("<meta name=otherbot content=noindex>", wants=PLAIN)) == []


@pytest.mark.parametrize("value", ["unavailable_after: 25 Jun 2027 15:00:00 PST, noindex", "max-snippet: 5, noindex"])
def test_a_directive_with_a_value_is_no_robots_name(value: str) -> None:
    """Its colon does not turn what follows over to somebody else."""
    assert signals(parsed("", f"X-Robots-Tag: {value}", wants=PLAIN)) == ["noindex"]


def test_none_is_both() -> None:
    """The short form."""
    assert signals(parsed("", "X-Robots-Tag: none", wants=PLAIN)) == ["nofollow", "noindex"]


def test_several_fields_add_up() -> None:
    """The strictest reading of all."""
    fields = ("X-Robots-Tag: noai", "x-robots-tag: limpet-test: noarchive")
    assert signals(parsed("<meta name=robots content=noindex>", *fields, wants=PLAIN)) == [
        "noai",
        "noarchive",
        "noindex",
    ]


def test_reservations_and_preferences() -> None:
    """TDM reservation as header or meta; Content-Usage and Content-Signal with what they say."""
    assert signals(parsed("<meta name=tdm-reservation content=1>", wants=PLAIN)) == ["tdm-reservation"]
    assert signals(parsed("", "tdm-reservation: 1", wants=PLAIN)) == ["tdm-reservation"]
    assert signals(parsed("", "tdm-reservation: 0", wants=PLAIN)) == []
    fields = ("Content-Usage: train-ai=n", "Content-Signal: search=yes, ai-train=no")
    assert signals(parsed("", *fields, content_type="image/png", wants=PLAIN)) == [
        "content-signal=search=yes, ai-train=no",
        "content-usage=train-ai=n",
    ]


def test_nofollow_of_the_header_is_obeyed() -> None:
    """On pages every link counts as unendorsed; what the page needs, it needs."""
    found = parsed("<a href=/a><img src=/i><meta http-equiv=refresh content='0;/r'>", "X-Robots-Tag: nofollow")
    assert [(link.url.rpartition("/")[2], link.nofollow) for link in found.links] == [
        ("a", True),
        ("r", True),
        ("i", False),
    ]
    feed = parsed(
        "<rss><item><link>/x</link></item></rss>", "X-Robots-Tag: nofollow", content_type="application/rss+xml"
    )
    assert [link.nofollow for link in feed.links] == [True]


def test_signals_are_bounded_and_printable() -> None:
    """A thousand fields, a megabyte, control characters: flags stay few, short and clean."""
    fields = [(b"Content-Usage", b"\x00\x1b[%d" % number + b"\xff" * 10_000) for number in range(1_000)]
    found = of_headers(fields, b"limpet")
    assert len(found) <= 20
    assert all(signal.isprintable() and len(signal) < 250 for signal in found)
