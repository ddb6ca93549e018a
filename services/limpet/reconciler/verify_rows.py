"""What must hold inside one shard: rows ↔ due index ↔ leases ↔ outcomes ↔ outputs ↔ marks ↔ counters.

Everything is read from one snapshot, so that it holds at every instant of a running crawl as well. Only two rules
depend on how the last run ended: leases and unparsed bodies are left behind by a death, and the next run takes care of
them; after an orderly end they are faults.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from limpet.config import Facts
from limpet.model.errors import CannotGoOn
from limpet.model.events import DOCUMENT_FETCHED
from limpet.model.identity import Fingerprinter, bucket_of, identity_key, shard_of
from limpet.model.outcome import Outcome
from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.places import Place, Places
from limpet.reconciler.report import Collector
from limpet.reconciler.snapshot import Snapshot, snapshot
from limpet.reconciler.verify_counters import check_counters, recount
from limpet.runtime.sqliteopen import OtherVersionError

FAULTS_MAX: Final = 20
UNMARKED: Final = "rows have no mark in the seen set: a look-up each when they are met again"
_OUTCOME: Final = msgspec.msgpack.Decoder(Outcome)


class Sums(msgspec.Struct):
    """What outcomes add up to, for the recount of the counters."""

    outcomes: int = 0
    records: int = 0
    bytes: int = 0


class LogState(msgspec.Struct, frozen=True):
    """Of one shard's file: (topic, partition) -> begin of its log; (topic, partition, source) -> next to read."""

    starts: dict[tuple[str, int], int]
    consumed: dict[tuple[str, int, int], int]


def check_shard(
    number: int, path: Path, seen_path: Path, facts: Facts, places: Places, out: Collector
) -> LogState | None:
    """All checks of one shard; None when its file cannot be read. Raises `CannotGoOn` for a file of another version."""
    try:
        with snapshot(path, seen_path) as shard:
            return ShardCheck(number, shard, facts, places, out).run()
    except (sqlite3.Error, msgspec.MsgspecError) as error:
        out.find(Kind.STORE_DAMAGED, path.name, str(error))
    except OtherVersionError:
        raise
    except CannotGoOn as error:
        out.find(Kind.STORE_DAMAGED, path.name, str(error))
    return None


