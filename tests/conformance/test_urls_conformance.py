"""The URL cases of the WHATWG suite, http and https part."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from limpet.model.urls import InvalidUrl, canonicalize, canonicalize_all, split

CASES = Path(os.environ.get("LIMPET_CASES", Path(__file__).parents[2].parent / "shared" / "cases")) / "urls.json"


@pytest.fixture(scope="module")
def whatwg() -> list[dict[str, Any]]:
    if not CASES.is_file():
        pytest.skip(f"the shared URL cases are not here ({CASES}); set LIMPET_CASES to the folder that has them")
    found = [case for case in json.loads(CASES.read_text())["cases"] if case["set"] == "whatwg"]
    assert len(found) > 200, "the case file no longer has the suite this test is about"
    return found


def expected(case: dict[str, Any]) -> str | None:
    """The suite's serialisation less fragment and userinfo; None for failures and for other schemes."""
    href = case["href"]
    if case["failure"] or not re.match("https?:", href):
        return None
    return re.sub(r"^(https?://)[^/?#]*@", r"\1", href.partition("#")[0])


def outcome(case: dict[str, Any]) -> str | None:
    try:
        return canonicalize(case["input"], case["base"])
    except InvalidUrl:
        return None


def test_every_case_gives_the_expected_url_or_is_refused(whatwg: list[dict[str, Any]]) -> None:
    """Canonical form = the standard's serialisation without fragment and userinfo; everything else is InvalidUrl."""
    wrong = [(case["id"], outcome(case), expected(case)) for case in whatwg if outcome(case) != expected(case)]
    assert wrong == []


def test_the_batch_form_agrees(whatwg: list[dict[str, Any]]) -> None:
    """canonicalize_all answers as canonicalize does, None in place of the error."""
    based = [case for case in whatwg if case["base"] is not None]
    assert len(based) > 50
    for case in based:
        assert canonicalize_all([case["input"]], case["base"]) == [expected(case)]


def test_canonical_forms_are_stable_and_can_be_split(whatwg: list[dict[str, Any]]) -> None:
    """A canonical URL is its own canonical form, and its parts make it up again."""
    for url in filter(None, map(outcome, whatwg)):
        parts = split(url)
        assert canonicalize(url) == url
        assert parts.authority + parts.path_query == url
        assert url.isascii()
        assert not set(url) & set(' <>\r\n\t"') or '"' in parts.host
