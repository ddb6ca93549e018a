"""Hosts that a dead owner may have been asking: nobody knows what they answered, so they are left alone for a while.

An unfinished lease is what tells them. It is read before anybody ends it, by whoever comes next: recovery on one
machine, the next owner of a shard in a cluster.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from limpet.urlstore.types import AuthorityRow, HostRow

if TYPE_CHECKING:  # a governor needs the waits below
    from limpet.politeness.governor import Governor
    from limpet.politeness.state import HostState
    from limpet.urlstore.port import UrlStore

UNFINISHED: Final = "unfinished request"
"""The reason of such a wait in host rows."""
UNFINISHED_SECONDS_MIN: Final = 10.0
UNFINISHED_OWNED_SECONDS_MIN: Final = 1.0
HOSTS_A_BATCH: Final = 256
"""Hosts whose waits are written at once, so that they share commits."""

Know = Callable[[str], Awaitable["HostState"]]
"""host -> its state, read from its row the first time."""
DelayOf = Callable[[AuthorityRow], float | None]
"""What robots remembers of an authority -> the crawl-delay it asks for, in seconds."""
Persist = Callable[[Sequence[HostRow]], Awaitable[None]]
"""Store the rows; returns when they are durable."""


def unfinished_wait_seconds(gap_seconds: float, *, owned: bool) -> float:
    """How long a host waits after a start when a request to it may still have been under way."""
    return max(2 * gap_seconds, UNFINISHED_OWNED_SECONDS_MIN if owned else UNFINISHED_SECONDS_MIN)


async def hold_unfinished(
    store: "UrlStore", governor: "Governor", know: Know, delay_of: DelayOf, persist: Persist
) -> frozenset[str]:
    """Make the hosts of a shard with an unfinished lease wait two gaps, durably; those hosts.

    Costs memory for hosts with a lease only, however many the shard has. Raises what the store raises: hosts that were
    not come to keep whatever wait they had, so that the caller has to try again or must not ask any.
    """
    delays: dict[str, list[float]] = defaultdict(list)
    leased = await store.leased_authorities()
    hosts = sorted({authority.host for authority in leased})
    for authority in leased:
        delay = delay_of(authority)
        if delay:
            delays[authority.host].append(delay)
    for begin in range(0, len(hosts), HOSTS_A_BATCH):
        rows = []
        for host in hosts[begin : begin + HOSTS_A_BATCH]:
            state = await know(host)
            for delay in delays[host]:
                governor.set_crawl_delay(state, delay)
            rows.append(governor.hold(state))
        await persist(rows)
    return frozenset(hosts)