class ShardCheck:
    """The checks of one shard over one snapshot."""

    def __init__(self, number: int, shard: Snapshot, facts: Facts, places: Places, out: Collector) -> None:
        self._number = number
        self._shard = shard
        self._facts = facts
        self._places = places
        self._out = out
        self._name = f"shard {number:02d}"
        self._clean = shard.value("clean") == "1"
        self._count = 0  # rows

    def run(self) -> LogState:
        """Everything. Raises sqlite3.Error for a damaged file."""
        for fault in self._shard.faults(FAULTS_MAX):
            self._out.find(Kind.STORE_DAMAGED, self._name, fault)
        self._rows()
        self._hosts()
        self._due()
        self._leases()
        self._latest()
        sums = self._outcomes()
        self._marks()
        logs = self._logs()
        self._parsed(logs)
        actual = recount(self._shard, sums.outcomes, sums.records, sums.bytes)
        check_counters(self._shard, actual, self._name, self._out)
        self._out.checked["shards"] += 1
        return logs

    # -- rows ----------------------------------------------------------------------------------------------------------
    def _rows(self) -> None:
        fingerprint = Fingerprinter(self._facts.hash_seed).fingerprint
        rules = self._facts.identity
        for fp, url, stored in self._shard.rows("rows"):
            self._count += 1
            key = stored or url
            if fingerprint(key) != fp or identity_key(url, rules) != key:
                self._out.find(Kind.WRONG_IDENTITY, url, f"fingerprint {fp.hex()}, key {key}")
        for url, state in self._shard.rows("unknown_states"):
            self._out.find(Kind.UNKNOWN_STATE, url, f"state {state}")
        for url, rows in self._shard.rows("double_rows"):
            self._out.find(Kind.DOUBLE_OUTCOME, url, f"{rows} rows have its fingerprint")
        for (url,) in self._shard.rows("lost_seeds"):
            self._out.find(Kind.SEED_MISSING, url, "its row says that it is a seed, the list of seeds does not")
        self._out.checked["rows"] += self._count

    def _hosts(self) -> None:
        for host, counted, rows in self._shard.rows("hosts_of_rows"):
            owner = shard_of(bucket_of(host, self._facts.buckets), self._facts.shards)
            if owner != self._number:
                self._out.find(Kind.WRONG_SHARD, host, f"its {rows} rows are in {self._name}, its owner is {owner:02d}")
            if counted != rows:
                self._out.find(Kind.COUNTER_DRIFT, f"{self._name} host {host}", f"says {counted} rows, has {rows}")
            self._out.checked["hosts"] += 1
        for (url,) in self._shard.rows("rows_without_authority"):
            self._out.find(Kind.STORE_DAMAGED, url, "its authority or host does not exist")

    def _due(self) -> None:
        for url, due_us, lane in self._shard.rows("lost_due"):
            self._out.find(Kind.LOST_DUE, url, f"due at {due_us} in lane {lane}, but the index does not have it there")
        for url, due_us, lane in self._shard.rows("ghost_due"):
            self._out.find(Kind.GHOST_DUE, url, f"the index has it at {due_us} in lane {lane}")

    def _leases(self) -> None:
        left = 0
        for url, has_row, holder in self._shard.rows("leases"):
            if not has_row:
                self._out.find(Kind.LEASE, url, f"leased by {holder}, without its row")
            elif self._clean:
                self._out.find(Kind.LEASE, url, f"leased by {holder}, which ended in order")
            else:
                left += 1
        self._out.sum_up(Kind.LEASE, left, "URLs are leased: by a run that is on, or until the next one begins")

    # -- outcomes ------------------------------------------------------------------------------------------------------
    def _latest(self) -> None:
        names = {2: "fetched", 4: "gone"}
        for url, state, latest_us, outcome_state, data in self._shard.rows("latest"):
            if state not in names:
                if data is None:
                    self._out.find(Kind.LATEST_MISSING, url, f"its latest outcome, of {latest_us}, does not exist")
            elif data is None:
                self._out.find(Kind.PHANTOM_FETCH, url, f"{names[state]} at {latest_us} without an outcome")
            elif _location_is_missing(data):
                self._out.find(Kind.PHANTOM_FETCH, url, f"{names[state]} at {latest_us} without a record")
            elif outcome_state != state:
                self._out.find(Kind.PHANTOM_FETCH, url, f"{names[state]}, but its latest outcome gave {outcome_state}")

    def _outcomes(self) -> Sums:
        sums = Sums()
        for seq, fetched_us, data, fp, url in self._shard.rows("outcomes"):
            sums.outcomes += 1
            outcome = _decoded(data)
            if outcome is None or (outcome.fp, outcome.fetched_us) != (fp, fetched_us):
                self._out.find(Kind.OUTCOME_MISFILED, url or f"{self._name} outcome {seq}", _filing(outcome))
            if outcome is None:
                continue
            sums.bytes += outcome.wire_bytes
            if outcome.location is not None:
                sums.records += 1
                place = Place(outcome.location.offset, outcome.location.length, self._number, seq)
                self._places.add(outcome.location.segment, place)
            elif outcome.status and not outcome.failure:
                self._out.find(Kind.OUTCOME_WITHOUT_RECORD, outcome.url, f"status {outcome.status} at {fetched_us}")
        for url, fetched_us, count in self._shard.rows("double_outcomes"):
            self._out.find(Kind.DOUBLE_OUTCOME, url, f"{count} outcomes of {fetched_us}")
        self._out.checked["outcomes"] += sums.outcomes
        return sums

    def _parsed(self, logs: LogState) -> None:
        """A death may leave an adopted body unpublished; the next run publishes it. An orderly end may not."""
        key = (DOCUMENT_FETCHED, self._number)
        finish = next((row[3] for row in self._shard.rows("log_parts") if (row[0], row[1]) == key), 1)
        consumed = logs.consumed.get((*key, self._number), 1) >= finish
        unparsed = self._shard.rows("unparsed")
        if self._clean and consumed:
            for url, fetched_us in unparsed:
                self._out.find(Kind.UNPARSED, url, f"the body of {fetched_us} has neither output nor job")
            return
        self._out.sum_up(Kind.UNPARSED, sum(1 for _ in unparsed), "stored bodies are still to be parsed")

    # -- marks and logs ------------------------------------------------------------------------------------------------
    def _marks(self) -> None:
        if not self._shard.has_marks:
            self._out.sum_up(Kind.UNMARKED, self._count, UNMARKED)
            return
        for (fp,) in self._shard.rows("ghost_seen"):
            self._out.find(Kind.GHOST_SEEN, f"{self._name} {bytes(fp).hex()}", "marked as seen, without a row")
        self._out.sum_up(Kind.UNMARKED, self._shard.value("unmarked_count"), UNMARKED)
        self._out.checked["marks"] += self._shard.value("seen_count")

    def _logs(self) -> LogState:
        parts = {(topic, part): start for topic, part, start, _ in self._shard.rows("log_parts")}
        consumed = {(topic, part, source): begin for topic, part, source, begin in self._shard.rows("consumed")}
        return LogState(parts, consumed)


def check_gaps(logs: dict[int, LogState], out: Collector) -> None:
    """No log begins behind what its reader has yet to read. Begins move only after readers did."""
    for source, state in logs.items():
        for (topic, part), start in state.starts.items():
            reader = logs.get(part)
            offset = reader.consumed.get((topic, part, source), 1) if reader is not None else start
            if offset < start:
                detail = f"shard {part:02d} reads on at {offset}, the log begins at {start}"
                out.find(Kind.LOG_GAP, f"{topic} of shard {source:02d}", detail)


def _location_is_missing(data: bytes) -> bool:
    outcome = _decoded(data)
    return outcome is None or outcome.location is None


def _decoded(data: Any) -> Outcome | None:
    try:
        return _OUTCOME.decode(data)
    except (msgspec.MsgspecError, TypeError):
        return None


def _filing(outcome: Outcome | None) -> str:
    if outcome is None:
        return "it cannot be read"
    return f"it is the outcome of {outcome.url} at {outcome.fetched_us}"


def decode_outcome(data: bytes) -> Outcome:
    """An outcome as stored. Raises msgspec.MsgspecError."""
    return _OUTCOME.decode(data)


def outcomes(shard: Snapshot, batch: int) -> Iterator[Outcome]:
    """Every readable outcome of a shard, batch by batch, so that no snapshot is held."""
    after = 0
    while rows := list(shard.rows("outcomes_after", (after, batch))):
        after = rows[-1][0]
        yield from (outcome for _, data in rows if (outcome := _decoded(data)) is not None)
