"""A table of leased shares in memory."""

from limpet.politeness.sharetable import Drawn, Turn


class MemoryShareTable:
    """`ShareTable` that all nodes of a rehearsal share."""

    def __init__(self) -> None:
        self._turns: dict[str, Turn] = {}
        self._days: dict[int, Drawn] = {}
        self._told: dict[str, dict[str, int]] = {}
        self._notices: dict[str, dict[str, str]] = {}
        self.conditional = 0

    async def turn(self, key: str) -> Turn:
        """See `ShareTable.turn`."""
        return self._turns.get(key, Turn())

    async def set_turn(self, key: str, new: Turn) -> bool:
        """See `ShareTable.set_turn`."""
        self.conditional += 1
        if self._turns.get(key, Turn()).version != new.version - 1:
            return False
        self._turns[key] = new
        return True

    async def drawn(self, day: int) -> Drawn:
        """See `ShareTable.drawn`."""
        return self._days.get(day, Drawn())

    async def set_drawn(self, day: int, new: Drawn) -> bool:
        """See `ShareTable.set_drawn`."""
        self.conditional += 1
        if self._days.get(day, Drawn()).version != new.version - 1:
            return False
        self._days[day] = new
        return True

    async def told(self, key: str) -> dict[str, int]:
        """See `ShareTable.told`."""
        return dict(self._told.get(key, {}))

    async def tell(self, key: str, host: str, until_us: int, seconds: float) -> None:  # noqa: ARG002 - nothing expires
        """See `ShareTable.tell`."""
        told = self._told.setdefault(key, {})
        told[host] = max(until_us, told.get(host, 0))

    async def notify(self, incarnation: str, key: str, mark: str) -> None:
        """See `ShareTable.notify`."""
        self._notices.setdefault(incarnation, {})[key] = mark

    async def notices(self, incarnation: str) -> dict[str, str]:
        """See `ShareTable.notices`."""
        return dict(self._notices.get(incarnation, {}))
