"""The connect gate: the one place that says which host, port and address a connection may go to.

Pages, robots files, sitemaps and the targets of redirects all pass here, because every exchange does. The order is:
scheme and port when the URL is read, every address of the DNS answer before the connection (one bad address refuses
them all: an answer that mixes public and private addresses is an attack or a mistake, and neither is worth guessing),
and the peer after it. Environment proxies are never read.

Ports, unless the host is owned: 80, 443, and those from 1024 up except the ones on the WHATWG Fetch list of bad ports
(https://fetch.spec.whatwg.org/#port-blocking). Below 1024 live the line protocols that an HTTP request could be made
to speak; web servers there are rare enough to be named as owned.
"""

import ipaddress
from collections.abc import Iterable
from typing import Final

import ada_url

from limpet.fetch.denylist import denied_kind, embedded_ipv4, opened_by_name, packed

SCHEMES: Final = frozenset({"http", "https"})
_LOW_PORTS: Final = frozenset({80, 443})
_BAD_HIGH_PORTS: Final = frozenset(
    {1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, *range(6665, 6670), 6679, 6697, 10080},
)

_AUTHORITY_MARKS: Final = frozenset("@/?#:\\ \t\r\n")


def bare_host(host: str) -> str:
    """`host` as the lists keep it: lower case, without the brackets of IPv6 and without a final dot."""
    return host.strip("[]").lower().removesuffix(".")


class Owned:
    """The operator's own hosts and networks (`--owned CIDR|HOST`), immutable."""

    def __init__(self, hosts: frozenset[str] = frozenset(), networks: tuple[tuple[int, int, int], ...] = ()) -> None:
        self._hosts = hosts
        self._networks = networks  # (bytes of an address, lowest, highest)

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "Owned":
        """From CIDRs, addresses and host names. ValueError names an entry that is none of them."""
        hosts: set[str] = set()
        networks: list[tuple[int, int, int]] = []
        for entry in entries:
            text = bare_host(entry.strip())
            name = None if "/" in text or packed(text) is not None else host_name(text)
            if name is not None and packed(name) is None:
                hosts.add(name)
            else:
                networks.append(_network(entry, name or text))
        return cls(frozenset(hosts), tuple(networks))

    def __bool__(self) -> bool:
        return bool(self._hosts or self._networks)

    def covers_host(self, host: str) -> bool:
        """Whether `host` is listed by name, or is an address inside a listed network."""
        name = bare_host(host)
        address = packed(name)
        return name in self._hosts if address is None else self.covers_address(address)

    def covers_address(self, address: bytes) -> bool:
        """Whether a listed network holds this packed address."""
        size_bytes, number = len(address), int.from_bytes(address, "big")
        return any(size == size_bytes and low <= number <= high for size, low, high in self._networks)


def host_name(text: str) -> str | None:
    """`text` as a canonical host (`127.1` becomes 127.0.0.1, `bücher.example` its ASCII form), or None."""
    if not text or _AUTHORITY_MARKS & set(text):
        return None
    try:
        return bare_host(ada_url.URL(f"http://{text}/").hostname)
    except ValueError:
        return None


def _network(entry: str, text: str) -> tuple[int, int, int]:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"owned: {entry!r} is no host name, address or network: {error}") from error
    return network.max_prefixlen // 8, int(network[0]), int(network[-1])


class Gate:
    """Judges targets, addresses and peers. Pure and without state; every method answers None (go) or a reason."""

    def __init__(self, owned: Owned | None = None) -> None:
        self.owned = owned or Owned()

    def owns(self, host: str, addresses: Iterable[str]) -> bool:
        """Whether a request to `host` may say `owned`: it is listed, or all of its addresses lie in listed networks."""
        if self.owned.covers_host(host):
            return True
        found = [packed(ip) for ip in addresses]
        return bool(found) and all(a is not None and self.owned.covers_address(a) for a in found)

    def check_target(self, scheme: str, port: int, *, owned: bool = False) -> str | None:
        """Scheme and port, before anything is looked up. An owned host may use any port."""
        if scheme not in SCHEMES:
            return f"scheme {scheme!r} is not http or https"
        if not 0 < port < 65536:
            return f"port {port} does not exist"
        if not owned and (port not in _LOW_PORTS if port < 1024 else port in _BAD_HIGH_PORTS):
            return f"port {port} is not a web port"
        return None

    def check_address(self, ip: str, host: str, port: int, *, owned: bool = True) -> str | None:
        """Whether one address of a DNS answer for `host` may be connected to.

        `owned` is the request's own claim. Without it the operator's list opens nothing. With it, an address that the
        list does not cover is refused even when it is public: such a request was scheduled without the ceilings that
        protect other people's servers, so a name that moves from an owned network to the public web must not carry
        them along. Only an empty list makes the claim meaningless (public addresses pass, everything else does not).
        """
        address = packed(ip)
        if address is None:
            return f"{ip!r} is not an address"
        claimed = owned and bool(self.owned)
        reason = self._closed(address, host if claimed else None)
        if reason is not None:
            return f"{ip} {reason}"
        if claimed and not (self.owned.covers_host(host) or self.owned.covers_address(address)):
            return f"{ip} is not owned, though the request says that {host} is"
        return self.check_target("http", port, owned=claimed)

    def check_peer(self, peer_ip: str, checked_ip: str) -> str | None:
        """Whether a connection ended where it was sent."""
        if peer_ip != checked_ip and packed(peer_ip.partition("%")[0]) != packed(checked_ip):
            return f"connected to {peer_ip} instead of {checked_ip}"
        return None

    def _closed(self, address: bytes, claiming_host: str | None) -> str | None:
        """Why `address` is closed; an embedded IPv4 address is judged like a plain one, also when its form is open."""
        kind = denied_kind(address)
        inner = embedded_ipv4(address)
        inner_kind = denied_kind(inner) if inner is not None else None
        if kind is not None and not self._opens(address, kind, claiming_host):
            via = f", leading to {ipaddress.ip_address(inner)}" if inner is not None else ""
            return f"is {kind}{via}"
        if inner is not None and inner_kind is not None and not self._opens(inner, inner_kind, claiming_host):
            return f"leads to {ipaddress.ip_address(inner)}, which is {inner_kind}"
        return None

    def _opens(self, address: bytes, kind: str, claiming_host: str | None) -> bool:
        if claiming_host is None:
            return False
        return self.owned.covers_address(address) or (opened_by_name(kind) and self.owned.covers_host(claiming_host))
