"""The page of measured figures and its evidence."""

import json

import pytest

from scenarios import cluster_figures
from scenarios.figures import DEFINITIONS
from scenarios.performance import CLUSTER, EVIDENCE, PAGE, render


def test_the_page_shows_what_was_measured() -> None:
    """No figure is typed by hand: page and evidence never drift apart."""
    written = PAGE.read_text(encoding="utf-8")
    assert written == render(json.loads(EVIDENCE.read_text()), json.loads(CLUSTER.read_text())), (
        "run: PYTHONPATH=loadtest python -m scenarios.performance"
    )


def test_the_evidence_has_every_figure_and_names_no_machine() -> None:
    """All parts were measured with the full form of the benchmark."""
    parts = json.loads(EVIDENCE.read_text())["parts"]
    assert {name for part in parts.values() for name in part["figures"]} == set(DEFINITIONS)
    assert parts["crawl"]["details"]["hosts"] == 1000
    assert parts["resume"]["details"]["urls"] == 1_000_000
    assert all("node" not in part["machine"] and "host" not in part["machine"] for part in parts.values())


@pytest.mark.parametrize("value", [2.5, 3.5])
def test_a_missed_target_is_shown_as_missed(value: float) -> None:
    """The page tells what the figures say, good or bad."""
    part = json.loads(EVIDENCE.read_text())["parts"]["crawl"]
    cluster = json.loads(CLUSTER.read_text()) | {"figures": {}}
    page = render({"parts": {"crawl": {**part, "figures": {"cpu_ms_per_page": value}}}}, cluster)
    assert ("missed" in page) == (value > 3.0)


def test_the_evidence_of_the_cluster_is_whole() -> None:
    """Every figure, from the full form of the benchmark, and no machine named."""
    found = json.loads(CLUSTER.read_text())
    assert set(found["figures"]) == set(cluster_figures.DEFINITIONS)
    assert found["details"]["pages"] >= 6_000
    assert not {"node", "host"} & set(found["machine"])
