"""The mark that recovery begins at never passes a capture without its outcome."""

from hypothesis import given
from hypothesis import strategies as st

from limpet.segments import Location, Settling


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


def test_segments_are_followed_apart_and_only_while_they_have_a_writer() -> None:
    """A roll starts a mark of its own; memory does not grow with the crawl."""
    settling = Settling()
    for number in range(20):
        settling.appended([Location(f"s{number}", 0, 10)])
        settling.settled(Location(f"s{number}", 0, 10))
        settling.forget(f"s{number - 2}")
    assert settling.marks() == {"s18": 10, "s19": 10}
    assert settling.mark("s17") == 0
    settling.settled(Location("s17", 0, 1))
    assert settling.mark("s17") == 0
