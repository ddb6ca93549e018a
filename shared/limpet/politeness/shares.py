"""Who may start under a ceiling that hosts share: one ledger for all who send, so that the sum is the ceiling.

`Shares` is the port; `LocalShares` serves one process, `limpet.politeness.fileshares` the workers of one machine.
Times are boot time in microseconds, which all processes of a machine agree on and nobody can set.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from limpet.politeness.keys import Key

CONNECTION_POLL_US: Final = 250_000
"""When to ask again for a connection that another holds; whoever gives one back in this process tells at once."""

TROUBLED_HOSTS_MIN: Final = 3
CELLS_SWEPT_AT: Final = 4_096


class Blocked(NamedTuple):
    """Why nothing can start now: the key with the longest wait, and how long."""

    key: Key
    us: int


class Shares(Protocol):
    """A ledger of connections open, of last starts, of back-offs, and of the requests of a day.

    Contract: what `take` granted, in whichever process, never exceeds the ceiling of any key; `take` is all or nothing;
    what a dead process held is free again once its place in the ledger is taken anew.
    """

    def blocked(self, keys: Sequence[Key], now_us: int) -> Blocked | None:
        """What forbids a start now, None = nothing."""
        ...

    def take(self, keys: Sequence[Key], now_us: int, *, day: int, budget: int) -> bool:
        """A connection and a start of every key, and one request of `day`'s `budget` (0 = not counted); or nothing."""
        ...

    def give(self, keys: Sequence[Key]) -> None:
        """The connection is closed."""
        ...

    def refund(self, day: int) -> None:
        """A request that was taken from the budget and never sent."""
        ...

    def requests(self, day: int) -> int:
        """Requests counted for a day (days since 1970, UTC)."""
        ...

    def restore(self, day: int, requests: int) -> None:
        """At least so many were sent on `day`, as durable counts tell."""
        ...

    def begin(self, key: Key, now_us: int) -> None:
        """`key`'s first start may come at once: nothing was sent for longer than its interval, as durable counts tell.

        Only if the ledger knows nothing of the key; the second start is an interval away, whatever the key's burst.
        """
        ...

    def trouble(self, key: Key, host: str, until_us: int, now_us: int) -> int:
        """`host` was told to wait (429, 503). While three hosts of a key are, all wait. Until when, 0 = it goes on."""
        ...


class _Cell:
    __slots__ = ("open", "tat_us", "told")

    def __init__(self, tat_us: int) -> None:
        self.open = 0
        self.tat_us = tat_us  # the next start is due then (GCRA's theoretical arrival time)
        self.told: dict[str, int] = {}  # host -> until when it was told to wait


def backed_off_until(waits: Iterable[int]) -> int:
    """Until when three of `waits` run at once, 0 = they never do: the third longest."""
    longest = sorted(waits, reverse=True)
    return longest[TROUBLED_HOSTS_MIN - 1] if len(longest) >= TROUBLED_HOSTS_MIN else 0


class LocalShares:
    """`Shares` of one process. Nothing piled up before `born_us`: a key's first start is one interval later."""

    def __init__(self, born_us: int) -> None:
        self._born_us = born_us
        self._cells: dict[str, _Cell] = {}
        self._day = 0
        self._requests = 0
        self._sweep_at = CELLS_SWEPT_AT

    def blocked(self, keys: Sequence[Key], now_us: int) -> Blocked | None:
        """See `Shares.blocked`."""
        worst: Blocked | None = None
        for key in keys:
            us = self._wait_us(key, now_us)
            if us > 0 and (worst is None or us > worst.us):
                worst = Blocked(key, us)
        return worst

    def take(self, keys: Sequence[Key], now_us: int, *, day: int, budget: int) -> bool:
        """See `Shares.take`."""
        if budget > 0 and self.requests(day) >= budget:
            return False
        if any(self._wait_us(key, now_us) > 0 for key in keys):
            return False
        for key in keys:
            cell = self._cell(key)
            cell.open += 1
            cell.tat_us = max(now_us, cell.tat_us) + key.interval_us
        if budget > 0:
            self._requests += 1
        if len(self._cells) > self._sweep_at:
            self._sweep(now_us)
        return True

    def give(self, keys: Sequence[Key]) -> None:
        """See `Shares.give`."""
        for key in keys:
            cell = self._cell(key)
            cell.open = max(0, cell.open - 1)

    def refund(self, day: int) -> None:
        """See `Shares.refund`."""
        if self.requests(day) > 0:
            self._requests -= 1

    def requests(self, day: int) -> int:
        """See `Shares.requests`."""
        if day != self._day:
            self._day, self._requests = day, 0
        return self._requests

    def restore(self, day: int, requests: int) -> None:
        """See `Shares.restore`."""
        self._requests = max(self.requests(day), requests)

    def begin(self, key: Key, now_us: int) -> None:
        """See `Shares.begin`."""
        self._cells.setdefault(key.name, _Cell(now_us + key.burst_us))

    def trouble(self, key: Key, host: str, until_us: int, now_us: int) -> int:
        """See `Shares.trouble`."""
        cell = self._cell(key)
        cell.told = {name: us for name, us in cell.told.items() if us > now_us}
        cell.told[host] = max(until_us, cell.told.get(host, 0))
        return backed_off_until(cell.told.values())

    # -- for ledgers that keep a part of their own here --------------------------------------------------------------
    def open_of(self, name: str) -> int:
        """Connections open under a key."""
        cell = self._cells.get(name)
        return 0 if cell is None else cell.open

    def rest_us(self, key: Key, now_us: int) -> int:
        """Until the key's interval since its last start is over, 0 = it is."""
        cell = self._cells.get(key.name)
        return 0 if cell is None else max(0, cell.tat_us - key.burst_us - now_us)

    def hold_back(self, key: Key, until_us: int) -> None:
        """No start of the key before `until_us`: somebody else may have had one."""
        cell = self._cell(key)
        cell.tat_us = max(cell.tat_us, until_us + key.burst_us)

    def _cell(self, key: Key) -> _Cell:
        cell = self._cells.get(key.name)
        if cell is None:
            cell = self._cells[key.name] = _Cell(self._born_us + key.interval_us + key.burst_us)
        return cell

    def _wait_us(self, key: Key, now_us: int) -> int:
        cell = self._cells.get(key.name)
        if cell is None:
            return self._born_us + key.interval_us - now_us
        wait_us = cell.tat_us - key.burst_us - now_us if key.interval_us else 0
        if cell.told:
            wait_us = max(wait_us, backed_off_until(cell.told.values()) - now_us)
        if key.connections_max and cell.open >= key.connections_max:
            wait_us = max(wait_us, CONNECTION_POLL_US)
        return wait_us

    def _sweep(self, now_us: int) -> None:
        """Forget keys that bind nothing any more; a key met anew is as free as they are."""
        for name, cell in list(self._cells.items()):
            if cell.open == 0 and cell.tat_us <= now_us and all(us <= now_us for us in cell.told.values()):
                del self._cells[name]
        self._sweep_at = max(CELLS_SWEPT_AT, 2 * len(self._cells))
