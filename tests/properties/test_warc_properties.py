"""WARC: what goes in comes out, whatever it is; nothing that comes in does harm."""

import contextlib
import random

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from limpet.fetch.port import Capture, Head
from limpet.testing.captures import wire_capture
from limpet.warc import (
    CaptureMeta,
    Expected,
    Original,
    Scanner,
    WarcError,
    capture_members,
    capture_of,
    check_response,
    clean_uri,
    date_us,
    index_line,
    line_of,
    members,
    parse_record,
    payload_of,
    revisit_members,
    safe_uri,
    surt,
    warc_date,
)

TEXT = st.text(max_size=200)
TOKEN = st.binary(min_size=48, max_size=48)
MICROSECONDS = st.integers(min_value=0, max_value=253_402_300_799_999_999)
CAPTURES = st.builds(
    Capture,
    url=TEXT.map("http://example.com/".__add__),
    request_bytes=st.binary(max_size=500),
    response_bytes=st.binary(max_size=5_000),
    payload=st.binary(max_size=5_000),
    head=st.just(Head(status=200, headers=())),
    truncated=st.sampled_from([None, "length", "time", "disconnect"]),
    remote_ip=TEXT,
    protocol=TEXT,
    tls=TEXT,
    started_us=MICROSECONDS,
    duration_us=st.integers(min_value=0, max_value=10**12),
)
METAS = st.builds(
    CaptureMeta, fp=st.binary(max_size=16), via=TEXT, hops=TEXT, kind=TEXT, robots_digest=TEXT, robots_rule=TEXT
)
OWN_NAMES = {
    "WARC-Type", "WARC-Record-ID", "WARC-Date", "WARC-Target-URI", "WARC-Warcinfo-ID", "WARC-Payload-Digest",
    "WARC-Block-Digest", "WARC-IP-Address", "WARC-Protocol", "WARC-Identified-Payload-Type", "WARC-Truncated",
    "WARC-Concurrent-To", "Content-Type", "Content-Length",
}  # fmt: skip


@given(CAPTURES, METAS, TEXT, TOKEN)
def test_any_capture_gives_three_whole_records(capture: Capture, meta: CaptureMeta, warcinfo: str, ids: bytes) -> None:
    """Whatever is in a capture, its three members hold one record each, our fields only, its bytes unchanged."""
    records = capture_members(capture, meta, warcinfo, ids)
    parsed = [parse_record(member, block_bytes_max=100_000) for member in records.members]
    assert [record.type for record in parsed] == ["response", "request", "metadata"]
    assert parsed[0].block == capture.response_bytes
    assert {name for record in parsed for name, _ in record.headers} <= OWN_NAMES
    assert {record.header.date_us for record in parsed} == {capture.started_us}
    assert {record.header.uri for record in parsed} == {safe_uri(capture.url)}
    data = b"".join(records.members)
    scan = members(lambda offset, size: data[offset : offset + size], len(data))
    assert [member.length for member in scan] == [len(member) for member in records.members]


