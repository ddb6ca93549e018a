"""`limpet audit`: were we polite? Judged again, from the archive, by code that shares nothing with robots or governor.

Every request is taken from its records (those that no HTTP answer came for from their outcomes), sorted by host and
time, and asked: was it licensed by an archived copy of robots.txt, did it leave the host its time, and alone when the
host was in trouble, did it keep the ceilings of what hosts share, did it say who we are? May run beside a crawl: a
segment is judged as far as it reached. Reads only.

What cannot be seen here: a request that was under way when its process died left no trace. The sites' own logs have it;
`loadtest/origin` judges those.
"""

import sqlite3
from collections.abc import Iterable
from itertools import groupby

from limpet.config import Settings
from limpet.fetch.gate import Owned
from limpet.model.errors import CannotGoOn
from limpet.reconciler.archive_walk import Archive
from limpet.reconciler.audit_archive import ArchiveReader
from limpet.reconciler.audit_breaker import Breaker
from limpet.reconciler.audit_ceilings import Ceilings
from limpet.reconciler.audit_evidence import Evidence, Exchange, ExchangeKind
from limpet.reconciler.audit_gaps import Gaps, Rules
from limpet.reconciler.audit_licence import Licences
from limpet.reconciler.audit_matcher import Readers
from limpet.reconciler.audit_ownership import Ownership, Who
from limpet.reconciler.audit_troubles import Memory
from limpet.reconciler.audit_waits import OwnWaits
from limpet.reconciler.crawl_folder import CrawlFolder, settings_stored_us
from limpet.reconciler.kinds import AuditKind as Kind
from limpet.reconciler.report import Collector, Report
from limpet.reconciler.snapshot import Snapshot, reading
from limpet.reconciler.verify_rows import outcomes
from limpet.runtime.disk import Disk, SystemDisk

OUTCOMES_BATCH = 1_000


def audit(folder: CrawlFolder, *, disk: Disk | None = None) -> Report:
    """Judge every request of the crawl. Raises `CannotGoOn` for a folder of another version of Limpet.

    `disk` is where the segments are; the shards are files of the machine.
    """
    out = Collector()
    archive = Archive(folder.segment_directories, disk or SystemDisk())
    with Evidence() as evidence:
        reader = ArchiveReader(archive, folder.facts, evidence, out)
        _read_outcomes(folder, reader, out)
        for segment in archive.segments():
            try:
                reader.read(segment)
            except OSError as error:
                out.find(Kind.UNREADABLE, segment.name, str(error))
        evidence.settle()
        _find_unjudged(evidence, out)
        _Judge(evidence, _rules(folder), Readers(folder.facts.agent, evidence.body), out).run()
    _note_floor(out)
    return out.report()


def _find_unjudged(evidence: Evidence, out: Collector) -> None:
    """What the rows say was fetched, and no segment shows: nobody can say whether that was polite."""
    for segment, url, count in evidence.unseen():
        more = f" and {count - 1:,} more" if count > 1 else ""
        out.find(Kind.UNJUDGED, segment, f"{url}{more}: fetched, says its row, and not in the archive")


def _read_outcomes(folder: CrawlFolder, reader: ArchiveReader, out: Collector) -> None:
    for number in range(folder.facts.shards):
        path = folder.shard_file(number)
        if not path.exists():
            out.find(Kind.UNREADABLE, path.name, "this shard of the crawl has no file")
            continue
        try:
            _read_shard(reading(path), reader)
        except sqlite3.Error as error:
            out.find(Kind.UNREADABLE, path.name, str(error))


def _read_shard(shard: Snapshot, reader: ArchiveReader) -> None:
    try:
        for outcome in outcomes(shard, OUTCOMES_BATCH):
            reader.outcome(outcome)
    finally:
        shard.close()


def _rules(folder: CrawlFolder) -> Rules:
    settings = folder.load_settings()
    since_us = settings_stored_us(folder.path) if settings is not None else None
    settings = settings or Settings()
    try:
        owned = Owned.parse(settings.owned)
    except ValueError as error:
        raise CannotGoOn(f"the stored settings of {folder.path} cannot be read: {error}") from error
    return Rules(politeness=settings.politeness, since_us=since_us, owned=owned)


class _Judge:
    """Host by host: whatever is remembered of a host is forgotten with its last request."""

    def __init__(self, evidence: Evidence, rules: Rules, readers: Readers, out: Collector) -> None:
        self._evidence = evidence
        self._rules = rules
        self._readers = readers
        self._memory = Memory(evidence)
        self._out = out

    def run(self) -> None:
        ceilings = Ceilings(self._rules.politeness, self._rules.since_us, self._evidence, self._out)
        for host, exchanges in groupby(self._evidence.exchanges(), key=lambda exchange: exchange.host):
            self._host(host, exchanges, ceilings)
            self._out.checked["hosts"] += 1
        ceilings.judge()
        for reader, count in sorted(self._readers.unread.items()):
            self._out.note(Kind.READER_ABSENT, reader, f"{count:,} fetches not judged by it; the other readers did")

    def _host(self, host: str, exchanges: Iterable[Exchange], ceilings: Ceilings) -> None:
        licences, gaps = Licences(self._evidence, self._readers, self._out), Gaps(self._rules, self._out)
        breaker, waits = Breaker(self._memory, self._out), OwnWaits(self._evidence, self._memory, self._out)
        ownership = Ownership(host, self._rules.owned)
        before: Exchange | None = None
        for exchange in exchanges:
            if before is None or not _is_same(before, exchange):
                delay_us = self._delay_us(exchange, licences)
                gaps.check(exchange, delay_us, owned=ownership.owned)
                breaker.check(exchange)
                waits.check(exchange)
                ceilings.take(exchange, Who(ownership.owned, ownership.frees(exchange.address)))
                ownership.met(exchange.address)
                if exchange.kind is ExchangeKind.ROBOTS:
                    newest = licences.newest(exchange.authority)
                    ownership.proves(exchange.authority, named=bool(newest) and self._readers.names_agent(newest))
            before = exchange

    def _delay_us(self, exchange: Exchange, licences: Licences) -> int:
        """Judge the licence; the crawl-delay that came with it."""
        if exchange.kind is ExchangeKind.ROBOTS:
            licences.learn(exchange)
            return 0
        if exchange.kind is ExchangeKind.CONTACT:
            return 0
        copy = licences.check(exchange)
        return self._readers.delay_us(copy.digest) if copy is not None else 0


def _is_same(one: Exchange, other: Exchange) -> bool:
    """A capture that was appended twice, because nobody knew whether the first append had succeeded."""
    return (one.url, one.start_us, one.end_us, one.kind) == (other.url, other.start_us, other.end_us, other.kind)


def _note_floor(out: Collector) -> None:
    count = out.checked.pop("floor_unknown", 0)
    if count:
        detail = f"{count} requests are older than the stored settings: judged by the gap that they recorded"
        out.note(Kind.FLOOR_UNKNOWN, "settings.json", detail)
