"""Revisit records: the same again, with a reference to the response record that has it (WARC 1.1 §6.7).

Two reasons, each a profile. *server-not-modified*: the server answered 304 to a conditional request; its whole answer
is the block. *identical-payload-digest*: it sent content that is stored already; the block is its head alone, and
WARC-Truncated says `length`, as the specification asks for content left out on purpose. Either way the payload of the
record is that of the original, and so is WARC-Payload-Digest: by it, and by URL and date, replay tools find it.
"""

from typing import Final

import msgspec

from limpet.fetch.port import Capture
from limpet.warc.cdxj import NOT_MODIFIED
from limpet.warc.fields import RECORD_ID_BYTES, b32, record_id, safe_uri, sha1_b32, warc_date
from limpet.warc.members import LEVEL
from limpet.warc.records import (
    CAPTURE_ID_BYTES,
    CaptureMeta,
    CaptureRecords,
    metadata_member,
    request_member,
    revisit_member,
)

IDENTICAL: Final = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
PROFILES: Final = frozenset({NOT_MODIFIED, IDENTICAL})


class Original(msgspec.Struct, frozen=True, kw_only=True):
    """The response record that holds the content: never a revisit itself, so that no reader follows a chain."""

    record_id: str
    url: str
    date_us: int
    payload_sha1_b32: str
    payload_sha256_hex: str


def revisit_members(
    capture: Capture,
    meta: CaptureMeta,
    original: Original,
    warcinfo_id: str,
    record_ids: bytes,
    *,
    level: int = LEVEL,
) -> CaptureRecords:
    """The three records of a capture whose content `original` has: revisit, request, metadata.

    Arguments as of `capture_members`. ValueError if there is no answer, if it is cut, or if it is neither a 304 nor has
    the very content of `original`.
    """
    if capture.head is None or capture.truncated:
        raise ValueError("only a whole answer can repeat another")
    if len(record_ids) != CAPTURE_ID_BYTES:
        raise ValueError(f"a capture takes {CAPTURE_ID_BYTES} bytes of ids, not {len(record_ids)}")
    not_modified = capture.head.status == 304
    payload_sha1 = sha1_b32(capture.payload) if capture.spool is None else b32(capture.spool.payload_sha1)
    if not not_modified and payload_sha1 != original.payload_sha1_b32:
        raise ValueError("this content is not that of the original")
    block = capture.response_bytes if not_modified else capture.response_bytes[: capture.body_offset]
    ids = [record_id(record_ids[start : start + RECORD_ID_BYTES]) for start in range(0, CAPTURE_ID_BYTES, 16)]
    shared = (
        ("WARC-Date", warc_date(capture.started_us)),
        ("WARC-Target-URI", safe_uri(capture.url)),
        ("WARC-Warcinfo-ID", warcinfo_id),
    )
    block_sha1 = sha1_b32(block)
    refers = (
        ("WARC-Profile", NOT_MODIFIED if not_modified else IDENTICAL),
        ("WARC-Refers-To", original.record_id),
        ("WARC-Refers-To-Target-URI", safe_uri(original.url)),
        ("WARC-Refers-To-Date", warc_date(original.date_us)),
        ("WARC-Payload-Digest", f"sha1:{original.payload_sha1_b32}"),
        ("WARC-Block-Digest", f"sha1:{block_sha1}"),
        ("WARC-Truncated", "" if not_modified else "length"),
    )
    meta = msgspec.structs.replace(meta, payload_sha256_hex=original.payload_sha256_hex)
    return CaptureRecords(
        members=(
            revisit_member(capture, block, ids[0], (*shared, *refers), level=level),
            request_member(capture, ids[1], ids[0], shared, level=level),
            metadata_member(capture, meta, ids[2], ids[0], shared, level=level),
        ),
        response_index=0,
        response_id=ids[0],
        payload_sha1_b32=original.payload_sha1_b32,
        block_sha1_b32=block_sha1,
        payload_sha256_hex=original.payload_sha256_hex,
    )
