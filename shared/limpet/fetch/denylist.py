"""Which addresses are not the public web, and which IPv4 address an IPv6 address may hide.

The tables follow the IANA special-purpose registries (RFC 6890 and its updates) and are written out here because
`ipaddress.is_global` of Python 3.11 calls NAT64 forms of 169.254.169.254, 6to4 forms of 127.0.0.1, `::127.0.0.1`,
`fec0::1` and multicast global. IPv6 is an allowlist (2000::/3) with holes; IPv4 a denylist.
"""

import bisect
import ipaddress
import socket
from typing import Final

_IPV4_DENIED: Final = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade NAT",
    "127.0.0.0/8": "loopback",
    "168.63.129.16/32": "cloud metadata",  # Azure's platform endpoint, a public number that never leaves the host
    "169.254.0.0/16": "link-local",  # 169.254.169.254 serves instance metadata on most clouds
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "protocol assignment",
    "192.0.2.0/24": "documentation",
    "192.88.99.0/24": "6to4 relay",
    "192.168.0.0/16": "private",
    "198.18.0.0/15": "benchmarking",
    "198.51.100.0/24": "documentation",
    "203.0.113.0/24": "documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",  # the broadcast address included
}

_IPV6_DENIED: Final = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "::/96": "IPv4-compatible",
    "::ffff:0:0/96": "IPv4-mapped",
    "::ffff:0:0:0/96": "IPv4-translated",
    "64:ff9b::/96": "NAT64",
    "64:ff9b:1::/48": "local NAT64",
    "100::/64": "discard",
    "2001::/23": "protocol assignment",  # benchmarking 2001:2::/48, ORCHID, DRIP among them
    "2001::/32": "Teredo",
    "2001:db8::/32": "documentation",
    "2002::/16": "6to4",
    "3fff::/20": "documentation",
    "5f00::/16": "segment routing",
    "fc00::/7": "unique local",
    "fe80::/10": "link-local",
    "fec0::/10": "site-local",
    "ff00::/8": "multicast",
}

_HOME_KINDS: Final = frozenset({"loopback", "private", "carrier-grade NAT", "unique local", "benchmarking"})
"""What a network of one's own uses: a host name listed as owned opens these, and nothing stranger."""

_NOT_ALLOCATED: Final = "not global unicast"
_BITS_32: Final = 0xFFFF_FFFF
_ISATAP: Final = frozenset({0x0000_5EFE, 0x0200_5EFE})  # upper half of the interface identifier, RFC 5214 §6.1


class RangeTable:
    """Networks of one address family, the most specific first."""

    def __init__(self, networks: dict[str, str]) -> None:
        parsed = [(ipaddress.ip_network(text), kind) for text, kind in networks.items()]
        # Cut the number line at every edge, so that a look-up is one bisection whatever overlaps.
        edges = sorted({0} | {int(n[0]) for n, _ in parsed} | {int(n[-1]) + 1 for n, _ in parsed})
        self._starts = edges
        self._kinds = [_most_specific(parsed, edge) for edge in edges]

    def find(self, number: int) -> str | None:
        """The kind of the most specific network that holds address `number`, or None."""
        return self._kinds[bisect.bisect_right(self._starts, number) - 1]


def _most_specific(
    networks: list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, str]],
    number: int,
) -> str | None:
    holding = [(n.prefixlen, kind) for n, kind in networks if int(n[0]) <= number <= int(n[-1])]
    return max(holding)[1] if holding else None


_IPV4_TABLE: Final = RangeTable(_IPV4_DENIED)
_IPV6_TABLE: Final = RangeTable(_IPV6_DENIED)


def packed(ip: str) -> bytes | None:
    """The 4 or 16 bytes of a textual address; None when `ip` is none (names, `127.1`, zone ids, brackets)."""
    try:
        return socket.inet_pton(socket.AF_INET6 if ":" in ip else socket.AF_INET, ip)
    except (OSError, ValueError):  # ValueError: NUL or non-ASCII inside
        return None


def denied_kind(address: bytes) -> str | None:
    """Why a packed address is not the public web ("loopback", "6to4" ...), or None when it is.

    Says nothing about an embedded IPv4 address: see `embedded_ipv4`.
    """
    number = int.from_bytes(address, "big")
    if len(address) == 4:
        return _IPV4_TABLE.find(number)
    kind = _IPV6_TABLE.find(number)
    if kind is None and number >> 125 != 0b001:  # 2000::/3 is all that IANA has handed out
        return _NOT_ALLOCATED
    return kind


def is_public(ip: str) -> bool:
    """Whether a textual address belongs to the public web; "" and what is no address do not."""
    address = packed(ip)
    return address is not None and denied_kind(address) is None


def embedded_ipv4(address: bytes) -> bytes | None:
    """The IPv4 address that an IPv6 form leads to or was made from, or None.

    IPv4-compatible, -mapped and -translated (RFC 4291, RFC 6145), NAT64 (RFC 6052, the last 32 bits), 6to4 (RFC 3056),
    Teredo (RFC 4380: the client's address, inverted) and ISATAP under any prefix (RFC 5214).
    """
    if len(address) == 4:
        return None
    number = int.from_bytes(address, "big")
    kind = _IPV6_TABLE.find(number)
    if kind in {"IPv4-compatible", "IPv4-mapped", "IPv4-translated", "NAT64", "local NAT64"}:
        return address[12:]
    if kind == "6to4":
        return address[2:6]
    if kind == "Teredo":
        return ((number & _BITS_32) ^ _BITS_32).to_bytes(4, "big")
    if (number >> 32) & _BITS_32 in _ISATAP:
        return address[12:]
    return None


def opened_by_name(kind: str) -> bool:
    """Whether naming a host as owned opens addresses of this kind."""
    return kind in _HOME_KINDS
