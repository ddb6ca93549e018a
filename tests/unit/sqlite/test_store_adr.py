"""The decision page quotes the evidence file, and the evidence holds the bounds that were set."""

import json
from pathlib import Path
from typing import Any

from scenarios.store_bench import MARKERS, adr_table

ROOT = Path(__file__).parents[3]


def evidence() -> dict[str, Any]:
    """What was measured."""
    found: dict[str, Any] = json.loads((ROOT / "loadtest/evidence/sqlite_store.json").read_text("utf-8"))
    return found


def test_the_store_page_quotes_the_evidence() -> None:
    """Figures are written by the benchmark, not by hand."""
    page = (ROOT / "docs/adr/0005-sqlite-embedded-store.md").read_text("utf-8")
    assert page.partition(MARKERS[0])[2].partition(MARKERS[1])[0] == adr_table(evidence())


def test_the_store_is_within_its_bounds() -> None:
    """At full load at most 0.40 ms of CPU a page; a million rows are ready within 1.5 s of a resume."""
    loaded = [run for run in evidence()["page"] if run["variant"] == "as_built" and run["flows"] >= 10]
    assert len(loaded) >= 3
    assert max(run["cpu_ms_a_page"] for run in loaded) <= 0.40
    resumes = evidence()["resume"]
    assert min(one["rows"] for one in resumes) >= 999_000
    assert max(one["seconds"] for one in resumes if one["urls_a_host"] == 50) <= 1.5
