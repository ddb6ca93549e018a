"""Where marks go, and what the kept bits leave to chance."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.model.errors import UsageError
from limpet.seen.redis import Address, Layout


def test_the_design_size_collides_less_than_once_in_a_million_crawls() -> None:
    """Ten thousand million URLs in 32 shards; the bound is the birthday bound of the kept bits."""
    layout = Layout(10_000_000_000)
    assert layout.collision < 1e-6
    pairs = layout.shard_capacity**2 / 2
    assert layout.collision == pytest.approx(32 * pairs / 2**layout.kept_bits, rel=1e-6)
    assert layout.kept_bits == pytest.approx(64 + math.log2(1_562_500))


def test_a_capacity_that_would_collide_is_refused_with_the_most_that_would_not() -> None:
    """The message's figure is accepted."""
    with pytest.raises(UsageError, match="is too large") as error:
        Layout(10**12)
    most = int(str(error.value).rpartition(" ")[2])
    assert Layout(most - 10**6).collision < 1e-6
    with pytest.raises(UsageError):
        Layout(most + 10**6)


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_capacity_of_nothing_is_refused(capacity: int) -> None:
    """At least one URL."""
    with pytest.raises(UsageError, match="at least 1"):
        Layout(capacity)


@given(st.integers(1, 10**10), st.lists(st.binary(min_size=16, max_size=16), max_size=20))
def test_places_are_within_bounds_and_follow_the_fingerprint(capacity: int, fps: list[bytes]) -> None:
    """A member is a signed 64-bit integer; the set number is below the number of sets; equal in, equal out."""
    layout = Layout(capacity)
    places = layout.places(fps)
    assert all(0 <= number < layout.sets and -(2**63) <= member < 2**63 for number, member in places)
    assert places == layout.places(fps)


def test_sets_fill_evenly() -> None:
    """At capacity no set comes near the bound beyond which it would stop being an array."""
    chance, layout = random.Random(4), Layout(32 * 200 * 100)
    sizes = [0] * layout.sets
    for number, _ in layout.places([chance.randbytes(16) for _ in range(layout.shard_capacity)]):
        sizes[number] += 1
    assert max(sizes) < 300
    assert min(sizes) > 100


@pytest.mark.parametrize(
    ("text", "shown", "secret"),
    [
        ("10.0.0.1:6380", "10.0.0.1:6380", None),
        ("redis://shard-7", "shard-7:6379", None),
        ("rediss://user:p%40ss@shard-7:7000", "shard-7:7000", "p@ss"),
        ("redis://:word@[::1]:7000/", "[::1]:7000", "word"),
    ],
)
def test_addresses_are_read_and_never_show_a_password(text: str, shown: str, secret: str | None) -> None:
    """Neither `str` nor `repr`."""
    address = Address.parse(text)
    assert str(address) == shown
    assert address.password == secret
    assert secret is None or secret not in repr(address)
    assert address.tls == text.startswith("rediss")


@pytest.mark.parametrize("text", ["", "http://host", "host:port", "redis://", "redis://word@host:1/3", "host:99999"])
def test_other_addresses_are_refused_without_quoting_secrets(text: str) -> None:
    """The text before an @ stays where it is."""
    with pytest.raises(UsageError, match="seen shard address") as error:
        Address.parse(text)
    assert "word" not in str(error.value)
