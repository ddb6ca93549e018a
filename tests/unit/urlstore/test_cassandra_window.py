"""How far a reader of the due index moves, and what it must not pass."""

import random

from limpet.urlstore.cassandra.cursors import Window
from limpet.urlstore.cassandra.dueindex import START
from limpet.urlstore.cassandra.rows import Entry


def entries(*positions: int) -> list[Entry]:
    """Entries of one lane."""
    return [Entry(1, at_us, b"f") for at_us in positions]


def test_the_cursor_moves_over_what_is_passed_and_stops_before_what_is_not() -> None:
    """A held or unknown entry holds it, whatever was passed behind."""
    window, lane = Window(START), entries(10, 20, 30, 40)
    for entry in (lane[0], lane[1], lane[3]):
        window.pass_by(entry)
    window.hold(lane[2], lease_us=1000)
    assert window.advance(lane, safe_us=99) is False
    assert window.place == (20, b"f")
    assert window.holds()
    window.pass_by(lane[2])
    assert window.advance(lane, safe_us=99) is True
    assert window.place == (40, b"f")
    assert not window.holds()


def test_the_cursor_stays_behind_what_may_still_be_on_its_way() -> None:
    """An entry younger than the lag is not passed, although it is dealt with: others may come to stand before it."""
    window, lane = Window(START), entries(10, 20)
    for entry in lane:
        window.pass_by(entry)
    assert window.advance(lane, safe_us=15) is False
    assert window.place == (10, b"f")


def test_rows_are_looked_at_unless_they_are_known_to_be_passed_or_leased() -> None:
    """A lease that has run out is looked at again."""
    window = Window(START)
    (entry,) = entries(10)
    assert window.is_open(entry, now_us=50)
    window.hold(entry, lease_us=60)
    assert not window.is_open(entry, now_us=59)
    assert window.is_open(entry, now_us=60)
    window.pass_by(entry)
    assert not window.is_open(entry, now_us=99)
    window.free(entry)
    assert window.is_open(entry, now_us=50)


def test_no_walk_ever_passes_an_entry_that_was_not_dealt_with() -> None:
    """Marks in any order, walks at any time: all at or before the cursor was passed, and nothing is kept of it."""
    for seed in range(200):
        dice = random.Random(seed)
        lane = entries(*range(12))
        window, passed = Window(START), set()
        for _ in range(40):
            entry = dice.choice(lane)
            match dice.randrange(4):
                case 0 | 1:
                    window.pass_by(entry)
                    passed.add(entry)
                case 2 if (entry.at_us, entry.fp) > window.place:
                    window.hold(entry, 1000)
                    passed.discard(entry)
                case _:
                    window.advance(lane, safe_us=dice.randrange(14))
            behind = {entry for entry in lane if (entry.at_us, entry.fp) <= window.place}
            assert behind <= passed, seed
            assert all((at_us, fp) > window.place for at_us, fp in window._marks)
