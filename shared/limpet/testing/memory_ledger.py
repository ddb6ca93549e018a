"""What surrounds the rows of a Cassandra shard, in memory: for tests of the core alone."""

from collections import Counter
from collections.abc import Mapping

from limpet.urlstore.types import ParseOutput


class MemoryLedger:
    """See `limpet.urlstore.cassandra.hooks.Ledger`. Everything told is kept."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.hosts: Counter[str] = Counter()
        self.days: Counter[int] = Counter()
        self.met: set[tuple[str, str]] = set()
        self.lists: list[tuple[str, ...]] = []
        self.notices: list[tuple[str, str, str, int]] = []
        self.accepted: dict[bytes, list[ParseOutput]] = {}

    async def meet(self, authority: str, host: str) -> None:
        """See `Ledger.meet`."""
        self.met.add((authority, host))

    async def count(self, hosts: Mapping[str, int]) -> None:
        """See `Ledger.count`."""
        self.hosts.update(hosts)

    async def denied(self, authority: str, fp: bytes) -> None:
        """See `Ledger.denied`."""
        self.lists.append(("denied", authority, fp.hex()))

    async def cancelled(self, host: str, reason: str, fp: bytes) -> None:
        """See `Ledger.cancelled`."""
        self.lists.append(("cancelled", host, reason, fp.hex()))

    async def notify(self, kind: str, host: str, reason: str, sample: str, now_us: int, count: int = 1) -> None:  # noqa: ARG002 - the port's
        """See `Ledger.notify`."""
        self.notices.append((kind, host, reason, count))

    async def outputs(self, fp: bytes) -> list[ParseOutput]:
        """See `Ledger.outputs`."""
        return self.accepted.get(fp, [])

    def add(self, counter: str, count: int = 1) -> None:
        """See `Ledger.add`."""
        self.counters[counter] += count

    def note(self, day: int) -> None:
        """See `Ledger.note`."""
        self.days[day] += 1
