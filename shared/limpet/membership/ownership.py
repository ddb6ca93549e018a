"""Ownership of shards: taken by a condition on the owner's row, kept by a lease, passed on when drained.

The hint (`Membership`) says which shards to have; nothing is safe because of it. Each shard has one life here:

1. *free*: the row names nobody; or it names an incarnation that is proven dead, and the longest fetch has passed since.
2. *taken*: the row changes from what was read to us, epoch + 1, or somebody else was first.
3. *kept*: `alive` is True while our lease is. Nobody else may take the shard before that lease is over for sure.
4. *ended*: another living process is told to have it, the lease ran out, or this process stops. From then on `alive`
   is False, and what is under way is drained.
5. *passed on*: only then does the row name nobody, with the same epoch. After a lapse it keeps naming the incarnation
   that lapsed: what it left unfinished is for those to wait for who take over from the dead.

A shard that leaves the hint stays here until a living process wants it, so a hint that fails (no broker, no group) ends
no ownership. A free shard that nobody wants is an orphan; after a while one of the living takes it, in an order that
all of them agree upon.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final

from limpet.clock import Clock
from limpet.membership.hint import Membership
from limpet.membership.lease import Lease
from limpet.membership.observer import Observer
from limpet.membership.presence import Presence, nap
from limpet.membership.table import UNOWNED, LeaseTable, Owner
from limpet.membership.timing import Timing
from limpet.model.errors import Definite, Indefinite

ORPHAN_POLLS: Final = 3
"""Polls that each of the living has for an orphan before it is the next one's turn."""


class Previous(StrEnum):
    """What became of the owner before: it drained and passed the shard on (or there was none), or it died."""

    RELEASED = "released"
    DEAD = "dead"


class Loss(StrEnum):
    """Why a shard is ours no longer."""

    MOVED = "moved"  # another process is told to have it
    LAPSED = "lapsed"  # our lease ran out: nothing may be completed any more
    FENCED = "fenced"  # the row names a later epoch, which cannot be unless clocks are broken; as lapsed
    STOPPING = "stopping"  # this process ends


TakeHandler = Callable[[int, int, Previous], Awaitable[None]]
LossHandler = Callable[[int, Loss], Awaitable[None]]


class _Held:
    """One shard of ours, from its taking to the end."""

    __slots__ = ("ended", "epoch", "lease", "why")

    def __init__(self, lease: Lease, epoch: int) -> None:
        self.lease = lease
        self.epoch = epoch
        self.ended = asyncio.Event()
        self.why: Loss | None = None

    def end(self, why: Loss) -> None:
        if self.why is None:
            self.why = why
            self.ended.set()

    def alive(self) -> bool:
        return self.why is None and self.lease.alive()


