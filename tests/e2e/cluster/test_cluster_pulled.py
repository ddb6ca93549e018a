"""What strangers have against a segment is heard, but for the one thing that they get wrong."""

import gzip
import re
from pathlib import Path

from contract.captures import warcinfo
from e2e.cluster.pulled import chunked_at, warcio_objections
from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, capture_members

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
DIGEST = re.compile(rb"(WARC-Payload-Digest: sha1:)\w{32}")


def segment(path: Path, wire: bytes, *, spoilt: bool = False) -> Path:
    """A segment with one capture, perhaps with the wrong payload digest."""
    taken = wire_capture("http://example.com/", wire, started_us=1_800_000_000_000_000)
    members = [*capture_members(taken, CaptureMeta(fp=bytes(16)), "", bytes(range(48))).members]
    if spoilt:
        content = DIGEST.sub(rb"\g<1>" + b"A" * 32, gzip.decompress(members[0]))
        members[0] = gzip.compress(content)
    path.write_bytes(b"".join([warcinfo(path.name), *members]))
    return path


def test_a_sound_segment_has_no_objections(tmp_path: Path) -> None:
    """What warcio says of the payload digest of a chunked body is passed over, and nothing else."""
    plain, chunked = segment(tmp_path / "a.warc.gz", PLAIN), segment(tmp_path / "b.warc.gz", CHUNKED)
    assert [list(warcio_objections(one)) for one in (plain, chunked)] == [[], []]
    assert [len(chunked_at(one.read_bytes())) for one in (plain, chunked)] == [0, 1]


def test_a_wrong_digest_is_heard(tmp_path: Path) -> None:
    """Where it is, and what."""
    (found,) = warcio_objections(segment(tmp_path / "a.warc.gz", PLAIN, spoilt=True))
    assert re.match(r"offset \d+: payload digest failed", found)
