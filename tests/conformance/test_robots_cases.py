"""Verdicts that independent suites agree on: robots.json and robots_extra.json of the case folder."""

import base64
import gzip
import json
import os
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from limpet.robots import parse

CASES = Path(os.environ.get("LIMPET_CASES") or Path(__file__).parents[2] / ".." / "shared" / "cases")
STRICT_LEVELS = ("core", "rfc-text-only")

SELF_REFERENCE = "r91869d6c98"
"""Asks for /robots.txt itself, which Google's parser treats like any path and RFC 9309 section 2.2.2 exempts."""

OUTSIDE_THE_RFC = {
    "r166037dc01": "decodes UTF-16, where section 2.3 demands UTF-8",
    "r91e558fadb": "reads a long Crawl-delay as Disallow, where this crawler obeys it at any length",
    "rcbe2b29913": "drops a star from the middle of an agent's name",
    "r14bc18acb8": "lets a group's longer name capture an agent that it begins with",
    "refbc5f6337": "lets a group's shorter name capture an agent that begins with it",
}
"""Cases that one suite alone forbids by a rule of its own; everybody else allows them."""


@cache
def load(name: str) -> list[dict[str, Any]]:
    """The cases of one file, or a skip that says why."""
    path = CASES / name
    if not path.is_file():
        pytest.skip(f"The case folder does not hold {name}; set LIMPET_CASES to the folder that does.")
    cases: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cases"]
    return cases


def body_of(case: dict[str, Any]) -> bytes:
    """The raw bytes of a case's robots.txt."""
    packed = case.get("robots_gz_b64")
    if packed:
        return gzip.decompress(base64.b64decode(packed))
    text: str = case["robots"]
    return text.encode("utf-8")


def _verdict(case: dict[str, Any]) -> str:
    return "allow" if parse(body_of(case)).allows(case["user_agent"], case["url"]) else "disallow"


def _outcomes() -> dict[str, Counter[str]]:
    """Per level: how many pass, are unsafe (allowed, should not be) or over-blocked."""
    table: dict[str, Counter[str]] = {}
    for case in load("robots.json"):
        got = _verdict(case)
        outcome = "pass" if got == case["expected"] else "unsafe" if got == "allow" else "over-block"
        if case["expected"] == "disputed":
            outcome = got
        table.setdefault(case["level"], Counter())[outcome] += 1
    return table


@pytest.mark.parametrize("level", STRICT_LEVELS)
def test_every_undisputed_case_passes(level: str) -> None:
    """Where the source suite and the text of RFC 9309 agree, so do we."""
    cases = [case for case in load("robots.json") if case["level"] == level]
    assert cases
    assert [case["id"] for case in cases if _verdict(case) != case["expected"]] == []


def test_nothing_is_allowed_that_a_suite_forbids() -> None:
    """At every level but "disputed": no unsafe answer, save those that contradict RFC 9309 or invent a rule."""
    cases = [case for case in load("robots.json") if case["expected"] == "disallow"]
    assert cases
    unsafe = {case["id"] for case in cases if _verdict(case) == "allow"}
    assert unsafe == {SELF_REFERENCE, *OUTSIDE_THE_RFC}
    google = {case["id"]: case["google_cpp_says"] for case in cases}
    assert {google[case_id] for case_id in OUTSIDE_THE_RFC} == {"allow"}


def test_other_levels_are_reported() -> None:
    """The weaker levels are measured and printed (run with -s); over-blocking is bounded by what is known today."""
    table = _outcomes()
    for level, outcomes in sorted(table.items()):
        print(f"{level:14}", dict(sorted(outcomes.items())))  # noqa: T201 - a report for the reader of the run
    assert set(table) == {"core", "rfc-text-only", "google-only", "nontoken-ua", "suite-only", "disputed"}
    over = {level: outcomes["over-block"] for level, outcomes in table.items() if level != "disputed"}
    assert over["core"] == over["rfc-text-only"] == 0
    assert over["google-only"] <= 4
    assert over["nontoken-ua"] <= 3
    assert over["suite-only"] <= 8


def test_adversarial_cases_pass_in_time() -> None:
    """Every case of robots_extra.json, within its own time limit where it has one."""
    cases = load("robots_extra.json")
    assert cases
    for case in cases:
        start = time.perf_counter()
        assert _verdict(case) == case["expected"], case["id"]
        assert time.perf_counter() - start < case.get("max_seconds", 1.0), case["id"]
