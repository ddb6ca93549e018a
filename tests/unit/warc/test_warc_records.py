"""Records as they are written: golden content, fields, secrets, and the attempts of a site to add a line."""

import gzip
import hashlib
import re

import pytest
from msgspec import structs

from limpet.fetch.port import Capture, NetFailure, Truncation
from limpet.testing.captures import wire_capture
from limpet.warc import (
    CAPTURE_ID_BYTES,
    CaptureMeta,
    CrawlInfo,
    capture_members,
    capture_of,
    parse_fields,
    parse_record,
    record_id,
    redacted,
    warcinfo_member,
)

IDS = bytes(range(48))
META = CaptureMeta(
    fp=bytes(range(16)),
    via="http://example.com/from",
    hops="LL",
    robots_digest="ab" * 32,
    robots_rule="Allow: /",
    gap_us=1_000_000,
)

GOLDEN_RESPONSE = (
    b"WARC/1.1\r\n"
    b"WARC-Type: response\r\n"
    b"WARC-Record-ID: <urn:uuid:00010203-0405-4607-8809-0a0b0c0d0e0f>\r\n"
    b"WARC-Date: 2027-01-15T08:00:00.123456Z\r\n"
    b"WARC-Target-URI: http://example.com/\r\n"
    b"WARC-Payload-Digest: sha1:DBIUZ3S4HVA5AZOSPVVXR5LCBZRUD2QM\r\n"
    b"WARC-Block-Digest: sha1:CMOVPXLNRJVWGMYXKHJ3IUMER7JIS737\r\n"
    b"WARC-IP-Address: 192.0.2.1\r\n"
    b"WARC-Protocol: http/1.1\r\n"
    b"WARC-Protocol: tls/1.3\r\n"
    b"WARC-Identified-Payload-Type: text/html\r\n"
    b"Content-Type: application/http;msgtype=response\r\n"
    b"Content-Length: 91\r\n"
    b"\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 27\r\n\r\n<!DOCTYPE html><p>hello</p>"
    b"\r\n\r\n"
)
GOLDEN_REQUEST = (
    b"WARC/1.1\r\n"
    b"WARC-Type: request\r\n"
    b"WARC-Record-ID: <urn:uuid:10111213-1415-4617-8819-1a1b1c1d1e1f>\r\n"
    b"WARC-Date: 2027-01-15T08:00:00.123456Z\r\n"
    b"WARC-Target-URI: http://example.com/\r\n"
    b"WARC-IP-Address: 192.0.2.1\r\n"
    b"WARC-Protocol: http/1.1\r\n"
    b"WARC-Protocol: tls/1.3\r\n"
    b"WARC-Concurrent-To: <urn:uuid:00010203-0405-4607-8809-0a0b0c0d0e0f>\r\n"
    b"WARC-Block-Digest: sha1:XJOODOST4UEKQVGKAOMDH2ZTZBZORFON\r\n"
    b"Content-Type: application/http;msgtype=request\r\n"
    b"Content-Length: 37\r\n"
    b"\r\n"
    b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n"
    b"\r\n\r\n"
)
GOLDEN_METADATA = (
    b"WARC/1.1\r\n"
    b"WARC-Type: metadata\r\n"
    b"WARC-Record-ID: <urn:uuid:20212223-2425-4627-8829-2a2b2c2d2e2f>\r\n"
    b"WARC-Date: 2027-01-15T08:00:00.123456Z\r\n"
    b"WARC-Target-URI: http://example.com/\r\n"
    b"WARC-Concurrent-To: <urn:uuid:00010203-0405-4607-8809-0a0b0c0d0e0f>\r\n"
    b"WARC-Block-Digest: sha1:LYK2NQ2UPOPYPZ6Y2RJAFQQXDOEVFJMR\r\n"
    b"Content-Type: application/warc-fields\r\n"
    b"Content-Length: 284\r\n"
    b"\r\n"
    b"via: http://example.com/from\r\n"
    b"hopsFromSeed: LL\r\n"
    b"fetchTimeMs: 12\r\n"
    b"limpet-kind: page\r\n"
    b"limpet-fp: 000102030405060708090a0b0c0d0e0f\r\n"
    b"limpet-duration-us: 12345\r\n"
    b"limpet-gap-us: 1000000\r\n"
    b"robots-digest: abababababababababababababababababababababababababababababababab\r\n"
    b"robots-rule: Allow: /\r\n"
    b"\r\n\r\n"
)


def _members(capture: Capture, meta: CaptureMeta = META) -> list[bytes]:
    return list(capture_members(capture, meta, "", IDS).members)


def _headers(member: bytes) -> list[tuple[str, str]]:
    return list(parse_record(member, block_bytes_max=10**7).headers)


