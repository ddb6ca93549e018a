"""Which entries of the job index a process looks at again, without a server."""

import pytest

from limpet.urlstore.cassandra import jobindex
from limpet.urlstore.cassandra.jobindex import AGAIN_SECONDS, LAG_US, LOOKED_MAX, Entry, Looked

ENTRY = Entry(10, b"f" * 16, 5)


def test_a_settled_entry_is_never_looked_at_again_unless_it_is_written_again() -> None:
    """Its job is in a state that has an entry of its own."""
    looked = Looked()
    assert looked.needs(ENTRY, 0)
    looked.note(ENTRY, 0, settled=True)
    assert not looked.needs(ENTRY, 10**6)
    looked.forget(ENTRY)
    assert looked.needs(ENTRY, 10**6)


def test_an_entry_whose_write_may_be_under_way_is_looked_at_again_until_it_cannot_be() -> None:
    """Not at every turn, and not after the lag."""
    looked, lag = Looked(), LAG_US / 1e6
    looked.note(ENTRY, 100, settled=False)
    assert not looked.needs(ENTRY, 100 + AGAIN_SECONDS - 0.1)
    assert looked.needs(ENTRY, 100 + AGAIN_SECONDS)
    looked.note(ENTRY, 100 + AGAIN_SECONDS, settled=False)
    assert not looked.needs(ENTRY, 100 + AGAIN_SECONDS + 1)
    looked.note(ENTRY, 100 + lag + 1, settled=False)
    assert not looked.needs(ENTRY, 10**9)


@pytest.mark.parametrize("settled", [True, False])
def test_what_is_remembered_is_bounded(settled: bool) -> None:
    """Beyond that all is forgotten, and looked at once more."""
    looked = Looked()
    for number in range(LOOKED_MAX + 5):
        looked.note(Entry(number, b"f" * 16, 5), 0, settled=settled)
    assert looked.needs(Entry(0, b"f" * 16, 5), 1)
    assert not looked.needs(Entry(LOOKED_MAX + 4, b"f" * 16, 5), 1)


def test_looking_again_is_quicker_than_a_lease_and_slower_than_a_turn() -> None:
    """The bounds keep their order."""
    assert 1 < jobindex.AGAIN_SECONDS < jobindex.LAG_US / 2e6
    assert jobindex.STEP_US < jobindex.LAG_US < jobindex.SLOT_US