class Ownership:
    """Takes, keeps and passes on the shards 0 to `shards` - 1 for this process, whose `presence` it runs.

    `on_take(shard, epoch, previous)` is called when the shard is ours; `on_lose(shard, why)` when it no longer is, once
    for each take, after `on_take` has returned. `on_lose` returns when nothing that concerns the shard is under way any
    more: after `MOVED` and `STOPPING` what was sent may be completed first while `holds` is True, after `LAPSED` and
    `FENCED` nothing may. Both must come to an end by themselves; what they raise ends `run`, and others then find this
    process dead.
    """

    def __init__(
        self,
        table: LeaseTable,
        clock: Clock,
        timing: Timing,
        *,
        shards: int,
        hint: Membership,
        presence: Presence,
        on_take: TakeHandler,
        on_lose: LossHandler,
        observer: Observer | None = None,
    ) -> None:
        self.presence = presence
        self.observer = observer or Observer(table, clock, timing)
        self._table = table
        self._clock = clock
        self._timing = timing
        self._shards = shards
        self._hint = hint
        self._on_take = on_take
        self._on_lose = on_lose
        self._begun: dict[int, asyncio.Task[None]] = {}  # a shard that is being taken, kept, or drained
        self._held: dict[int, _Held] = {}
        self._unsure: dict[int, tuple[str, Previous]] = {}  # takes of which nobody could say what became of them
        self._orphaned_us: dict[int, int] = {}
        self._stopping = False
        presence.wants = self._wants

    # -- for whoever works on the shards -----------------------------------------------------------------------------
    def alive(self, shard: int) -> bool:
        """Whether a request for the shard may be sent now: ask with no await before the sending."""
        held = self._held.get(shard)
        return held is not None and held.alive()

    def holds(self, shard: int) -> bool:
        """Whether what was sent for the shard may be completed now: as `alive`, but also while it is drained."""
        held = self._held.get(shard)
        return held is not None and held.why not in {Loss.LAPSED, Loss.FENCED} and held.lease.alive()

    def epoch(self, shard: int) -> int:
        """The epoch under which the shard is ours, 0 = it is not."""
        held = self._held.get(shard)
        return held.epoch if held is not None and self.holds(shard) else 0

    def shards(self) -> frozenset[int]:
        """The shards for which `alive` is True now."""
        return frozenset(shard for shard, held in self._held.items() if held.alive())

    # -- the life of the process -------------------------------------------------------------------------------------
    async def run(self, stop: asyncio.Event) -> None:
        """Own shards until `stop`; then drain them all, pass them on, and be gone. Raises what the handlers raise."""
        absent = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.presence.run(absent))
                while not stop.is_set():
                    for shard, old, previous in await self._round():
                        self._begun[shard] = tasks.create_task(self._own(shard, old, previous))
                    await nap(self._clock, self._timing.poll_seconds, stop)
                self._end_all()
                if self._begun:
                    await asyncio.wait(self._begun.values())
                absent.set()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        finally:
            self.presence.lease.end()

    def _end_all(self) -> None:
        self._stopping = True
        for held in self._held.values():
            held.end(Loss.STOPPING)

    def _wants(self) -> frozenset[int]:
        return frozenset() if self._stopping else self._hint.share()

    # -- one look at the table ---------------------------------------------------------------------------------------
    async def _round(self) -> list[tuple[int, Owner, Previous]]:
        """End what is to end; the shards to take now, from whom, and what became of those."""
        try:
            owners = await self._table.owners()
            await self.observer.look(owner.incarnation for owner in owners.values())
        except (Definite, Indefinite):
            return []  # leases go on, or lapse; nothing is taken
        hinted, elsewhere = self._hint.share(), self._wanted_elsewhere()
        for shard, held in self._held.items():
            if owners.get(shard, UNOWNED).epoch > held.epoch:
                held.end(Loss.FENCED)
            elif shard in elsewhere and shard not in hinted:
                held.end(Loss.MOVED)
        free = self._all_free(owners)
        self._orphaned_us = {shard: us for shard, us in self._orphaned_us.items() if shard in free}
        named = self.presence.lease.incarnation  # by a take of ours that nobody knew of; who wants it gets it from us
        asked = [
            shard
            for shard in free
            if shard in hinted
            or owners.get(shard, UNOWNED).incarnation == named
            or (shard not in elsewhere and self._my_turn(shard))
        ]
        return [(shard, owners.get(shard, UNOWNED), free[shard]) for shard in asked]

    def _wanted_elsewhere(self) -> frozenset[int]:
        mine = self.presence.lease.incarnation
        others = [beat for beat in self.observer.living(self.presence.role) if beat.incarnation != mine]
        return frozenset().union(*(beat.wants for beat in others))

    def _all_free(self, owners: dict[int, Owner]) -> dict[int, Previous]:
        found = {
            shard: self._free(shard, owners.get(shard, UNOWNED))
            for shard in range(self._shards)
            if shard not in self._begun
        }
        return {shard: previous for shard, previous in found.items() if previous is not None}

    def _free(self, shard: int, owner: Owner) -> Previous | None:
        """What became of the owner if the shard may be taken now, else None."""
        if not owner.incarnation:
            return Previous.RELEASED
        if owner.incarnation == self.presence.lease.incarnation:
            by, previous = self._unsure.get(shard, ("", Previous.RELEASED))
            return previous if by == owner.incarnation else Previous.RELEASED  # a release of ours that did not arrive
        return Previous.DEAD if self.observer.fetched_out(owner.incarnation) else None

    def _my_turn(self, shard: int) -> bool:
        """Whether an orphan has been free for so long that it is for this process to take."""
        now_us = self._clock.boot_us()
        since_us = self._orphaned_us.setdefault(shard, now_us)
        mine = self.presence.lease.incarnation
        names = {beat.incarnation for beat in self.observer.living(self.presence.role)} | {mine}
        rank = sorted(names, key=lambda name: _draw(shard, name)).index(mine)
        alone_seconds = self._timing.orphan_seconds + rank * ORPHAN_POLLS * self._timing.poll_seconds
        return now_us - since_us >= alone_seconds * 1e6

    # -- taking, keeping, passing on ---------------------------------------------------------------------------------
    async def _own(self, shard: int, old: Owner, previous: Previous) -> None:
        """The life of one shard here, steps 2 to 5."""
        try:
            held = await self._take(shard, old, previous)
            if held is not None:
                await self._keep(shard, held)
        finally:
            self._held.pop(shard, None)
            self._begun.pop(shard, None)

    async def _take(self, shard: int, old: Owner, previous: Previous) -> _Held | None:
        """Take the shard if its row is still `old`. None: somebody else did, or nobody knows."""
        lease = self.presence.lease
        if not lease.alive():
            return None
        new = Owner(lease.incarnation, old.epoch + 1)
        self._unsure[shard] = (lease.incarnation, previous)
        if not await self._set(shard, old, new):
            return None
        del self._unsure[shard]
        if not lease.alive():
            return None
        held = self._held[shard] = _Held(lease, new.epoch)
        if self._stopping:
            held.end(Loss.STOPPING)
        await self._on_take(shard, held.epoch, previous)
        return held

    async def _set(self, shard: int, old: Owner, new: Owner) -> bool:
        """Change a row, and read what became of it where that is unknown."""
        try:
            return await self._table.compare_and_set(shard, old, new)
        except Definite:
            return False
        except Indefinite:
            try:
                return await self._table.owner(shard) == new
            except (Definite, Indefinite):
                return False  # the next round finds a row that names us, or does not

    async def _keep(self, shard: int, held: _Held) -> None:
        while held.why is None:
            if not held.lease.alive():
                held.end(Loss.LAPSED)
            else:
                await nap(self._clock, self._timing.poll_seconds, held.ended)
        await self._on_lose(shard, held.why)
        if held.why in {Loss.MOVED, Loss.STOPPING}:
            await self._pass_on(shard, held)

    async def _pass_on(self, shard: int, held: _Held) -> None:
        mine, nobody = Owner(held.lease.incarnation, held.epoch), Owner("", held.epoch)
        while held.lease.alive():
            try:
                await self._table.compare_and_set(shard, mine, nobody)
            except (Definite, Indefinite):
                await nap(self._clock, self._timing.poll_seconds, asyncio.Event())
            else:
                return  # a row that does not name us any more was changed by an attempt before


def _draw(shard: int, name: str) -> bytes:
    """The order in which the living may take an orphan: another one for each shard, the same for all who look."""
    return hashlib.blake2b(f"{shard} {name}".encode(), digest_size=8).digest()
