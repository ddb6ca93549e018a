"""The copies of a segment against each other, byte by byte, as far as they were acknowledged."""

from collections.abc import Iterator
from pathlib import Path

from limpet.reconciler.archive_walk import READ_BYTES, Archive, Read, Replica, Segment
from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.report import Collector


def check_replicas(archive: Archive, segment: Segment, acknowledged_bytes: int, out: Collector) -> list[Replica]:
    """Compare all copies with the first; those that differ from it are returned.

    Of a segment that is not sealed only the acknowledged bytes must be everywhere: behind them the copies may be at
    different points of a write, or a death may have left them there.
    """
    for folder in _without(archive, segment):
        detail = f"{folder} does not have it"
        if segment.sealed or acknowledged_bytes:
            out.find(Kind.REPLICA_MISSING, segment.name, detail)
        else:
            out.note(Kind.REPLICA_MISSING, segment.name, detail)
    first, *others = segment.replicas
    return [other for other in others if not _is_equal(archive, segment, first, other, acknowledged_bytes, out)]


def _without(archive: Archive, segment: Segment) -> Iterator[Path]:
    having = {replica.folder for replica in segment.replicas}
    return (folder for folder in archive.folders if folder not in having)


def _is_equal(
    archive: Archive, segment: Segment, one: Replica, other: Replica, acknowledged_bytes: int, out: Collector
) -> bool:
    bound = max(one.size_bytes, other.size_bytes) if segment.sealed else acknowledged_bytes
    at = first_difference(archive.reader(segment, one), archive.reader(segment, other), bound)
    out.checked["replica_bytes"] += bound
    if at is None:
        return True
    detail = f"{one.folder.name} ({one.size_bytes} bytes) and {other.folder.name} ({other.size_bytes} bytes)"
    out.find(Kind.REPLICA_DIFFERS, segment.name, f"{detail} differ from byte {at} on")
    return False


def first_difference(one: Read, other: Read, size_bytes: int) -> int | None:
    """Offset of the first byte in which two files differ, one that only one of them has included; None if none does."""
    offset = 0
    while offset < size_bytes:
        want = min(READ_BYTES, size_bytes - offset)
        left, right = one(offset, want), other(offset, want)
        if left != right:
            return offset + _common(left, right)
        if not left:
            return offset
        offset += len(left)
    return None


def _common(left: bytes, right: bytes) -> int:
    """Length of the common beginning. By bisection: comparing slices is fast, comparing bytes one by one is not."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def check_indexes(archive: Archive, segment: Segment, out: Collector) -> bytes | None:
    """The index of a sealed segment, from the first copy that has one; all copies must have the same."""
    found: bytes | None = None
    for replica in segment.replicas:
        index = archive.index(segment, replica)
        where = f"{replica.folder.name}/{segment.name}"
        if index is None:
            out.find(Kind.INDEX_MISSING, where, "a sealed segment without its .cdxj")
        elif found is None:
            found = index
        elif index != found:
            out.find(Kind.REPLICA_DIFFERS, where, "its .cdxj is not the one beside the first copy")
    return found
