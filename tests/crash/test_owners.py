"""Owners that lose what they held complete nothing, and what kills its owner again and again is set aside."""

import pytest

from crash.ledger import LEDGER
from crash.owners import asleep, deadly, sluggish

STAGES = ("request", "head", "body")
URLS = ("http://alpha.test/two", "http://beta.test/flaky", "http://alpha.test/robots.txt")


@pytest.mark.parametrize("stage", STAGES)
def test_an_owner_that_slept_through_its_lease(stage: str) -> None:
    """Its completion changes no row: the URL is asked for once more. What came too late has its outcome after all."""
    late = 0
    for url in URLS:
        found, evidence = asleep(url, stage)
        assert found == []
        late += evidence.counters["late_completions"]
    LEDGER.add("owners that slept through a lease", len(URLS), {stage})
    assert late >= 2


def test_a_lease_that_would_not_last() -> None:
    """A URL is sent only if its lease outlasts the longest fetch; the rest of the batch is handed back."""
    assert sluggish() == []


def test_poison_is_set_aside() -> None:
    """A body that kills the parser and a URL that kills the crawl node end in review; all others are crawled."""
    found, lives = deadly()
    assert found == []
    LEDGER.add("deaths of poison", len(lives) - 1, set())
    assert 6 <= len(lives) <= 12
