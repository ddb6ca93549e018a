"""What one process knows of one host, and the right to one exchange with it."""

from limpet.politeness.keys import Key
from limpet.politeness.orders import NO_ORDER, HostOrder
from limpet.urlstore.types import HostRow


def lasting(row: HostRow) -> tuple[int, ...]:
    """What a restart must know."""
    return (row.wait_us, row.failing, row.transient, row.refused, row.trips, row.broken_us)


class HostState:
    """What is known of one host in this process."""

    __slots__ = (
        "addresses",
        "asked",
        "busy",
        "called",
        "claimed_owned",
        "crawl_delay_seconds",
        "domain",
        "free_at",
        "keys",
        "last_good_us",
        "located_at",
        "order",
        "owned",
        "parked",
        "proofs",
        "public",
        "row",
        "saved",
        "since",
        "unjudged",
        "unsure",
    )

    def __init__(self, row: HostRow, domain: Key, *, owned: bool, since: float) -> None:
        self.row = row
        self.saved = row
        self.domain = domain
        self.claimed_owned = owned  # what the operator says
        self.owned = owned  # what holds: at a public address, the site has to say so too
        self.public = False  # whether the host was seen at an address that is not private
        self.proofs: dict[str, bool] = {}  # authority -> whether its robots.txt names us
        self.busy = False
        self.unjudged = 0  # answers that are not counted yet
        self.asked = False  # by this process
        self.since = since  # monotonic second from which on this process alone may ask the host
        self.unsure = False  # whether a request of somebody else may have been unfinished then
        self.free_at = since  # monotonic second at which the gap after the last exchange is over
        self.crawl_delay_seconds = 0.0
        self.order: HostOrder = NO_ORDER  # the operator's
        self.last_good_us = 0
        self.addresses: tuple[str, ...] = tuple(row.addresses.split())
        self.located_at: float | None = None  # monotonic second of the last look-up
        self.keys: tuple[Key, ...] | None = None  # what it shares with others; None = to be worked out
        self.parked = ""  # the key in whose line it stands
        self.called = ""  # the key whose turn it has

    @property
    def proven(self) -> bool:
        """Whether every robots.txt that was read of the host names us, and at least one was."""
        return bool(self.proofs) and all(self.proofs.values())


class Permit:
    """The right to one exchange with one host; must be ended exactly once."""

    __slots__ = ("day", "gap_seconds", "mine", "shared", "state")

    def __init__(
        self,
        state: HostState,
        gap_seconds: float,
        mine: tuple[Key, ...] = (),
        shared: tuple[Key, ...] = (),
        day: int = 0,
    ) -> None:
        self.state = state
        self.gap_seconds = gap_seconds
        self.mine = mine  # keys taken from the ledgers of this process, and of all
        self.shared = shared
        self.day = day
