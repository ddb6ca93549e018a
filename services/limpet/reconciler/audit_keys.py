"""What hosts share, and how much of it there is: read anew from the suffix list and from addresses.

The governor has its own notion of both; none of its code is used here.
"""

import ipaddress
from functools import cache, lru_cache
from typing import Final

import msgspec
from publicsuffixlist import PublicSuffixList

from limpet.config.settings import Politeness

_CACHED_MAX: Final = 65_536
_IPV6_PREFIX: Final = 64

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Ceiling(msgspec.Struct, frozen=True):
    """How much at once, and how many starts a second; 0 = no bound."""

    connections: int = 0
    starts_per_second: float = 0.0

    def raised_to(self, other: "Ceiling") -> "Ceiling":
        """The laxer of both, each in its own right."""
        unbounded = 0 in {self.starts_per_second, other.starts_per_second}
        starts = 0.0 if unbounded else max(self.starts_per_second, other.starts_per_second)
        return Ceiling(max(self.connections, other.connections), starts)


@cache
def _suffixes(*, icann: bool) -> PublicSuffixList:
    return PublicSuffixList(only_icann=icann)


@lru_cache(maxsize=_CACHED_MAX)
def domain_of(host: str) -> str:
    """The registrable domain, private suffixes counted; an address or a bare name is its own."""
    name = host.rstrip(".")
    return name if _is_address(name) else _suffixes(icann=False).privatesuffix(name) or name


@lru_cache(maxsize=_CACHED_MAX)
def platform_of(host: str) -> str:
    """The ICANN domain that rents out the names below a private suffix; "" for a host that is on none."""
    name = host.rstrip(".")
    if _is_address(name):
        return ""
    suffix = _suffixes(icann=False).publicsuffix(name) or ""
    if suffix == (_suffixes(icann=True).publicsuffix(name) or ""):
        return ""
    return _suffixes(icann=True).privatesuffix(suffix) or ""


@lru_cache(maxsize=_CACHED_MAX)
def network_of(address: str) -> str:
    """An IPv4 address, or the /64 of an IPv6 one; a mapped address is the IPv4 one. "" for what is no address."""
    parsed = _parsed(address)
    if parsed is None or isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed or "")
    return str(ipaddress.ip_network((int(parsed) >> _IPV6_PREFIX << _IPV6_PREFIX, _IPV6_PREFIX)))


def address_ceiling(address: str, policy: Politeness) -> Ceiling:
    """The ceiling of an address; the range of a content delivery network may raise it."""
    ceiling = Ceiling(policy.address_connections_max, policy.address_starts_per_second_max)
    parsed = _parsed(address)
    for shared in policy.shared_ranges.values():
        if parsed is not None and any(parsed in network for network in shared.parsed()):
            ceiling = ceiling.raised_to(Ceiling(shared.connections_max, shared.starts_per_second_max))
    return ceiling


def _parsed(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _is_address(name: str) -> bool:
    return ":" in name or name.rpartition(".")[2].isdigit()
