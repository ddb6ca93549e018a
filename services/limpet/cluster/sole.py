"""One crawl node at work, the others ready to follow: for as long as ceilings are not shared between nodes.

What hosts share (an address, a platform, the budget of a day) binds all nodes together. Its ledger is each node's own
yet, so that two nodes at once could ask an address twice as often as it may be asked. A crawl of one's own hosts
without a budget knows no such ceilings, and is divided among its nodes.
"""

from limpet.config import Settings
from limpet.membership import Membership


class SoleWorker:
    """`Membership` that gives all shards to whoever has the first partition of a group, and none to the others."""

    def __init__(self, group: Membership, shards: int) -> None:
        self._group = group
        self._all = frozenset(range(shards))

    def share(self) -> frozenset[int]:
        """See `Membership.share`."""
        return self._all if 0 in self._group.share() else frozenset()


def hint_of(settings: Settings, group: Membership, shards: int) -> Membership:
    """Who should have which shards, by the settings of a crawl."""
    unbound = settings.rules.owned_hosts_only and settings.politeness.budget_per_day == 0
    return group if unbound else SoleWorker(group, shards)
