"""Numbers for Prometheus: a typed registry, a text that its parser reads, and no label that the web could choose."""

import re

import pytest

from limpet.obs.metrics import (
    DROPPED,
    METRICS,
    READY,
    RECEIPTS,
    SERIES_MAX,
    STATEMENTS,
    Kind,
    Metric,
    Sample,
    counted,
    exposition,
)

OURS = {"statement", "conditional", "operation", "verdict", "state"}
LABEL = r'[a-z_]+="(?:[^"\\]|\\.)*"'
LINE = re.compile(rf"[a-z_]+(\{{{LABEL}(,{LABEL})*\}})? [0-9.e+-]+\Z")


def test_the_registry_names_units_and_only_labels_of_ours() -> None:
    """Never a URL, a host or an address; counters end in total; each name is there once."""
    assert {label for metric in METRICS for label in metric.labels} == OURS
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert all(metric.name.startswith("limpet_") for metric in METRICS)
    assert all(metric.name.endswith("_total") is (metric.kind is Kind.COUNTER) for metric in METRICS)
    assert all(metric.help.endswith(".") for metric in METRICS)


def test_the_text_is_what_a_scraper_reads() -> None:
    """Help and type once, then a line for each series; what needs an escape has it."""
    text = exposition([Sample(READY, 1), *counted(STATEMENTS, [(("url_get", "false"), 7), (('a"b\\c\n', "true"), 2)])])
    assert "# TYPE limpet_ready gauge\nlimpet_ready 1\n" in text
    assert 'limpet_cassandra_statements_total{statement="url_get",conditional="false"} 7\n' in text
    assert r'{statement="a\"b\\c\n",conditional="true"} 2' in text
    assert text.count("# TYPE limpet_cassandra_statements_total counter") == 1
    assert all(LINE.match(line) for line in text.splitlines() if not line.startswith("#"))


def test_series_are_bounded_and_what_is_left_out_is_told() -> None:
    """However many there are."""
    text = exposition(counted(RECEIPTS, [((f"op{n}", "admitted"), 1) for n in range(SERIES_MAX + 5)]))
    assert text.count("limpet_receipts_total{") == SERIES_MAX
    assert f"{DROPPED.name} 5\n" in text


@pytest.mark.parametrize(
    "sample",
    [
        Sample(Metric(name="limpet_other", kind=Kind.GAUGE, help="Not registered."), 1),
        Sample(STATEMENTS, 1, ("url_get",)),
    ],
)
def test_what_is_not_registered_is_refused(sample: Sample) -> None:
    """A series that nobody declared, or with other labels."""
    with pytest.raises(ValueError, match="is not registered"):
        exposition([sample])
