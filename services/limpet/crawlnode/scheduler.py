"""Which host goes next: round-robin by next-allowed time, whatever the backlog.

A heap of hosts by the monotonic second at which they may send and have something due. An entry may be stale; it is
judged again when it comes up.
"""

import heapq
from collections import deque
from collections.abc import Iterator

from limpet.urlstore.types import Claim


class HostQueues:
    """A host with its authorities' queues and the claims it still holds."""

    __slots__ = ("claims", "due_us", "host", "offers", "scheduled", "shard", "visiting")

    def __init__(self, host: str, shard: int) -> None:
        self.host = host
        self.shard = shard
        self.due_us: dict[str, int] = {}  # authority -> earliest due time, as last known
        self.claims: deque[Claim] = deque()
        self.offers = 0  # so far: tells whether one came while the store was asked
        self.visiting = False
        self.scheduled: float | None = None  # where it stands in the heap

    def next_authority(self) -> tuple[str, int] | None:
        """The authority that is due first, and when."""
        if not self.due_us:
            return None
        authority = min(self.due_us, key=lambda name: self.due_us[name])
        return authority, self.due_us[authority]


class Scheduler:
    """All hosts of this process that have work."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostQueues] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._turn = 0

    def __len__(self) -> int:
        return len(self._hosts)

    def hosts(self) -> Iterator[HostQueues]:
        """Every host with work."""
        return iter(list(self._hosts.values()))

    def get(self, host: str) -> HostQueues | None:
        """A host with work, None for any other."""
        return self._hosts.get(host)

    def offer(self, host: str, shard: int, authority: str, due_us: int) -> HostQueues:
        """There is, or will be, something due at `authority`."""
        entry = self._hosts.get(host)
        if entry is None:
            entry = self._hosts[host] = HostQueues(host, shard)
        entry.offers += 1
        entry.due_us[authority] = min(due_us, entry.due_us.get(authority, due_us))
        return entry

    def schedule(self, entry: HostQueues, at: float) -> None:
        """Let the host come up at monotonic second `at`, unless it comes up sooner anyway."""
        if entry.visiting or (entry.scheduled is not None and entry.scheduled <= at):
            return
        entry.scheduled = at
        self._turn += 1
        heapq.heappush(self._heap, (at, self._turn, entry.host))

    def next_at(self) -> float | None:
        """When the first host comes up."""
        return self._heap[0][0] if self._heap else None

    def pop(self, now: float) -> HostQueues | None:
        """The host that came up first, if one did by `now`."""
        while self._heap and self._heap[0][0] <= now:
            at, _, host = heapq.heappop(self._heap)
            entry = self._hosts.get(host)
            if entry is not None and not entry.visiting and entry.scheduled == at:
                entry.scheduled = None
                return entry
        return None

    def drop(self, entry: HostQueues) -> None:
        """Forget a host, whatever it has to do: it is somebody else's."""
        if self._hosts.get(entry.host) is entry:
            del self._hosts[entry.host]

    def drop_if_idle(self, entry: HostQueues) -> None:
        """Forget a host that has nothing to do."""
        if not entry.due_us and not entry.claims and not entry.visiting:
            self._hosts.pop(entry.host, None)
