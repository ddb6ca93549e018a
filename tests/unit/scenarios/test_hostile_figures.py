"""What the hostile scenario calls good."""

import pytest

from scenarios.hostile import Crawl, compared

CALM = Crawl(
    hostile=False,
    pages=1000,
    seconds=10.0,
    pages_per_second=100.0,
    rss_mib_max=100.0,
    cpu_seconds=3.0,
    whole_seconds=12.0,
    violations=0,
    wire_bytes=1,
    exit_code=0,
)


def beside(**changes: float) -> Crawl:
    fields = {name: getattr(CALM, name) for name in Crawl.__slots__}
    return Crawl(**{**fields, "hostile": True, **changes})


@pytest.mark.parametrize(
    ("changes", "holds"),
    [
        ({}, True),
        ({"pages_per_second": 95.5, "rss_mib_max": 150.0}, True),
        ({"pages_per_second": 94.0}, False),
        ({"rss_mib_max": 400.0}, False),
        ({"violations": 1}, False),
        ({"pages": 999}, False),
    ],
)
def test_each_target_counts(changes: dict[str, float], holds: bool) -> None:
    """Slower by more than a twentieth, memory, impoliteness, a page left out: each alone is a miss."""
    assert compared([CALM, beside(**changes)])["holds"] is holds