def test_golden_capture() -> None:
    """A capture with pinned ids and times gives exactly these three records, response first, metadata last."""
    written = [gzip.decompress(member) for member in _members(wire_capture(tls="TLSv1.3"))]
    assert written == [GOLDEN_RESPONSE, GOLDEN_REQUEST, GOLDEN_METADATA]


def test_what_the_row_gets() -> None:
    """The digests handed to the outcome are those of the record, and the SHA-256 of the payload."""
    capture = wire_capture()
    records = capture_members(capture, META, "", IDS)
    response = parse_record(records.members[records.response_index], block_bytes_max=10**6)
    assert response.header.id == records.response_id == record_id(IDS[:16])
    assert response.header.get("WARC-Payload-Digest") == f"sha1:{records.payload_sha1_b32}"
    assert response.header.get("WARC-Block-Digest") == f"sha1:{records.block_sha1_b32}"
    assert records.payload_sha256_hex == hashlib.sha256(b"<!DOCTYPE html><p>hello</p>").hexdigest()


def test_equal_input_gives_equal_bytes() -> None:
    """Nothing of the time, the machine or the process gets into a member."""
    first, second = _members(wire_capture()), _members(wire_capture())
    assert first == second
    assert all(member[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" for member in first)


def test_golden_warcinfo() -> None:
    """Warcinfo names the software, the standard, the manners and the contact, and no machine."""
    info = CrawlInfo(
        software="limpet/0.1.0",
        user_agent="limpet/0.1.0 (+https://example.org/bot)",
        crawl="c1",
        contact="https://example.org/bot",
        scope="host http://example.com/",
        description="a test",
    )
    member = warcinfo_member(info, filename="limpet-x.warc.gz", at_us=1_800_000_000_000_000, token=bytes(16))
    record = parse_record(member, block_bytes_max=10_000)
    assert record.type == "warcinfo"
    assert record.header.get("WARC-Filename") == "limpet-x.warc.gz"
    assert record.header.get("Content-Type") == "application/warc-fields"
    assert record.block.decode("ascii") == (
        "software: limpet/0.1.0\r\n"
        "format: WARC File Format 1.1\r\n"
        "conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n"
        "robots: obey (RFC 9309, fail closed)\r\n"
        "http-header-user-agent: limpet/0.1.0 (+https://example.org/bot)\r\n"
        "operator: https://example.org/bot\r\n"
        "description: a test\r\n"
        "scope: host http://example.com/\r\n"
        "isPartOf: c1\r\n"
    )


def test_an_address_is_http_header_from() -> None:
    """A contact that is an address goes where readers of WARC files look for one."""
    info = CrawlInfo(software="s", user_agent="u", crawl="c", contact="me@example.org")
    record = parse_record(warcinfo_member(info, filename="f", at_us=0, token=bytes(16)), block_bytes_max=10_000)
    assert parse_fields(record.block)["http-header-from"] == "me@example.org"
    assert "operator" not in parse_fields(record.block)


def test_warcinfo_id_is_written_when_known() -> None:
    """Callers that know their segment may name its warcinfo record in all three."""
    for member in capture_members(wire_capture(), META, "<urn:uuid:w>", IDS).members:
        assert ("WARC-Warcinfo-ID", "<urn:uuid:w>") in _headers(member)


def test_a_failure_has_no_records() -> None:
    """No response, nothing to archive: the caller has made a mistake."""
    failed = Capture(url="http://example.com/", failure=NetFailure(kind="dns", detail="x"))
    with pytest.raises(ValueError, match="no records"):
        capture_members(failed, META, "", IDS)


@pytest.mark.parametrize("size", [0, 16, 47])
def test_too_few_random_bytes_are_refused(size: int) -> None:
    """A record id is never made of less chance than it shows."""
    with pytest.raises(ValueError, match="16 bytes"):
        capture_members(wire_capture(), META, "", bytes(size))
    assert CAPTURE_ID_BYTES == 48


def test_record_ids_are_version_4_uuids() -> None:
    """Whatever the random bytes, the id has the version and variant bits of RFC 9562."""
    for byte in range(256):
        assert re.fullmatch(
            r"<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}>",
            record_id(bytes([byte]) * 16),
        )
    others = {
        record_id(bytes(place) + bytes([byte]) + bytes(15 - place)) for place in (0, 7, 9, 15) for byte in range(256)
    }
    assert len(others) == 4 * 255 + 1, "only bytes 6 and 8 give up bits"


@pytest.mark.parametrize(
    ("tls", "wanted"),
    [
        ("", ["http/1.1"]),
        ("TLSv1.3", ["http/1.1", "tls/1.3"]),
        ("TLSv1.2", ["http/1.1", "tls/1.2"]),
        ("TLSv1", ["http/1.1", "tls/1.0"]),
        ("SSLv3", ["http/1.1", "ssl/3"]),
        ("nonsense\r\nX: y", ["http/1.1"]),
    ],
)
def test_protocols(tls: str, wanted: list[str]) -> None:
    """WARC-Protocol lists the layers from the higher to the lower, under their registered names."""
    headers = _headers(_members(wire_capture(tls=tls))[0])
    assert [value for name, value in headers if name == "WARC-Protocol"] == wanted


@pytest.mark.parametrize(
    ("ip", "wanted"),
    [("192.0.2.7", "192.0.2.7"), ("2001:db8::7", "2001:db8::7"), ("fe80::1%eth0", "fe80::1"), ("", ""), ("x\r\ny", "")],
)
def test_ip_addresses(ip: str, wanted: str) -> None:
    """The address is written bare; a zone id names an interface of ours and stays out."""
    assert dict(_headers(_members(wire_capture(remote_ip=ip))[0])).get("WARC-IP-Address", "") == wanted


@pytest.mark.parametrize(
    ("wire", "wanted"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<p>hello</p>", "disconnect"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nc\r\n<p>hello</p>\r\n", "disconnect"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n<p>hello</p>", None),
    ],
)
def test_truncated_responses_say_so(wire: bytes, wanted: str | None) -> None:
    """G03: what arrived is the block, its length is the record's, and the record is marked."""
    response = parse_record(_members(wire_capture(wire=wire))[0], block_bytes_max=10**6)
    assert dict(response.headers).get("WARC-Truncated") == wanted
    assert response.block == wire
    assert response.header.get("WARC-Payload-Digest") == "sha1:EH2SPSI2J7IA53E7X7MLVOIBNGZPXYIP"


@pytest.mark.parametrize("reason", ["length", "time", "disconnect"])
def test_every_reason_for_a_cut_is_written_and_read(reason: Truncation) -> None:
    """A limit of ours, a clock, a connection that broke: the record says which, and so does what is rebuilt from it."""
    capture = structs.replace(wire_capture(), truncated=reason)
    records = [parse_record(member, block_bytes_max=10**6) for member in _members(capture)]
    assert records[0].header.get("WARC-Truncated") == reason
    assert capture_of(records).truncated == reason


@pytest.mark.parametrize(
    "body",
    [b"5\r\n<p>he\r\n7\r\nllo</p>\r\n0\r\n\r\n", b"c\r\n<p>hello</p>\r\n0\r\n\r\n", b"C;x=y\n<p>hello</p>\n0\n\n"],
)
def test_payload_digest_leaves_chunk_framing_out(body: bytes) -> None:
    """G21: one page, chunked in different ways, has one payload digest; the block keeps the chunks."""
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    response = parse_record(_members(wire_capture(wire=wire))[0], block_bytes_max=10**6)
    assert response.header.get("WARC-Payload-Digest") == "sha1:EH2SPSI2J7IA53E7X7MLVOIBNGZPXYIP"
    assert response.block == wire


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"Authorization: Basic c2VjcmV0", b"Authorization: REDACTED"),
        (b"authorization:Bearer secret", b"authorization: REDACTED"),
        (b"COOKIE: a=secret; b=secret", b"COOKIE: REDACTED"),
        (b"Proxy-Authorization: Basic secret\r\n secret", b"Proxy-Authorization: REDACTED"),
        (b"X-Cookie: mine", b"X-Cookie: mine"),
        (b"X-Link: http://me:secret@example.com/", b"X-Link: http://me:secret@example.com/"),  # no field of ours
        (b"Accept: */*", b"Accept: */*"),
    ],
)
def test_secrets_are_blotted_out(line: bytes, wanted: bytes) -> None:
    """Credentials never reach the archive; everything else in the request does, byte for byte."""
    request = b"GET / HTTP/1.1\r\nHost: example.com\r\n%b\r\nConnection: close\r\n\r\n"
    capture = wire_capture(request=request % line)
    record = parse_record(_members(capture)[1], block_bytes_max=10**6)
    assert record.block == request % wanted
    assert redacted(record.block) == record.block


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (b"GET http://me:secret@example.com/a@b HTTP/1.1", b"GET http://REDACTED@example.com/a@b HTTP/1.1"),
        (b"GET http://example.com/?u=http://x:y@z/ HTTP/1.1", b"GET http://example.com/?u=http://x:y@z/ HTTP/1.1"),
        (b"GET /?u=http://x:y@z/ HTTP/1.1", b"GET /?u=http://x:y@z/ HTTP/1.1"),
    ],
)
def test_a_password_in_the_url_asked_for_is_blotted_out(line: bytes, wanted: bytes) -> None:
    """A request to a proxy names a whole URL; what is only a part of a path stays as it was sent."""
    request = line + b"\r\nHost: example.com\r\n\r\n"
    assert redacted(request) == wanted + b"\r\nHost: example.com\r\n\r\n"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://me:secret@example.com/", "http://REDACTED@example.com/"),
        ("https://me@example.com:8080/x@y?z@", "https://REDACTED@example.com:8080/x@y?z@"),
        ("http://a@b:secret@example.com/", "http://REDACTED@example.com/"),
        ("http://example.com/@me", "http://example.com/@me"),
        ("http://example.com?a@b", "http://example.com?a@b"),
    ],
)
def test_passwords_in_urls_never_reach_a_record(url: str, wanted: str) -> None:
    """Canonical URLs have no userinfo; should one come all the same, its place is kept and its words are not."""
    records = [parse_record(m, block_bytes_max=10**6) for m in _members(wire_capture(url), CaptureMeta(via=url))]
    assert {record.header.uri for record in records} == {wanted}
    assert parse_fields(records[2].block)["via"] == wanted


