"""WARC 1.1 records as bytes, one gzip member each.

A capture is three records in this order: **response, request, metadata**. The response comes first because it is what
everybody looks for; the metadata record comes last because a file is cut from its end: where it is whole, so are the
other two, and an orphan has all that its outcome needs. All three carry one WARC-Date, and the latter two
WARC-Concurrent-To the response (WARC 1.1 §5.7 lets any one of the set be the reference).
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from limpet.fetch.port import Capture
from limpet.warc.fields import RECORD_ID_BYTES, b32, encode, record_id, safe_uri, safe_value, sha1_b32, warc_date
from limpet.warc.members import LEVEL, MemberStream, compress
from limpet.warc.sniff import sniff

VERSION: Final = b"WARC/1.1\r\n"
CONFORMS_TO: Final = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
CAPTURE_ID_BYTES: Final = 3 * RECORD_ID_BYTES
"""Random bytes that the record ids of one capture take."""

FIELDS_TYPE: Final = "application/warc-fields"
VALUE_CHARS_MAX: Final = 4_096
"""Longest value of a warcinfo or metadata field: a site chooses how long its robots rules are."""

Fields = tuple[tuple[str, str], ...]
"""Header fields in order; those with an empty value are not written."""

_ID_STARTS: Final = range(0, CAPTURE_ID_BYTES, RECORD_ID_BYTES)
_END: Final = b"\r\n\r\n"
_IP: Final = re.compile(r"[0-9A-Fa-f:.]{2,45}", re.ASCII)
_TLS: Final = re.compile(r"(TLS|SSL)v(\d)(?:\.(\d))?", re.ASCII)
# RFC 9110 §11.6.2, §11.7.1, RFC 6265: what a request may hold that must not be published. Folds included.
_SECRET: Final = re.compile(
    rb"^((?:authorization|proxy-authorization|cookie)[ \t]*:)[^\r\n]*(?:\r?\n[ \t][^\r\n]*)*",
    re.IGNORECASE | re.MULTILINE,
)

# RFC 9112 §3.2.2: a request to a proxy names a whole URL, which may hold a password.
_ASKED_USERINFO: Final = re.compile(rb"^([A-Za-z]+ [A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s@]*@")


class CrawlInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What warcinfo says of a crawl. Empty values are left out. No host name: archives are published."""

    software: str  # name/version
    user_agent: str
    crawl: str  # id of the crawl
    contact: str = ""  # an address becomes http-header-from, anything else operator
    robots: str = "obey (RFC 9309, fail closed)"
    description: str = ""
    scope: str = ""


class CaptureMeta(msgspec.Struct, frozen=True, kw_only=True):
    """What the crawl knows of a capture and the wire does not tell: enough to rebuild its outcome. No secrets."""

    fp: bytes = b""  # fingerprint of the URL; empty where there is no row (robots.txt)
    via: str = ""  # URL of the page that linked here; of a robots.txt, what waited for it
    hops: str = ""  # hop path from the seed
    kind: str = "page"  # page, robots, redirect, …
    cause: bytes = b""  # of a robots.txt: fingerprint of the URL that waited for it
    robots_digest: str = ""  # of the copy that licensed the send
    robots_rule: str = ""  # the rule that decided
    gap_us: int = 0  # the host's gap in force at the send
    insecure_tls: bool = False  # an invalid certificate was accepted on request
    payload_sha256_hex: str = ""  # of a payload that is stored elsewhere; a response record holds its own


class CaptureRecords(msgspec.Struct, frozen=True, kw_only=True):
    """A capture ready to append: `members` in file order, and what the outcome row keeps of it."""

    members: tuple[bytes, ...]
    response_index: int  # which member is the response
    response_id: str
    payload_sha1_b32: str
    block_sha1_b32: str
    payload_sha256_hex: str


class SpooledRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a capture whose block is on disk: like `CaptureRecords`, the response first, as a stream."""

    members: tuple[bytes | MemberStream, ...]
    payload_sha1_b32: str
    payload_sha256_hex: str


def warcinfo_member(info: CrawlInfo, *, filename: str, at_us: int, token: bytes, level: int = LEVEL) -> bytes:
    """The record that opens segment `filename`; `token` is 16 random bytes. It describes all records after it."""
    block = _warc_fields(
        ("software", info.software),
        ("format", "WARC File Format 1.1"),
        ("conformsTo", CONFORMS_TO),
        ("robots", info.robots),
        ("http-header-user-agent", info.user_agent),
        ("http-header-from" if _is_address(info.contact) else "operator", info.contact),
        ("description", info.description),
        ("scope", info.scope),
        ("isPartOf", info.crawl),
    )
    fields = (
        ("WARC-Type", "warcinfo"),
        ("WARC-Record-ID", record_id(token)),
        ("WARC-Date", warc_date(at_us)),
        ("WARC-Filename", filename),
        ("WARC-Block-Digest", f"sha1:{sha1_b32(block)}"),
        ("Content-Type", FIELDS_TYPE),
    )
    return _member(fields, block, level)


def capture_members(
    capture: Capture, meta: CaptureMeta, warcinfo_id: str, record_ids: bytes, *, level: int = LEVEL
) -> CaptureRecords:
    """The three records of a capture that has a response; `record_ids` is 48 random bytes.

    `warcinfo_id` may be "" and then is left out: the segment, and with it the warcinfo record, is chosen at the
    append, and a record without the field belongs to the warcinfo before it in the file (WARC 1.1 §5.11).
    ValueError if the capture is a failure or `record_ids` has another length.
    """
    if capture.head is None:
        raise ValueError("a failed exchange has no records")
    ids, shared = _ids(record_ids), _shared(capture, warcinfo_id)
    payload_sha1, block_sha1 = sha1_b32(capture.payload), sha1_b32(capture.response_bytes)
    digests = (("WARC-Payload-Digest", f"sha1:{payload_sha1}"), ("WARC-Block-Digest", f"sha1:{block_sha1}"))
    return CaptureRecords(
        members=(
            response_member(capture, ids[0], (*shared, *digests), level=level),
            request_member(capture, ids[1], ids[0], shared, level=level),
            metadata_member(capture, meta, ids[2], ids[0], shared, level=level),
        ),
        response_index=0,
        response_id=ids[0],
        payload_sha1_b32=payload_sha1,
        block_sha1_b32=block_sha1,
        payload_sha256_hex=hashlib.sha256(capture.payload).hexdigest(),
    )


def spooled_members(
    capture: Capture, meta: CaptureMeta, warcinfo_id: str, record_ids: bytes, *, level: int = LEVEL
) -> SpooledRecords:
    """The same for a capture whose block is in the spool, which must stay until the members are written."""
    spool = capture.spool
    if capture.head is None or spool is None:
        raise ValueError("a capture that is not in the spool")
    ids, shared = _ids(record_ids), _shared(capture, warcinfo_id)
    payload_sha1 = b32(spool.payload_sha1)
    digests = (
        ("WARC-Payload-Digest", f"sha1:{payload_sha1}"),
        ("WARC-Block-Digest", f"sha1:{b32(spool.block_sha1)}"),
    )
    fields = _response_fields(capture, ids[0], (*shared, *digests))
    header = VERSION + _header(fields) + b"Content-Length: %d\r\n\r\n" % spool.block_bytes

    def content() -> Iterator[bytes]:
        yield header
        yield from spool.block()
        yield _END

    return SpooledRecords(
        members=(
            MemberStream(content, len(header) + spool.block_bytes + len(_END), level),
            request_member(capture, ids[1], ids[0], shared, level=level),
            metadata_member(capture, meta, ids[2], ids[0], shared, level=level),
        ),
        payload_sha1_b32=payload_sha1,
        payload_sha256_hex=spool.payload_sha256.hex(),
    )


def response_member(capture: Capture, own_id: str, shared: Fields, *, level: int = LEVEL) -> bytes:
    """The response record: its block is what came over the wire, byte for byte. `shared` brings date, URI, digests."""
    return _member(_response_fields(capture, own_id, shared), capture.response_bytes, level)


def _response_fields(capture: Capture, own_id: str, shared: Fields) -> Fields:
    coding = capture.head.get(b"content-encoding") if capture.head is not None else None
    return (
        ("WARC-Type", "response"),
        ("WARC-Record-ID", own_id),
        *shared,
        *_connection(capture),
        ("WARC-Identified-Payload-Type", sniff(capture.payload, coding)),
        ("WARC-Truncated", capture.truncated or ""),
        ("Content-Type", "application/http;msgtype=response"),
    )


def _ids(record_ids: bytes) -> list[str]:
    return [record_id(record_ids[start : start + RECORD_ID_BYTES]) for start in _ID_STARTS]


def _shared(capture: Capture, warcinfo_id: str) -> Fields:
    return (
        ("WARC-Date", warc_date(capture.started_us)),
        ("WARC-Target-URI", safe_uri(capture.url)),
        ("WARC-Warcinfo-ID", warcinfo_id),
    )


def revisit_member(capture: Capture, block: bytes, own_id: str, shared: Fields, *, level: int = LEVEL) -> bytes:
    """A revisit record. `shared` brings date, URI, digests and what `limpet.warc.revisits` says of the original."""
    fields = (
        ("WARC-Type", "revisit"),
        ("WARC-Record-ID", own_id),
        *shared,
        *_connection(capture),
        ("Content-Type", "application/http;msgtype=response"),
    )
    return _member(fields, block, level)


def request_member(capture: Capture, own_id: str, response_id: str, shared: Fields, *, level: int = LEVEL) -> bytes:
    """The request record, secrets blotted out. `shared` brings date and URI."""
    block = redacted(capture.request_bytes)
    fields = (
        ("WARC-Type", "request"),
        ("WARC-Record-ID", own_id),
        *shared,
        *_connection(capture),
        ("WARC-Concurrent-To", response_id),
        ("WARC-Block-Digest", f"sha1:{sha1_b32(block)}"),
        ("Content-Type", "application/http;msgtype=request"),
    )
    return _member(fields, block, level)


def metadata_member(
    capture: Capture, meta: CaptureMeta, own_id: str, response_id: str, shared: Fields, *, level: int = LEVEL
) -> bytes:
    """The metadata record: the fields of WARC 1.1 §6.5 first, then our own. `shared` brings date and URI."""
    block = _warc_fields(
        ("via", safe_uri(meta.via)),
        ("hopsFromSeed", meta.hops),
        ("fetchTimeMs", str(capture.duration_us // 1000)),
        ("limpet-kind", meta.kind),
        ("limpet-fp", meta.fp.hex()),
        ("limpet-cause", meta.cause.hex()),
        ("limpet-duration-us", str(capture.duration_us)),
        ("limpet-connect-us", str(capture.connect_us or "")),
        ("limpet-gap-us", str(meta.gap_us)),
        ("robots-digest", meta.robots_digest),
        ("robots-rule", meta.robots_rule),
        ("insecure-tls", "accepted" if meta.insecure_tls else ""),
        ("limpet-payload-sha256", meta.payload_sha256_hex),
    )
    fields = (
        ("WARC-Type", "metadata"),
        ("WARC-Record-ID", own_id),
        *shared,
        ("WARC-Concurrent-To", response_id),
        ("WARC-Block-Digest", f"sha1:{sha1_b32(block)}"),
        ("Content-Type", FIELDS_TYPE),
    )
    return _member(fields, block, level)


def redacted(request: bytes) -> bytes:
    """`request` with `REDACTED` for the values of Authorization, Proxy-Authorization and Cookie, and for userinfo."""
    return _ASKED_USERINFO.sub(rb"\1REDACTED@", _SECRET.sub(rb"\1 REDACTED", request))


def _member(fields: Fields, block: bytes, level: int) -> bytes:
    """Header, block and the two empty lines as one member."""
    return compress(VERSION, _header(fields), b"Content-Length: %d\r\n\r\n" % len(block), block, _END, level=level)


def _header(fields: Fields) -> bytes:
    """The one place where header lines are made."""
    kept = [field for field in fields if field[1]]
    head = "".join([f"{name}: {value}\r\n" for name, value in kept])
    if head.count("\n") != len(kept) or head.count("\r") != len(kept):
        head = "".join([f"{name}: {safe_value(value)}\r\n" for name, value in kept])
    return encode(head)


def _connection(capture: Capture) -> Fields:
    """Address and protocols, from the higher layer to the lower (IIPC's WARC-Protocol proposal)."""
    ip = capture.remote_ip.partition("%")[0]  # a zone id is ours, not the site's (RFC 4007 §11)
    return (
        ("WARC-IP-Address", ip if _IP.fullmatch(ip) else ""),
        ("WARC-Protocol", capture.protocol),
        ("WARC-Protocol", _tls_id(capture.tls)),
    )


def _tls_id(tls: str) -> str:
    """`TLSv1.3` as `tls/1.3`, `TLSv1` as `tls/1.0`, `SSLv3` as `ssl/3`; "" for none."""
    match = _TLS.fullmatch(tls)
    if match is None:
        return ""
    return f"ssl/{match[2]}" if match[1] == "SSL" else f"tls/{match[2]}.{match[3] or '0'}"


def _is_address(contact: str) -> bool:
    return "@" in contact and "://" not in contact and " " not in contact


def _warc_fields(*fields: tuple[str, str]) -> bytes:
    """A block of application/warc-fields; fields without a value are left out, long values are cut."""
    return encode("".join(f"{name}: {safe_value(value[:VALUE_CHARS_MAX])}\r\n" for name, value in fields if value))
