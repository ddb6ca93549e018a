"""An outage of ours stops fetching, and never makes the web our retry buffer."""

from collections import Counter

import pytest

from crash.ledger import LEDGER
from crash.outages import bus_down, count_publishes, hanging
from crash.rehearsal import Rehearsal
from crash.world import dying_web, small_web, wide_web

EVERY = 4
ASKED_MAX = 7  # 30 s, then twice as long each time: the sixth wait is longer than the patience of ten minutes


def test_the_bus_goes_down_at_any_publish() -> None:
    """Nothing is sent once health is doubtful; when the bus is back the crawl ends, each body fetched once."""
    places = range(1, count_publishes(small_web()) + 1)
    stories = [bus_down(nth, small_web()) for nth in places]
    LEDGER.add("outages", len(stories), {"publish"})
    assert [found[0] for found in stories if found] == []
    assert len(stories) > 10


def test_the_bus_goes_down_with_much_to_send() -> None:
    """The same with a URL always at hand: for 5 s at most requests go on, then none until the bus is back."""
    places = range(1, count_publishes(wide_web()) + 1, EVERY)
    stories = [bus_down(nth, wide_web()) for nth in places]
    LEDGER.add("outages", len(stories), {"publish"})
    assert [found[0] for found in stories if found] == []


@pytest.mark.parametrize("begin", [0.5, 3.1, 8.3])
def test_the_archive_or_the_store_hangs(begin: float) -> None:
    """A disk that does not answer is an outage like any other: what was fetched waits in memory."""
    assert hanging("appends", begin) == []
    assert hanging("commits", begin) == []
    LEDGER.add("outages", 2, {"append", "commit"})


def test_sites_that_die_together_end_the_crawl() -> None:
    """They look like an outage of ours: excused, asked ever less often, left when patience is over."""
    with Rehearsal.of(dying_web()) as rehearsal:
        life = rehearsal.live()
        asked = Counter(visit.url for visit in rehearsal.visits if not visit.url.endswith("/robots.txt"))
        assert life.ending == "done"
        assert {1 < count <= ASKED_MAX for count in asked.values()} == {True}
        assert len(asked) == 3
