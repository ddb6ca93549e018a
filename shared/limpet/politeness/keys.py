"""What is bounded besides the host: its domain, the platform it lives on, its addresses, and the crawl as a whole.

A key names one thing that many hosts share. Its ceiling holds over all of them, whichever worker they belong to.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Final

import msgspec
from publicsuffixlist import PublicSuffixList

from limpet.config.settings import Politeness
from limpet.model.identity import registrable_domain

DAY_SECONDS: Final = 86_400
CATCH_UP_FACTOR: Final = 1.5
GLOBAL_BURST_SECONDS: Final = 1.0
ADDRESSES_MAX: Final = 3
"""As many as one exchange may try to connect to (`limpet.fetch.connect`)."""
GLOBAL: Final = "crawl"
"""The name of `global_key`, which every request spends."""
_PLATFORMS_CACHED_MAX: Final = 65_536
_IPV6_PREFIX: Final = 64


class Key(msgspec.Struct, frozen=True):
    """One ceiling. `connections_max` 0 = no bound on connections; `interval_us` 0 = no bound on starts.

    Starts are `interval_us` apart, but for `burst_us` of lateness that may be caught up. `local`: it never spans
    workers.
    """

    name: str
    connections_max: int = 0
    interval_us: int = 0
    burst_us: int = 0
    local: bool = False


def domain_key(host: str, policy: Politeness) -> Key:
    """The registrable domain: all of its hosts have one owner, so its ceiling never spans workers."""
    return Key(f"domain {registrable_domain(host)}", policy.domain_connections_max, local=True)


def platform_key(host: str, policy: Politeness) -> Key | None:
    """The hosting platform, None for a host that is on none."""
    platform = platform_of(host)
    if platform is None:
        return None
    interval_us = _interval_us(policy.platform_starts_per_second_max)
    return Key(f"platform {platform}", policy.platform_connections_max, interval_us)


@lru_cache(maxsize=_PLATFORMS_CACHED_MAX)
def platform_of(host: str) -> str | None:
    """The ICANN domain above the private suffix that `host` is under: `github.io` of `someone.github.io`, or None.

    Source: the private section of https://publicsuffix.org/list/
    """
    name = host.rstrip(".")
    if ":" in name or "." not in name or name.rpartition(".")[2].isdigit():
        return None
    whole, icann = _suffix_lists()
    suffix = whole.publicsuffix(name)
    if suffix is None or suffix == icann.publicsuffix(name):
        return None
    platform: str | None = icann.privatesuffix(suffix)
    return platform


@cache
def _suffix_lists() -> tuple[PublicSuffixList, PublicSuffixList]:
    return PublicSuffixList(), PublicSuffixList(only_icann=True)


def address_keys(addresses: Iterable[str], policy: Politeness) -> tuple[Key, ...]:
    """The networks an exchange may connect to: IPv4 addresses, IPv6 /64s; unreadable addresses have no key."""
    found: dict[str, Key] = {}
    for text in addresses:
        key = _address_key(text, policy)
        if key is not None:
            found[key.name] = key
    return tuple(found.values())


def _address_key(text: str, policy: Politeness) -> Key | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        else:
            name = str(ipaddress.IPv6Network((int(address) >> _IPV6_PREFIX << _IPV6_PREFIX, _IPV6_PREFIX)))
            return _bounded(name, address, policy)
    return _bounded(str(address), address, policy)


def _bounded(name: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address, policy: Politeness) -> Key:
    connections_max, starts = policy.address_connections_max, policy.address_starts_per_second_max
    for shared in policy.shared_ranges.values():
        if any(address in network for network in shared.parsed()):
            connections_max = max(connections_max, shared.connections_max)
            starts = max(starts, shared.starts_per_second_max) if starts and shared.starts_per_second_max else 0.0
    return Key(f"address {name}", connections_max, _interval_us(starts))


def global_key(policy: Politeness) -> Key | None:
    """The cap on catching up: the whole crawl, all workers together. None without a budget."""
    if policy.budget_per_day <= 0:
        return None
    rate = policy.budget_per_day * CATCH_UP_FACTOR / DAY_SECONDS
    return Key(GLOBAL, 0, _interval_us(rate), int(GLOBAL_BURST_SECONDS * 1e6))


def worker_key(policy: Politeness) -> Key | None:
    """The operator's own cap for one worker. None without one."""
    return Key("worker", 0, _interval_us(policy.global_rate_max), local=True) if policy.global_rate_max > 0 else None


def those(key: Key | None) -> tuple[Key, ...]:
    """The key, if there is one."""
    return () if key is None else (key,)


def candidates(addresses: Sequence[str]) -> tuple[str, ...]:
    """The addresses of an answer that an exchange will try, as the fetch engine picks them."""
    if not addresses:
        return ()
    first = addresses[0]
    other = next((ip for ip in addresses if (":" in ip) != (":" in first)), first)
    return tuple(dict.fromkeys((first, other, *addresses)))[:ADDRESSES_MAX]


def _interval_us(starts_per_second: float) -> int:
    return -int(-1e6 // starts_per_second) if starts_per_second > 0 else 0