EVIL = "\r\nWARC-Type: resource\r\nX-Injected: 1\r\n\r\nHTTP/1.1 200 OK\r\n\r\nEVIL"


@pytest.mark.parametrize("break_", ["\r\n", "\n", "\r", "\x85", "\u2028", "\x0b", "\x00\r\n"])
def test_no_value_can_add_a_line(break_: str) -> None:
    """Line ends in a URL, an address, a protocol, a rule, a path or an id add no header and end no record."""
    evil = EVIL.replace("\r\n", break_)
    capture = Capture(
        url=f"http://example.com/{evil}",
        head=wire_capture().head,
        response_bytes=wire_capture().response_bytes,
        protocol=f"http/1.1{evil}",
        remote_ip=f"192.0.2.1{evil}",
        tls=f"TLSv1.3{evil}",
        started_us=1_800_000_000_000_000,
    )
    meta = CaptureMeta(via=f"http://x/{evil}", hops=evil, kind=evil, robots_digest=evil, robots_rule=evil)
    for member in capture_members(capture, meta, f"<urn:uuid:1>{evil}", IDS).members:
        record = parse_record(member, block_bytes_max=10**6)
        assert "X-Injected" not in {name for name, _ in record.headers}
        assert [name for name, _ in record.headers].count("WARC-Type") == 1
        assert record.header.uri.isascii()
        if record.type == "metadata":
            assert "X-Injected" not in parse_fields(record.block)
    info = CrawlInfo(
        software=evil, user_agent=evil, crawl=evil, contact=evil, scope=evil, description=evil, robots=evil
    )
    record = parse_record(warcinfo_member(info, filename=evil, at_us=0, token=bytes(16)), block_bytes_max=10**6)
    assert "X-Injected" not in {name for name, _ in record.headers} | set(parse_fields(record.block))


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://127.0.0.1/a b.jpg", "http://127.0.0.1/a%20b.jpg"),
        ("http://127.0.0.1/ü", "http://127.0.0.1/%C3%BC"),
        ("http://127.0.0.1/Carisch_(1789\u20131858).jpg", "http://127.0.0.1/Carisch_(1789%E2%80%931858).jpg"),
        ("http://127.0.0.1/css?family=A|B", "http://127.0.0.1/css?family=A|B"),
        ('http://127.0.0.1/x"y<z>', "http://127.0.0.1/x%22y%3Cz%3E"),
        ("http://127.0.0.1/a%20b", "http://127.0.0.1/a%20b"),
        ("http://127.0.0.1/\ud800", "http://127.0.0.1/%ED%A0%80"),
    ],
)
def test_target_uris_are_plain_ascii(url: str, wanted: str) -> None:
    """G23: no bracket, quote, space or raw byte in a WARC-Target-URI; a canonical URL is left as it is."""
    for member in _members(wire_capture(url)):
        assert dict(_headers(member))["WARC-Target-URI"] == wanted


def test_a_site_cannot_make_metadata_long() -> None:
    """A robots rule may be as long as its file; what is kept of it is bounded."""
    meta = CaptureMeta(robots_rule="Allow: /" + "*" * 500_000)
    record = parse_record(_members(wire_capture(), meta)[2], block_bytes_max=10_000)
    assert len(parse_fields(record.block)["robots-rule"]) == 4_096


def test_accepted_certificates_are_on_record() -> None:
    """A capture made over a connection that did not verify says so for ever."""
    record = parse_record(_members(wire_capture(), CaptureMeta(insecure_tls=True))[2], block_bytes_max=10_000)
    assert parse_fields(record.block)["insecure-tls"] == "accepted"
    assert b"insecure-tls" not in parse_record(_members(wire_capture())[2], block_bytes_max=10_000).block