@given(st.binary(max_size=2_000), st.sampled_from([b"", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 100\r\n"]))
def test_the_wire_comes_back(body: bytes, framing: bytes) -> None:
    """Block and payload of a response are read back as the engine had them, truncated and broken ones too."""
    capture = wire_capture(wire=b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n" + body)
    records = capture_members(capture, CaptureMeta(), "", bytes(48))
    parsed = [parse_record(member, block_bytes_max=100_000) for member in records.members]
    view = capture_of(parsed)
    assert parsed[0].block == capture.response_bytes
    assert view.payload == capture.payload == payload_of(parsed[0].block)
    assert view.truncated == (capture.truncated or "")
    row = Expected(payload_sha1_b32=records.payload_sha1_b32, payload_sha256_hex=records.payload_sha256_hex)
    assert check_response(records.members[0], row) == []


@given(st.binary(max_size=3_000), st.binary(max_size=300))
@example(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00", b"HTTP/1.1 200 OK\n\n")
def test_hostile_bytes_only_raise_what_they_may(noise: bytes, block: bytes) -> None:
    """Readers answer noise with a WarcError or a finding; the scan and the payload with nothing at all."""
    for reader in (lambda: parse_record(noise, block_bytes_max=1_000), lambda: index_line(noise, "f", 0)):
        with contextlib.suppress(WarcError):
            reader()
    assert check_response(noise, Expected())
    scanner = Scanner()
    assert scanner.feed(noise) == []
    scanner.finish()
    assert block.endswith(payload_of(block)) or b"chunked" in block.lower()


@given(st.integers(min_value=0, max_value=7), st.data())
def test_a_flipped_bit_is_found(bit: int, data: st.DataObject) -> None:
    """One bit changed anywhere in a response member gives a finding, or has changed no byte of its content."""
    member = capture_members(wire_capture(), CaptureMeta(), "", bytes(48)).members[0]
    place = data.draw(st.integers(min_value=0, max_value=len(member) - 1))
    flipped = member[:place] + bytes([member[place] ^ 1 << bit]) + member[place + 1 :]
    if not check_response(flipped, Expected()):
        assert parse_record(flipped, block_bytes_max=10**6) == parse_record(member, block_bytes_max=10**6)
        assert place == len(member) - 9, "only the padding before the checksum"


@given(st.lists(CAPTURES, max_size=4), st.integers(min_value=0))
def test_a_torn_file_keeps_its_whole_members(captures: list[Capture], cut: int) -> None:
    """Cut anywhere, a file of captures scans to exactly the members that lie before the cut."""
    pieces = [
        member for capture in captures for member in capture_members(capture, CaptureMeta(), "", bytes(48)).members
    ]
    data = b"".join(pieces)
    cut %= len(data) + 1
    scan = members(lambda offset, size: data[offset : min(offset + size, cut)], cut)
    found = list(scan)
    assert [data[member.offset : member.end] for member in found] == pieces[: len(found)]
    ends = [0, *(member.end for member in found)]
    assert scan.good_bytes == ends[-1]
    assert len(found) == len(pieces) or cut < ends[-1] + len(pieces[len(found)])


@given(CAPTURES, METAS, st.integers(min_value=0, max_value=3_000))
def test_written_and_scanned_index_lines_agree(capture: Capture, meta: CaptureMeta, stuffing: int) -> None:
    """The line that a writer keeps, from the first bytes of a member, is the one that a scan of all its bytes gives."""
    random_bytes = random.Random(stuffing).randbytes(stuffing)
    capture = structs.replace(capture, response_bytes=capture.response_bytes + random_bytes)
    records = capture_members(capture, meta, "", bytes(48))
    data = b"".join(records.members)
    scanned = [line_of(member, "f") for member in members(lambda offset, size: data[offset : offset + size], len(data))]
    offsets = [sum(map(len, records.members[:index])) for index in range(3)]
    assert [index_line(m, "f", offset) for m, offset in zip(records.members, offsets, strict=True)] == scanned
    assert [line is not None for line in scanned] == [True, False, False]


@given(st.binary(max_size=1_000), st.booleans(), METAS, TEXT, TOKEN, MICROSECONDS)
def test_revisits_come_back(body: bytes, chunked: bool, meta: CaptureMeta, name: str, ids: bytes, moment: int) -> None:
    """A capture written as a revisit of the record that has its content is sound, and tells all its outcome needs."""
    framed = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    head = b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n"
    wire = head + (framed + b"0\r\n\r\n" if chunked else body)
    capture = wire_capture("http://example.com/" + name, wire, started_us=moment)
    first = capture_members(capture, meta, "", ids)
    original = Original(
        record_id=first.response_id,
        url=capture.url,
        date_us=moment,
        payload_sha1_b32=first.payload_sha1_b32,
        payload_sha256_hex=first.payload_sha256_hex,
    )
    unchanged = wire_capture(capture.url, b"HTTP/1.1 304 Not Modified\r\n\r\n", started_us=moment)
    for again, block in ((capture, head), (unchanged, unchanged.response_bytes)):
        records = revisit_members(again, meta, original, "", ids)
        row = Expected(url=capture.url, date_us=moment, payload_sha1_b32=first.payload_sha1_b32)
        assert check_response(records.members[0], row) == []
        view = capture_of(parse_record(member, block_bytes_max=10**6) for member in records.members)
        assert view.revisits is not None
        assert (view.revisits.record_id, view.revisits.date_us) == (first.response_id, moment)
        assert view.revisits.url == safe_uri(capture.url) == view.url
        assert (view.payload_sha1_b32, view.payload_sha256_hex) == (first.payload_sha1_b32, first.payload_sha256_hex)
        assert (view.payload, view.block_bytes) == (b"", len(block))
        line = index_line(records.members[0], "f", 0)
        assert line is None if again is unchanged else first.payload_sha1_b32.encode() in (line or b"")


@given(st.text(max_size=500))
def test_safe_uris_are_safe_and_stable(text: str) -> None:
    """Printable ASCII without space, quote or bracket; done twice is done once; what was safe is left alone."""
    safe = safe_uri(text)
    assert safe.isascii()
    assert not set(safe) & set(' "<>\r\n\t\x7f')
    assert all(character.isprintable() for character in safe)
    assert safe_uri(safe) == safe == clean_uri(f"<{safe}>")


@given(TEXT.map("http://example.com/".__add__))
def test_surt_keys_are_one_column(url: str) -> None:
    """A key has no blank, is ASCII, and does not depend on the fragment."""
    key = surt(url)
    assert key.isascii()
    assert len(key.split()) == 1
    assert surt(url.partition("#")[0] + "#x") == key


@given(MICROSECONDS)
def test_dates_come_back(moment: int) -> None:
    """A WARC-Date keeps its microseconds."""
    assert date_us(warc_date(moment)) == moment
