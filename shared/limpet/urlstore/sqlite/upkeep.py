"""The small writes of a shard: authorities, repair items, notices, and the wall clock's anchor."""

from collections.abc import Sequence
from typing import Final

import msgspec

from limpet.runtime.sqlitetx import Reader, Tx
from limpet.urlstore import counters
from limpet.urlstore.sqlite.names import Names
from limpet.urlstore.types import AuthorityRow, Notice, RepairItem

_ANCHOR: Final = "anchor"
_WAITS: Final = ("shift_host", "shift_authority")
_SHIFTS: Final = (
    "shift_url",
    "shift_due",
    "shift_lease",
    "shift_host",
    "shift_broken",
    "shift_authority",
    "shift_job_due",
    "shift_job_lease",
    "shift_log",
)


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """Where the wall clock stands against boot time: `offset_us` = wall - boot, comparable within one boot."""

    boot_id: str
    offset_us: int


def put_authority(tx: Tx, names: Names, row: AuthorityRow) -> None:
    """Store what robots must remember of an authority, met before or not."""
    authority_id, _ = names.ensure(tx, row.authority, row.host)
    tx.run("authority_put", (row.robots, row.robots_digest, row.wait_us, row.wait_reason, authority_id))


def put_repair(tx: Tx, item: RepairItem) -> None:
    """Open an item unless it is open."""
    if tx.run("repair_insert", (item.kind, item.subject, item.detail, item.created_us)) > 0:
        tx.count(counters.REPAIRS_OPEN)


def close_repair(tx: Tx, kind: str, subject: str) -> None:
    """Close an item that is open."""
    if tx.run("repair_delete", (kind, subject)) > 0:
        tx.count(counters.REPAIRS_OPEN, -1)


def notify(tx: Tx, notice: tuple[str, str, str, int, str, int, int]) -> None:
    """Add to a notice or start one; the parameters of query `notice_add`."""
    tx.run("notice_add", notice)
    tx.count(counters.NOTICES, notice[3])


def delivered(tx: Tx, notices: Sequence[Notice]) -> None:
    """Take what was delivered off the counts; a notice with nothing left ends."""
    for notice in notices:
        tx.run("notice_subtract", (notice.count, notice.id))
        tx.run("notice_end", (notice.id,))


def anchor(reader: Reader) -> Anchor | None:
    """The stored anchor."""
    text = reader.value("meta_get", (_ANCHOR,))
    return msgspec.json.decode(text, type=Anchor) if text else None


def set_anchor(tx: Tx, anchor: Anchor) -> None:
    """Store the anchor."""
    tx.run("meta_put", (_ANCHOR, msgspec.json.encode(anchor).decode()))


def shift_waits(tx: Tx, delta_us: int, anchor: Anchor) -> None:
    """Move the waits of hosts and authorities alone."""
    for query in _WAITS:
        tx.run(query, (delta_us,))
    set_anchor(tx, anchor)


def shift_times(tx: Tx, delta_us: int, anchor: Anchor | None) -> None:
    """Move all times that something waits for; 0 (none, or due since ever) stays 0."""
    for query in _SHIFTS:
        tx.run(query, (delta_us,))
    if anchor is not None:
        set_anchor(tx, anchor)
