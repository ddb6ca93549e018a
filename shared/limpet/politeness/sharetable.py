"""What the nodes of a crawl agree by about ceilings that span them."""

from typing import Protocol

import msgspec


class Turn(msgspec.Struct, frozen=True):
    """The row of one key: who may start now, who is next, and who still has connections open.

    `holder` "" = nobody. `rest_us`: how long the next holder waits before its first start, from when it learns of its
    turn. `open`: connections of incarnations that had their turn before. `queue`: who waits, first come first.
    `version` grows by one with each change, `by` made the last one; version 0 = nobody ever held it.
    """

    version: int = 0
    by: str = ""
    holder: str = ""
    rest_us: int = 0
    open: dict[str, int] = {}
    queue: tuple[str, ...] = ()


class Drawn(msgspec.Struct, frozen=True):
    """The row of a UTC day: requests of its budget that were handed out to nodes. `version`, `by`: as in `Turn`."""

    version: int = 0
    by: str = ""
    requests: int = 0


class ShareTable(Protocol):
    """Rows of keys and days, waits that hosts were told, and notices.

    Contract: reads and conditional writes of one row (`turn`, `set_turn`; `drawn`, `set_drawn`) are linearizable, as
    in `limpet.membership.LeaseTable`: `Indefinite` from a write means that it may have taken effect, or still may until
    the version is past. `told` shows every `tell` that was acknowledged before it began; of several for one host, the
    latest time stands. Notices may be late or lost: they only save time. Every call ends within a bound.
    """

    async def turn(self, key: str) -> Turn:
        """The row of a key; changes under way are decided before the answer."""
        ...

    async def set_turn(self, key: str, new: Turn) -> bool:
        """Write `new` if the version there is the one before. True: it is there as it is, by our doing.

        An earlier write of ours for the same version may arrive first; if it says something else, that is False.
        """
        ...

    async def drawn(self, day: int) -> Drawn:
        """The row of a day (days since 1970, UTC)."""
        ...

    async def set_drawn(self, day: int, new: Drawn) -> bool:
        """As `set_turn`."""
        ...

    async def told(self, key: str) -> dict[str, int]:
        """Hosts of a key that were told to wait: until when, wall clock in microseconds. Old ones may be left out."""
        ...

    async def tell(self, key: str, host: str, until_us: int, seconds: float) -> None:
        """`host` was told to wait until then, which is in `seconds`."""
        ...

    async def notify(self, incarnation: str, key: str, mark: str) -> None:
        """Have an incarnation look at a key. `mark` differs from that of the notice before."""
        ...

    async def notices(self, incarnation: str) -> dict[str, str]:
        """The last mark for each key that the incarnation was notified of."""
        ...
