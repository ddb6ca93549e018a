"""`limpet verify`: is the archive intact, and does it hold what the rows say?

The rows are read first, one snapshot a shard; then the archive, as far as it reached at that time, so that whatever a
row says was there to be found. That holds beside a running crawl too. What came into the archive after its rows were
read is counted as in flight. Reads only; raises `CannotGoOn` for a folder of another version of Limpet.
"""

import contextlib
import sqlite3
from collections.abc import Iterator

from limpet.model.errors import CannotGoOn, UsageError
from limpet.reconciler.archive_walk import Archive
from limpet.reconciler.crawl_folder import CrawlFolder, is_running
from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.places import Places
from limpet.reconciler.report import Collector, Report
from limpet.reconciler.snapshot import Snapshot, reading
from limpet.reconciler.verify_links import AdmissibleLinks, LinkCheck
from limpet.reconciler.verify_rows import LogState, check_gaps, check_shard
from limpet.reconciler.verify_segments import SegmentCheck
from limpet.runtime.disk import Disk, SystemDisk


def verify(
    folder: CrawlFolder, *, links: bool = False, admissible: AdmissibleLinks | None = None, disk: Disk | None = None
) -> Report:
    """Check the whole folder. With `links` also parse stored bodies again, which takes `admissible` (UsageError).

    `disk` is where the segments are; the shards are files of the machine.
    """
    if links and admissible is None:
        raise UsageError("a check of links needs the parser and the rules of admission: give `admissible`")
    out = Collector()
    running = is_running(folder.path)
    archive = Archive(folder.segment_directories, disk or SystemDisk())
    with Places() as places, _shards(folder) as shards:
        logs = _check_rows(folder, archive, places, out)
        check_gaps(logs, out)
        check = SegmentCheck(
            archive=archive, places=places, shards=shards, facts=folder.facts, running=running, out=out
        )
        _check_archive(archive, places, check, out)
        if links and admissible is not None:
            LinkCheck(folder, archive, shards, logs, admissible, out).run()
    return out.report()


@contextlib.contextmanager
def _shards(folder: CrawlFolder) -> Iterator[dict[int, Snapshot]]:
    """Every shard that can be read; what is wrong with the others is said by the checks of their rows."""
    with contextlib.ExitStack() as stack:
        found: dict[int, Snapshot] = {}
        for number in range(folder.facts.shards):
            with contextlib.suppress(sqlite3.Error, CannotGoOn):
                found[number] = stack.enter_context(contextlib.closing(reading(folder.shard_file(number))))
        yield found


def _check_rows(folder: CrawlFolder, archive: Archive, places: Places, out: Collector) -> dict[int, LogState]:
    """The checks of every shard. A crawl that never ran has neither shard files nor segments, and nothing wrong."""
    numbers = range(folder.facts.shards)
    present = {number for number in numbers if folder.shard_file(number).exists()}
    ran = bool(present) or bool(archive.segments())
    logs: dict[int, LogState] = {}
    for number in numbers:
        path = folder.shard_file(number)
        if number not in present:
            if ran:
                out.find(Kind.STORE_MISSING, path.name, "this shard of the crawl has no file")
            continue
        state = check_shard(number, path, folder.seen_file(number), folder.facts, places, out)
        if state is not None:
            logs[number] = state
    return logs


def _check_archive(archive: Archive, places: Places, check: SegmentCheck, out: Collector) -> None:
    segments = archive.segments()
    missing = set(places.segments()) - {segment.name for segment in segments}
    for name in sorted(missing):
        out.find(Kind.SEGMENT_MISSING, name, f"{places.count(name)} outcomes name it")
    for segment in segments:
        try:
            check.run(segment)
        except OSError as error:
            out.find(Kind.DAMAGED, segment.name, f"cannot be read: {error}")
    for path in archive.strays():
        out.note(Kind.STRAY_FILE, f"{path.parent.name}/{path.name}", "not a file of this crawl")
