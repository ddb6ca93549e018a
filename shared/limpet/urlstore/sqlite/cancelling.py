"""The operator's side of a shard: the rows of a host are taken out of the queue, and put back."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from limpet.model.lifecycle import Actor, State, move
from limpet.runtime.sqlitetx import Tx
from limpet.urlstore import counters
from limpet.urlstore.sqlite import codes
from limpet.urlstore.sqlite.dueindex import DueIndex
from limpet.urlstore.sqlite.work import make_due
from limpet.urlstore.types import Lane


class Extent(NamedTuple):
    """How far one call goes: the due time or the moment, how many rows at most, and how paths begin."""

    at_us: int
    limit: int
    paths: Sequence[str]

    @property
    def listed(self) -> str:
        """The paths as queries take them."""
        return json.dumps(list(self.paths))


def cancel(tx: Tx, index: DueIndex, host: str, reason: str, extent: Extent) -> int:
    """End leases first, then take due rows out, those under the paths. What was fetched stays fetched."""
    now_us, limit, _ = extent
    leased = tx.all("leases_of_host", (host, extent.listed, limit))
    for fp, url_id in leased:
        move(State.LEASED, State.CANCELLED, Actor.OPERATOR)
        tx.run("lease_delete", (fp,))
        _cancel(tx, url_id, reason, now_us)
    due = tx.all("waiting_of_host", (host, extent.listed, limit - len(leased)))
    for authority_id, lane, due_us, url_id in due:
        move(State.DUE, State.CANCELLED, Actor.OPERATOR)
        index.remove(tx, authority_id, lane, due_us, url_id)
        _cancel(tx, url_id, reason, now_us)
    count = len(leased) + len(due)
    if count:
        tx.count(counters.of_state(State.LEASED), -len(leased))
        tx.count(counters.of_state(State.DUE), -len(due))
        tx.count(counters.of_state(State.CANCELLED), count)
        tx.count(counters.CANCELLED, count)
    return count


def _cancel(tx: Tx, url_id: int, reason: str, now_us: int) -> None:
    tx.run("url_cancel", (reason, url_id))
    tx.run("ended_insert", (url_id, now_us, codes.CODES[State.CANCELLED], reason))


def uncancel(tx: Tx, index: DueIndex, host: str, reason: str, extent: Extent) -> int:
    """Rows that were taken out for `reason` are due again, but not those under the paths."""
    now_us, limit, _ = extent
    rows = tx.all("cancelled_of_host", (codes.CODES[State.CANCELLED], reason, host, extent.listed, limit))
    for url_id, authority_id in rows:
        move(State.CANCELLED, State.DUE, Actor.OPERATOR)
        make_due(tx, index, authority_id, url_id, State.CANCELLED, (Lane.NEW, now_us))
    return len(rows)
