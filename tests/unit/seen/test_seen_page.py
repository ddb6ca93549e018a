"""The measured part of docs/seen.md is its evidence, and the evidence meets the targets."""

import json
from pathlib import Path
from typing import Any

from scenarios.seen_bench import MARKERS, TARGET_BYTES, table

ROOT = Path(__file__).parents[3]


def evidence() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "loadtest/evidence/seen_memory.json").read_text("utf-8"))
    return found


def test_the_page_quotes_its_evidence() -> None:
    """Edit the bench, then write the page again."""
    page = (ROOT / "docs/seen.md").read_text("utf-8")
    assert page.partition(MARKERS[0])[2].partition(MARKERS[1])[0] == table(evidence())


def test_the_evidence_meets_the_targets() -> None:
    """Five million URLs; bytes a URL, arrays throughout, nothing missing, nothing invented, chance of a collision."""
    found = evidence()
    full = found["fills"][-1]
    assert full["urls"] >= 5_000_000 - 32
    assert full["bytes_a_url"] <= TARGET_BYTES
    assert all(one["intset_share"] == 1.0 for one in found["fills"])
    assert found["read_back"]["missing"] == found["read_back"]["invented"] == found["unclean_receipts"] == 0
    assert found["design"]["collision"] < 1e-6
