"""What hosts share, by the public suffix list and by their addresses."""

from pathlib import Path

import pytest

from limpet.config.settings import Politeness, SharedRange, load_settings
from limpet.model.errors import UsageError
from limpet.politeness.keys import address_keys, candidates, domain_key, global_key, platform_key, platform_of


@pytest.mark.parametrize(
    ("host", "platform"),
    [
        ("someone.github.io", "github.io"),
        ("a.b.github.io", "github.io"),
        ("github.io", "github.io"),
        ("blog.blogspot.com", "blogspot.com"),
        ("bucket.s3.amazonaws.com", "amazonaws.com"),
        ("www.example.co.uk", None),
        ("example.org", None),
        ("localhost", None),
        ("192.0.2.7", None),
        ("2001:db8::1", None),
        ("someone.github.io.", "github.io"),
    ],
)
def test_a_platform_is_the_icann_domain_above_a_private_suffix(host: str, platform: str | None) -> None:
    """Tenants of one platform are strangers to each other, and still one operator's machines."""
    assert platform_of(host) == platform


def test_ceilings_of_domain_and_platform() -> None:
    """2 connections a domain; 8 connections and 4 starts a second a platform."""
    assert domain_key("www.example.co.uk", Politeness()).name == "domain example.co.uk"
    assert domain_key("www.example.co.uk", Politeness()).connections_max == 2
    key = platform_key("someone.github.io", Politeness())
    assert key is not None
    assert (key.connections_max, key.interval_us) == (8, 250_000)


def test_an_address_is_an_ipv4_address_or_an_ipv6_network() -> None:
    """/32 and /64; a mapped IPv4 address is the IPv4 address; what cannot be read has no key."""
    keys = address_keys(["192.0.2.7", "2001:db8:1:2:3::4", "2001:db8:1:2::9", "::ffff:192.0.2.7", "x"], Politeness())
    assert [key.name for key in keys] == ["address 192.0.2.7", "address 2001:db8:1:2::/64"]
    assert {(key.connections_max, key.interval_us) for key in keys} == {(2, 200_000)}


def test_a_shared_range_raises_the_ceiling_of_its_addresses_and_never_lowers_one() -> None:
    """Named CDN ranges stand for many servers each."""
    wide = SharedRange(networks=("198.51.100.0/24",), connections_max=16, starts_per_second_max=40)
    low = SharedRange(networks=("203.0.113.0/24",), connections_max=1, starts_per_second_max=1)
    policy = Politeness(shared_ranges={"wide": wide, "low": low})
    inside, outside, lowered = address_keys(["198.51.100.9", "192.0.2.7", "203.0.113.1"], policy)
    assert (inside.connections_max, inside.interval_us) == (16, 25_000)
    assert (outside.connections_max, outside.interval_us) == (2, 200_000)
    assert (lowered.connections_max, lowered.interval_us) == (2, 200_000)


def test_a_shared_range_that_is_no_network_is_refused_by_name(tmp_path: Path) -> None:
    """At the start, not at the first send."""
    path = tmp_path / "limpet.toml"
    path.write_text('[politeness.shared_ranges.cdn]\nnetworks = ["198.51.100.1/24"]\n')
    with pytest.raises(UsageError, match=r"198\.51\.100\.1/24"):
        load_settings(path)


def test_the_global_cap_is_half_as_fast_again_as_the_budget() -> None:
    """Catch-up never goes beyond 1.5 times the day's average."""
    assert global_key(Politeness()) is None
    key = global_key(Politeness(budget_per_day=86_400))
    assert key is not None
    assert key.interval_us == 666_667


def test_candidates_are_what_an_exchange_may_connect_to() -> None:
    """The first, one of the other family, then the rest: three at most."""
    assert candidates(["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::1"]) == (
        "192.0.2.1",
        "2001:db8::1",
        "192.0.2.2",
    )
    assert candidates([]) == ()
