"""ADR 0014 quotes what was measured."""

import json
from pathlib import Path

from scenarios.bus_bench import written

ROOT = Path(__file__).parents[3]


def test_the_figures_of_the_adr_are_those_of_the_evidence() -> None:
    """The table is written from the file; measure again to change it."""
    page = (ROOT / "docs/adr/0014-bus-on-kafka.md").read_text()
    record = json.loads((ROOT / "loadtest/evidence/bus_kafka.json").read_text())
    assert record["alone"]["cpu_us_a_message"] > 0
    assert written(page, record) == page
