"""What the reconciler compares, as a list that people read: each comparison, what it found, and how old that is."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.report import Report
from limpet.urlstore import RepairItem

ROWS_DUE: Final = "rows ↔ due index"
ROWS_SEEN: Final = "rows ↔ seen"
OUTCOMES_RECORDS: Final = "outcomes ↔ records ↔ CDXJ"
FETCHED_PARSED: Final = "fetched ↔ parsed ↔ dead letters"
POSITIONS_LOGS: Final = "positions ↔ log starts"
LEASES_INCARNATIONS: Final = "leases ↔ incarnations"
STORES: Final = "stores ↔ themselves"

COMPARES: Final[dict[str, frozenset[Kind]]] = {
    ROWS_DUE: frozenset({Kind.LOST_DUE, Kind.GHOST_DUE}),
    ROWS_SEEN: frozenset({Kind.GHOST_SEEN, Kind.UNMARKED}),
    OUTCOMES_RECORDS: frozenset(
        {
            Kind.PHANTOM_FETCH,
            Kind.OUTCOME_WITHOUT_RECORD,
            Kind.SEGMENT_MISSING,
            Kind.REPLICA_MISSING,
            Kind.REPLICA_DIFFERS,
            Kind.DAMAGED,
            Kind.GZIP_HEADER,
            Kind.BAD_RECORD,
            Kind.WRONG_DIGEST,
            Kind.INCOMPLETE_CAPTURE,
            Kind.DANGLING_REVISIT,
            Kind.MISSING_RECORD,
            Kind.WRONG_RECORD,
            Kind.SHARED_RECORD,
            Kind.LOST_ROW,
            Kind.ADOPTABLE,
            Kind.DUPLICATE_RECORD,
            Kind.TORN_TAIL,
            Kind.UNSEALED,
            Kind.STRAY_FILE,
            Kind.INDEX_MISSING,
            Kind.INDEX_LINE_MISSING,
            Kind.INDEX_LINE_WRONG,
            Kind.INDEX_LINE_EXTRA,
            Kind.INDEX_UNSORTED,
        }
    ),
    FETCHED_PARSED: frozenset({Kind.UNPARSED, Kind.LOST_LINK, Kind.LINKS_UNCHECKED}),
    POSITIONS_LOGS: frozenset({Kind.LOG_GAP}),
    LEASES_INCARNATIONS: frozenset({Kind.LEASE}),
    STORES: frozenset(
        {
            Kind.STORE_DAMAGED,
            Kind.STORE_MISSING,
            Kind.UNKNOWN_STATE,
            Kind.WRONG_IDENTITY,
            Kind.WRONG_SHARD,
            Kind.SEED_MISSING,
            Kind.LATEST_MISSING,
            Kind.OUTCOME_MISFILED,
            Kind.DOUBLE_OUTCOME,
            Kind.COUNTER_DRIFT,
        }
    ),
}
"""What `verify` finds, by comparison; every kind belongs to one."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison: how much was found, since when (microseconds since the epoch, 0 = not known), and words."""

    comparison: str
    findings: int
    since_us: int = 0
    detail: str = ""


class Standings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was compared, and repair items that are open."""

    compared: tuple[Standing, ...]
    items: tuple[RepairItem, ...]

    @property
    def ok(self) -> bool:
        """Nothing was found, and nothing is to be repaired."""
        return not self.items and not any(one.findings for one in self.compared)


def standings_of(report: Report, items: Sequence[RepairItem]) -> Standings:
    """A check of a folder, comparison by comparison."""
    found = Counter(finding.kind for finding in report.findings)
    noted = Counter(note.kind for note in report.notes)
    return Standings(
        compared=tuple(
            Standing(
                comparison=name,
                findings=sum(found[kind.value] for kind in kinds),
                detail=_words(found, kinds) or _words(noted, kinds, "noted: "),
            )
            for name, kinds in COMPARES.items()
        ),
        items=tuple(sorted(items, key=lambda item: (item.created_us, item.kind, item.subject))),
    )


def _words(counts: Counter[str], kinds: frozenset[Kind], before: str = "") -> str:
    said = ", ".join(sorted(f"{counts[kind.value]} {kind.value}" for kind in kinds if counts[kind.value]))
    return f"{before}{said}" if said else ""
