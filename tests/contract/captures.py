"""Captures that a number decides, and what a reconciler does with the segments of dead writers."""

from limpet.segments import SegmentStore
from limpet.segments.scan import SegmentScan
from limpet.testing.captures import wire_capture
from limpet.warc import (
    CaptureGrouper,
    CaptureMeta,
    CrawlInfo,
    capture_members,
    index_of,
    line_of,
    warcinfo_member,
)

INFO = CrawlInfo(software="limpet/0", user_agent="limpet/0 (+https://example.org/)", crawl="c0")


def warcinfo(name: str) -> bytes:
    return warcinfo_member(INFO, filename=name, at_us=1_800_000_000_000_000, token=bytes(16))


def capture(number: int, body_bytes: int = 40) -> tuple[bytes, ...]:
    """The members of a capture that `number` alone decides."""
    body = (b"%d " % number) * body_bytes
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    taken = wire_capture(f"http://example.com/{number}", wire, started_us=1_800_000_000_000_000 + number)
    ids = number.to_bytes(16, "big") + (number + 1000).to_bytes(16, "big") + (number + 2000).to_bytes(16, "big")
    return capture_members(taken, CaptureMeta(fp=number.to_bytes(16, "big")), "", ids).members


async def recover_all(store: SegmentStore) -> None:
    """What a reconciler does with the segments of dead writers."""
    for info in await store.infos():
        if info.live or info.sealed:
            continue
        grouper, lines = CaptureGrouper(), []
        async for member in SegmentScan(store, info.name):
            grouper.add(member)
            lines.append((member.end, line_of(member, info.name)))
        if await store.recover(info.name, grouper.whole_bytes):
            kept = [line for end, line in lines if line is not None and end <= grouper.whole_bytes]
            await store.seal(info.name, index_of(kept))
