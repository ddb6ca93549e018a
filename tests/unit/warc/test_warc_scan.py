"""The scan: every member, its exact place, the first byte that is not good, in bounded memory."""

import gzip
import itertools
import random
import tracemalloc

import pytest

from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, CrawlInfo, Scan, Scanner, capture_members, members, parse_record, warcinfo_member

HEAD = warcinfo_member(CrawlInfo(software="s", user_agent="u", crawl="c"), filename="f", at_us=0, token=bytes(16))


def _capture(number: int, body: bytes = b"<p>hello</p>") -> tuple[bytes, ...]:
    wire = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    return capture_members(
        wire_capture(f"http://example.com/{number}", wire), CaptureMeta(), "", bytes([number]) * 48
    ).members


PIECES = [HEAD, *_capture(1), *_capture(2)]
DATA = b"".join(PIECES)
ENDS = [0]
for _piece in PIECES:
    ENDS.append(ENDS[-1] + len(_piece))


def _scan(data: bytes, start: int = 0) -> Scan:
    return members(lambda offset, size: data[offset : offset + size], len(data), start)


def test_members_are_found_where_they_are() -> None:
    """Each member's offset and length cut out exactly one record."""
    scan = _scan(DATA)
    found = list(scan)
    assert [(member.offset, member.length) for member in found] == [
        (start, end - start) for start, end in itertools.pairwise(ENDS)
    ]
    assert (scan.good_bytes, scan.torn) == (len(DATA), "")
    for member in found:
        record = parse_record(DATA[member.offset : member.end], block_bytes_max=10**6)
        assert record.header == member.header
        assert record.block.startswith(member.block_start)
        assert member.pristine
    assert found[1].block_start.endswith(b"Content-Length: 12\r\n\r\n")


def test_torn_at_every_byte_of_the_file() -> None:
    """Wherever a file is cut, the scan finds every whole member and says where the torn one begins."""
    for cut in range(len(DATA) + 1):
        scan = _scan(DATA[:cut])
        whole = [end for end in ENDS if end <= cut]
        assert len(list(scan)) == len(whole) - 1
        assert scan.good_bytes == whole[-1]
        assert bool(scan.torn) == (cut != whole[-1])


@pytest.mark.parametrize(
    "tail", [b"\0" * 50, b"\x1f\x8b", b"garbage", HEAD[:-1] + b"\1", gzip.compress(b"no record", mtime=0)]
)
def test_a_bad_tail_is_named(tail: bytes) -> None:
    """Zeroes of a lost write, noise, a wrong length, a member that is no record: all are behind what is good."""
    scan = _scan(DATA + tail)
    assert len(list(scan)) == len(PIECES)
    assert scan.good_bytes == len(DATA)
    assert scan.torn


@pytest.mark.parametrize(
    "content",
    [
        gzip.decompress(HEAD) * 2,
        gzip.decompress(HEAD)[:-2],
        gzip.decompress(HEAD) + b"\r\n",
        gzip.decompress(HEAD).replace(b"WARC-Record-ID", b"X-Record-ID"),
        b"WARC/1.1\r\n" + b"X: y\r\n" * 20_000,
        b"",
    ],
)
def test_a_member_is_exactly_one_record(content: bytes) -> None:
    """Two records in a member, a part of one, or more than one is damage, though its CRC be right."""
    scan = _scan(DATA + gzip.compress(content))
    assert len(list(scan)) == len(PIECES)
    assert scan.good_bytes == len(DATA)
    assert scan.torn


def test_what_a_site_sends_is_never_taken_for_a_record() -> None:
    """A body that is itself a WARC file, in a torn record, gives no member: after trouble nothing more is believed."""
    stored = gzip.compress(gzip.decompress(_capture(9, DATA)[0]), 0)
    assert DATA in stored, "level 0 stores bytes as they are, as any level does with those that do not compress"
    scan = _scan(HEAD + stored[:-10])
    assert [member.header.type for member in scan] == ["warcinfo"]
    assert scan.good_bytes == len(HEAD)


def test_every_flipped_bit_is_found_or_changes_nothing() -> None:
    """A flip in a member is damage, a changed gzip header, or one of the few padding bits that change no content."""
    target = PIECES[1]
    start = ENDS[1]
    unseen = 0
    for bit in range(len(target) * 8):
        data = bytearray(DATA)
        data[start + bit // 8] ^= 1 << bit % 8
        scan = _scan(bytes(data))
        found = list(scan)
        if scan.torn:
            assert scan.good_bytes == start
        elif all(member.pristine for member in found):
            assert gzip.decompress(bytes(data[start : ENDS[2]])) == gzip.decompress(target)
            unseen += 1
    assert unseen <= 8, "no more than the padding of one byte"


def test_the_feed_size_does_not_matter() -> None:
    """The scanner finds the same members whatever the pieces it is fed."""
    whole = Scanner().feed(DATA)
    for size in (1, 2, 13, 1_000):
        scanner = Scanner()
        found = [member for at in range(0, len(DATA), size) for member in scanner.feed(DATA[at : at + size])]
        scanner.finish()
        assert found == whole
        assert (scanner.good_bytes, scanner.torn) == (len(DATA), "")


def test_scanning_from_a_known_good_offset() -> None:
    """Offsets stay those of the file."""
    scan = _scan(DATA, ENDS[4])
    assert [member.offset for member in scan] == ENDS[4:-1]
    assert scan.good_bytes == len(DATA)


def test_memory_is_bounded() -> None:
    """A record of 64 MB, a thousandfold compressed, is walked in a few megabytes."""
    block = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(64_000_000)
    record = gzip.decompress(HEAD).split(b"Content-Length")[0] + b"Content-Length: %d\r\n\r\n%b\r\n\r\n" % (
        len(block),
        block,
    )
    data = HEAD + gzip.compress(record, 1)
    del block, record
    tracemalloc.start()
    scan = _scan(data)
    assert len(list(scan)) == 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
    assert scan.good_bytes == len(data)


def test_noise_is_refused_quickly_and_quietly() -> None:
    """No bytes make the scan raise."""
    rng = random.Random(3)
    for size in (0, 1, 9, 10, 18, 100, 5_000):
        for prefix in (b"", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", HEAD[:40]):
            scan = _scan(prefix + rng.randbytes(size))
            assert list(scan) == []
            assert scan.good_bytes == 0
