"""Rows, due index, claims and recovery of one shard, put together."""

from limpet.clock import Clock
from limpet.runtime.randomness import Random
from limpet.urlstore.cassandra.batches import UNRECORDED, Groups
from limpet.urlstore.cassandra.claims import Claims
from limpet.urlstore.cassandra.completion import Completions, Outcomes
from limpet.urlstore.cassandra.cursors import Cursors, Wakes
from limpet.urlstore.cassandra.discovery import Discovery
from limpet.urlstore.cassandra.dueindex import DueIndex
from limpet.urlstore.cassandra.expiry import Expiry, Leases
from limpet.urlstore.cassandra.hooks import Ledger
from limpet.urlstore.cassandra.moves import Moves
from limpet.urlstore.cassandra.reading import Reading
from limpet.urlstore.cassandra.session import Session
from limpet.urlstore.cassandra.writes import Writes


class Core:
    """The parts that share a due index and what was read of it. `owner`: this process alone claims from the shard."""

    def __init__(
        self,
        session: Session,
        shard: int,
        ledger: Ledger,
        *,
        clock: Clock,
        random: Random,
        owner: bool,
        groups: Groups = UNRECORDED,
    ) -> None:
        self.index = DueIndex(session, shard, clock)
        self.writes = Writes(session, random)
        self.moves = Moves(self.index, self.writes)
        self.wakes = Wakes(session, self.index, shard, clock)
        cursors = Cursors(session, self.index, clock)
        self.reading = Reading(session, self.index, cursors, self.wakes, clock)
        self.discovery = Discovery(session, shard, self.moves, ledger, groups)
        self.claims = Claims(session, self.reading, cursors, self.wakes, self.moves, groups)
        self.outcomes = Outcomes(session, shard, ledger)
        self.completions = Completions(self.reading, self.moves, self.outcomes, ledger)
        self.leases = Leases(session, self.reading, self.moves, self.wakes)
        self.expiry = Expiry(self.leases, self.reading, self.moves, self.outcomes, ledger, owner=owner, groups=groups)
