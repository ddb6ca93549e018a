"""The measured part of docs/segments-hdfs.md is its evidence, and the evidence is plausible."""

import json
from pathlib import Path
from typing import Any

from scenarios.hdfs_bench import MARKERS, table

ROOT = Path(__file__).parents[3]


def evidence() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "loadtest/evidence/hdfs_segments.json").read_text("utf-8"))
    return found


def test_the_page_quotes_its_evidence() -> None:
    """Edit the bench, then write the page again."""
    page = (ROOT / "docs/segments-hdfs.md").read_text("utf-8")
    assert page.partition(MARKERS[0])[2].partition(MARKERS[1])[0] == table(evidence())


def test_a_node_of_the_design_fits() -> None:
    """386 captures a second a node, for well under a millisecond of CPU each; groups share their syncs."""
    for row in evidence()["appends"]:
        if row["in_flight"] >= 64:
            assert row["captures_a_second"] > 386
            assert row["cpu_us_a_capture"] < 500
            assert row["captures_a_group"] > 32
