"""Is a host the operator's own? His word, and at a public address the site's word too."""

import msgspec

from limpet.fetch.denylist import is_public, packed
from limpet.fetch.gate import Owned


class Ownership:
    """One host, its requests in the order of time. `owned` tells what held for the request that comes next."""

    def __init__(self, host: str, listed: Owned) -> None:
        self._claimed = listed.covers_host(host)
        self._listed = listed
        self._public = False
        self._proofs: dict[str, bool] = {}  # authority -> whether its robots.txt names us

    @property
    def owned(self) -> bool:
        """At a public address, every robots.txt that was read has to name us, and one has to have been."""
        proven = bool(self._proofs) and all(self._proofs.values())
        return self._claimed and (proven or not self._public)

    def met(self, address: str) -> None:
        """A request ended at `address`."""
        self._public = self._public or is_public(address)

    def proves(self, authority: str, *, named: bool) -> None:
        """What the robots.txt of an authority says, as far as it goes."""
        self._proofs[authority] = named

    def frees(self, address: str) -> bool:
        """Whether every host at `address` is the operator's: it is private, or he listed the address itself."""
        octets = packed(address)
        return self.owned and (not is_public(address) or (octets is not None and self._listed.covers_address(octets)))


class Who(msgspec.Struct, frozen=True):
    """What a request's host was when it was sent."""

    owned: bool
    frees_address: bool
