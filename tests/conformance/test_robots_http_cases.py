"""Retrieval behaviour of RFC 9309 sections 2.3 to 2.5: one test per case of robots_http.json, on the pure machine."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from limpet.robots import (
    BODY_BYTES_MAX,
    Fetch,
    Follow,
    HttpAnswer,
    License,
    NetworkFailure,
    RobotsAnswer,
    RobotsJudge,
    RobotsState,
    Settled,
    Wait,
    advance,
    gives_up,
    next_step,
)
from limpet.robots.retrieval import FailureKind

CASES = Path(os.environ.get("LIMPET_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases")
T0 = 1_800_000_000_000_000
DAY = 86_400_000_000
CLOSED = b"User-agent: *\nDisallow: /x\n"


class Authority:
    """One authority's robots state, driven as a crawl node drives it; keeps its own clock."""

    def __init__(self) -> None:
        self.state = RobotsState()
        self.now_us = T0
        self._judge = RobotsJudge()

    def fetch(self, *answers: RobotsAnswer) -> None:
        """Ask for robots.txt and follow it through these answers, the last of which settles it."""
        for hops, answer in enumerate(answers):
            step = next_step(hops, answer)
            assert isinstance(step, Settled) == (hops == len(answers) - 1), (hops, step)
            if isinstance(step, Settled):
                self.state = advance(self.state, step, self.now_us, 0.5)

    def ask(self, path: str = "/x") -> License | Wait | Fetch:
        """May /x be fetched now?"""
        return self._judge.license(self.state, "limpet", f"https://h.example{path}", self.now_us)

    def allows(self, path: str = "/x") -> bool:
        """Whether the answer is a licence that allows."""
        answer = self.ask(path)
        return isinstance(answer, License) and answer.allowed


def _h00() -> None:
    """200: parse and obey."""
    authority = Authority()
    authority.fetch(HttpAnswer(200, body=CLOSED))
    assert not authority.allows("/x")
    assert authority.allows("/y")


def _h01() -> None:
    """Five hops are followed, across authorities; the rules count for the authority first asked."""
    hops = [HttpAnswer(301, location=b"https://other.example/r%d" % hop) for hop in range(5)]
    authority = Authority()
    authority.fetch(*hops, HttpAnswer(200, body=CLOSED))
    assert not authority.allows("/x")
    assert authority.allows("/y")


def _h02() -> None:
    """More than five: the RFC permits "unavailable"; the stricter "unreachable" is taken."""
    authority = Authority()
    authority.fetch(*[HttpAnswer(302, location=b"/robots.txt")] * 6)
    assert isinstance(authority.ask(), Wait)


def _h03() -> None:
    """4xx: anything may be fetched; 429 alone is taken for a refusal."""
    for status in set(range(400, 500)) - {429}:
        authority = Authority()
        authority.fetch(HttpAnswer(status))
        assert authority.allows(), status
    authority = Authority()
    authority.fetch(HttpAnswer(429))
    assert isinstance(authority.ask(), Wait)


def _h04() -> None:
    """5xx: complete disallow."""
    for status in range(500, 600):
        authority = Authority()
        authority.fetch(HttpAnswer(status, body=b"User-agent: *\nAllow: /\n"))
        assert isinstance(authority.ask(), Wait), status


def _h05() -> None:
    """Network failures: complete disallow."""
    kinds: list[FailureKind] = ["dns", "refused", "connect", "timeout", "reset", "tls", "protocol", "gate", "proxy"]
    for kind in kinds:
        authority = Authority()
        authority.fetch(NetworkFailure(kind))
        assert isinstance(authority.ask(), Wait), kind


def _h06() -> None:
    """After 30 days the RFC permits access; here the URLs fail instead, and nothing is ever allowed."""
    authority = Authority()
    while gives_up(authority.state, authority.now_us) is None:
        authority.fetch(HttpAnswer(503))
        assert not authority.allows()
        authority.now_us = authority.state.retry_at_us
        assert authority.now_us < T0 + 40 * DAY
    assert authority.now_us >= T0 + 30 * DAY
    assert not authority.allows()


def _h07() -> None:
    """Errors in the body: every line that can be parsed counts."""
    authority = Authority()
    authority.fetch(HttpAnswer(200, body=b"<html>\x00\xff\n:::\nUser-agent: *\n???\nDisallow: /x\n\xfe"))
    assert not authority.allows("/x")
    assert authority.allows("/y")


def _h08() -> None:
    """A copy older than 24 hours is not used; a younger one is, also while the site fails."""
    authority = Authority()
    authority.fetch(HttpAnswer(200, body=CLOSED))
    authority.now_us = T0 + DAY - 1
    authority.fetch(HttpAnswer(500))
    assert authority.allows("/y")
    authority.now_us = T0 + DAY
    assert not authority.allows("/y")


def _h09() -> None:
    """A file over the limit: what is inside 500 KiB counts."""
    inside = b"User-agent: *\nDisallow: /x\n"
    filler = b"#" * (BODY_BYTES_MAX - len(inside) - 1) + b"\n"
    authority = Authority()
    authority.fetch(HttpAnswer(200, body=inside + filler + b"Disallow: /y\n" * 50_000))
    assert not authority.allows("/x")
    assert authority.allows("/y")
    assert authority.state.copy is not None
    assert len(authority.state.copy.body) == BODY_BYTES_MAX


def _h10() -> None:
    """State belongs to one scheme, host and port: two authorities share nothing, not even through one judge."""
    judge = RobotsJudge()
    closed, opened = Authority(), Authority()
    closed.fetch(HttpAnswer(200, body=b"User-agent: *\nDisallow: /\n"))
    opened.fetch(HttpAnswer(404))
    verdicts = [
        judge.license(state, "limpet", url, T0)
        for state, url in ((closed.state, "https://h:8443/x"), (opened.state, "https://h/x"))
    ]
    assert [isinstance(verdict, License) and verdict.allowed for verdict in verdicts] == [False, True]
    assert judge.license(RobotsState(), "limpet", "http://h/x", T0) == Fetch()


TESTS: dict[str, Callable[[], None]] = {
    "h00": _h00,
    "h01": _h01,
    "h02": _h02,
    "h03": _h03,
    "h04": _h04,
    "h05": _h05,
    "h06": _h06,
    "h07": _h07,
    "h08": _h08,
    "h09": _h09,
    "h10": _h10,
}


@pytest.mark.parametrize("case_id", TESTS)
def test_retrieval_case(case_id: str) -> None:
    """The rule stands in the docstring of the case's function."""
    TESTS[case_id]()


def test_no_retrieval_case_is_left_out() -> None:
    """Every case of the file has its test here."""
    path = CASES / "robots_http.json"
    if not path.is_file():
        pytest.skip("The case folder does not hold robots_http.json; set LIMPET_CASES to the folder that does.")
    assert {case["id"] for case in json.loads(path.read_text("utf-8"))["cases"]} == set(TESTS)


def test_a_redirect_is_followed_to_its_raw_location() -> None:
    """The caller resolves and gates the location; its bytes are handed on untouched."""
    assert next_step(0, HttpAnswer(308, location=b"/caf\xe9 x")) == Follow(b"/caf\xe9 x")
