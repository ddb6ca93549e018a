"""The measured part of docs/local-servers.md is its evidence, and tells what went wrong."""

import json
from typing import Any

from scenarios.siege_page import EVIDENCE, MARKERS, PAGE, page_with, render, seconds


def evidence() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EVIDENCE.read_text("utf-8"))
    return found


def test_the_page_shows_what_was_measured() -> None:
    """No figure is typed by hand: page and evidence never drift apart."""
    text = PAGE.read_text("utf-8")
    assert text == page_with(text, render(evidence())), "run: PYTHONPATH=loadtest python -m scenarios.siege_page"
    assert text.count(MARKERS[0]) == text.count(MARKERS[1]) == 1


def test_every_case_is_without_anomaly_and_violation() -> None:
    """What was written down is what was asserted."""
    for case in evidence().values():
        assert (case["anomalies"], case["violations"]) == (0, 0)


def test_an_anomaly_is_told() -> None:
    """The page says what the figures say, good or bad."""
    case = next(iter(evidence().values()))
    assert "| anomalies | 7 |" in render({"siege": {**case, "anomalies": 7}})


def test_what_was_not_measured_is_none() -> None:
    """Nor is one value a range."""
    assert [seconds([]), seconds([None]), seconds([2.4]), seconds([2.4, None, 9.6])] == [
        "none",
        "none",
        "2 s",
        "2 to 10 s",
    ]
