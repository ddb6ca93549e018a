"""What a robots.txt answer says of its host."""

import pytest

from limpet.crawlnode.exchange import robots_answer
from limpet.fetch import Capture, Head, NetFailure, NetFailureKind
from limpet.politeness import Answer


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, Answer.GOOD),
        (404, Answer.GOOD),
        (301, Answer.GOOD),
        (401, Answer.NEITHER),
        (403, Answer.NEITHER),
        (408, Answer.TRANSIENT),
        (429, Answer.REFUSED),
        (500, Answer.TRANSIENT),
        (503, Answer.TRANSIENT),
    ],
)
def test_statuses_feed_the_breaker_like_those_of_pages(status: int, answer: Answer) -> None:
    """But a robots.txt that is forbidden allows, and says nothing of the pages."""
    assert robots_answer(Capture(url="http://a.test/robots.txt", head=Head(status=status, headers=()))) is answer


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("dns", Answer.TRANSIENT),
        ("refused", Answer.TRANSIENT),
        ("timeout", Answer.TRANSIENT),
        ("tls", Answer.TRANSIENT),
        ("reset", Answer.TRANSIENT),
        ("gate", Answer.NEITHER),
        ("proxy", Answer.NEITHER),
    ],
)
def test_failures_feed_the_breaker_unless_they_are_ours(kind: NetFailureKind, answer: Answer) -> None:
    """What never went out, or failed at our own proxy, is no trouble of the host."""
    failure = NetFailure(kind=kind, detail="x")
    assert robots_answer(Capture(url="http://a.test/robots.txt", failure=failure)) is answer
