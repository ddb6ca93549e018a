"""Static shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.membership import StaticShare


@given(workers=st.integers(1, 40), shards=st.integers(1, 64))
def test_every_shard_has_exactly_one_owner(workers: int, shards: int) -> None:
    """Whatever the number of workers, shares are disjoint and leave nothing out."""
    shares = [StaticShare(slot, workers, shards).share() for slot in range(workers)]
    assert sorted(shard for share in shares for shard in share) == list(range(shards))


def test_a_slot_beyond_the_workers_is_refused() -> None:
    """A share of nobody would leave shards without an owner."""
    with pytest.raises(ValueError, match="slot 2"):
        StaticShare(2, 2, 32)
