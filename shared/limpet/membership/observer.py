"""Whether others live, judged on the observer's own boot clock."""

from collections.abc import Iterable

from limpet.clock import Clock
from limpet.membership.table import Beat, LeaseTable
from limpet.membership.timing import Timing


class _Seen:
    __slots__ = ("beat", "looked_us", "since_us")

    def __init__(self, beat: Beat | None, since_us: int) -> None:
        self.beat = beat
        self.since_us = since_us  # when an answer first showed this beat
        self.looked_us = since_us  # when the last question was sent whose answer still showed it


class Observer:
    """Watches the beats of all incarnations.

    One is dead when a question, sent a lease and the margin after its beat was first seen, still finds that beat. Its
    owner then counted its lease as over before the question was sent, and never takes it up again (`Lease`). An
    incarnation that has no beat, but is named as an owner, is watched in the same way from when it is first named.
    """

    def __init__(self, table: LeaseTable, clock: Clock, timing: Timing) -> None:
        self._table = table
        self._clock = clock
        self._timing = timing
        self._seen: dict[str, _Seen] = {}
        self._looked_us: int | None = None

    async def look(self, named: Iterable[str] = ()) -> None:
        """Ask the table; `named` are incarnations that something names, alive or not. Raises what the table raises."""
        sent_us = self._clock.boot_us()
        beats = await self._table.incarnations()
        self.saw({beat.incarnation: beat for beat in beats}, named, sent_us)

    def saw(self, beats: dict[str, Beat], named: Iterable[str], sent_us: int) -> None:
        """An answer of the table to a question sent at `sent_us`, boot time."""
        now_us, self._looked_us = self._clock.boot_us(), sent_us
        known = {**dict.fromkeys(name for name in named if name), **beats}
        self._seen = {name: self._next(name, beat, sent_us, now_us) for name, beat in known.items()}

    def _next(self, name: str, beat: Beat | None, sent_us: int, now_us: int) -> _Seen:
        seen = self._seen.get(name)
        if seen is None or _count(seen.beat) != _count(beat):
            return _Seen(beat, now_us)
        seen.beat = beat
        seen.looked_us = max(seen.looked_us, sent_us)
        return seen

    def silent_us(self, incarnation: str) -> int:
        """For how long its beat is known to have stood still; 0 for one never heard of."""
        seen = self._seen.get(incarnation)
        return 0 if seen is None else seen.looked_us - seen.since_us

    def dead(self, incarnation: str) -> bool:
        """Whether it is proven dead; it never comes back."""
        return self.silent_us(incarnation) >= self._timing.death_us

    def fetched_out(self, incarnation: str) -> bool:
        """Whether it is dead for so long that every request it had sent has ended."""
        return self.silent_us(incarnation) >= self._timing.takeover_us

    def left(self, incarnation: str, since_us: int) -> bool:
        """Whether it had no beat when last asked, after `since_us`: it was forgotten, and will never act again.

        Only for an incarnation that is known to have been alive at some time before `since_us`.
        """
        if self._looked_us is None or self._looked_us <= since_us:
            return False
        seen = self._seen.get(incarnation)
        return seen is None or seen.beat is None

    def living(self, role: str) -> list[Beat]:
        """The last beats of the incarnations of a role that are not proven dead."""
        return [
            seen.beat
            for name, seen in self._seen.items()
            if seen.beat is not None and seen.beat.role == role and not self.dead(name)
        ]


def _count(beat: Beat | None) -> int:
    return -1 if beat is None else beat.count
