"""The decision page quotes the evidence file, and the evidence holds the bound that the design sets."""

import json
from pathlib import Path

from scenarios.warc_bench import MARKERS, adr_table

ROOT = Path(__file__).parents[3]


def test_the_page_quotes_the_evidence() -> None:
    """Figures are written by the benchmark, not by hand."""
    evidence = json.loads((ROOT / "loadtest/evidence/warc_hot_path.json").read_text("utf-8"))
    page = (ROOT / "docs/adr/0003-own-warc-hot-path.md").read_text("utf-8")
    assert page.partition(MARKERS[0])[2].partition(MARKERS[1])[0] == adr_table(evidence)


def test_the_hot_path_is_within_its_bound() -> None:
    """A page of 72 KB, compressed on the wire, takes at most 0.2 ms to become records; warcio takes longer."""
    figures = json.loads((ROOT / "loadtest/evidence/warc_hot_path.json").read_text("utf-8"))["cpu_ms_per_capture"]
    assert figures["limpet"] <= 0.2
    assert figures["limpet"] < figures["warcio"]
