"""The governor and the engine behind the connect gate, under the settings of a process."""

from collections.abc import Callable

from limpet.clock import Clock, DurableClock
from limpet.config import Settings
from limpet.fetch import Fetcher, Gate, Owned, WireFetcher
from limpet.fetch.denylist import packed
from limpet.fetch.dns import DnsResolver
from limpet.fetch.proxy import read_proxy
from limpet.politeness import Governor, Shares


def wire_fetcher(settings: Settings, clock: Clock) -> Fetcher:
    """The real engine behind the connect gate."""
    return WireFetcher(
        clock,
        Gate(Owned.parse(settings.owned)),
        DnsResolver(clock, settings.fetching.nameservers),
        accept_invalid_cert=settings.accept_invalid_cert,
        proxy=read_proxy(settings.proxy, settings.proxy_credentials_file),
    )


def governor_of(
    settings: Settings,
    clock: DurableClock,
    fraction: Callable[[], float],
    *,
    shares: Shares | None = None,
    make: type[Governor] = Governor,
) -> Governor:
    """Politeness under these settings; `shares` is the ledger of what spans processes, `fraction` gives chance."""
    owned = Owned.parse(settings.owned)

    def owns_address(text: str) -> bool:
        address = packed(text)
        return address is not None and owned.covers_address(address)

    return make(
        clock, settings.politeness, owned.covers_host, shares=shares, owns_address=owns_address, fraction=fraction
    )
