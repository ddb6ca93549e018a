"""The mark that recovery begins at never passes a capture without its outcome."""

from hypothesis import given
from hypothesis import strategies as st

from limpet.crawlnode.settling import Settling
from limpet.segments import Location


def _capture(offset: int) -> list[Location]:
    return [Location("s", offset, 6), Location("s", offset + 6, 4)]


@given(order=st.permutations(list(range(0, 200, 10))), count=st.integers(0, 20))
def test_the_mark_is_the_first_unsettled_capture(order: list[int], count: int) -> None:
    """Outcomes come in any order; the mark is the start of the earliest capture that lacks one, else the end."""
    settling = Settling()
    for offset in range(0, 200, 10):
        settling.appended(_capture(offset))
    for offset in order[:count]:
        settling.settled(Location("s", offset, 6))
    assert settling.marks() == {"s": min(order[count:], default=200)}


def test_segments_are_followed_apart_and_few_are_kept() -> None:
    """A roll starts a mark of its own; memory does not grow with the crawl."""
    settling = Settling()
    for number in range(20):
        settling.appended([Location(f"s{number}", 0, 10)])
        settling.settled(Location(f"s{number}", 0, 10))
    assert set(settling.marks().values()) == {10}
    assert len(settling.marks()) <= 4
    settling.settled(Location("never heard of", 0, 1))
