"""The archive's file format: WARC 1.1 records built, read, walked, indexed and checked as bytes, without I/O."""

from limpet.warc.captures import (
    CaptureGrouper,
    CaptureSpan,
    CaptureView,
    Reference,
    capture_of,
    long_capture_of,
    reference_of,
)
from limpet.warc.cdxj import index_line, index_of, line_of
from limpet.warc.errors import RecordTooLargeError, WarcError
from limpet.warc.fields import RECORD_ID_BYTES, clean_uri, date_us, record_id, safe_uri, sha1_b32, warc_date
from limpet.warc.http_block import HttpBlock, payload_of, split_response
from limpet.warc.members import MemberStream
from limpet.warc.names import SegmentName, parse_segment_name, segment_name
from limpet.warc.parse import Record, RecordHeader, parse_fields, parse_record
from limpet.warc.records import (
    CAPTURE_ID_BYTES,
    CaptureMeta,
    CaptureRecords,
    CrawlInfo,
    SpooledRecords,
    capture_members,
    redacted,
    spooled_members,
    warcinfo_member,
)
from limpet.warc.revisits import PROFILES, Original, revisit_members
from limpet.warc.scan import Member, Scan, Scanner, members
from limpet.warc.streamed import RecordStream
from limpet.warc.surt import surt
from limpet.warc.verify import Expected, Finding, FindingKind, check_long_response, check_response

__all__ = [
    "CAPTURE_ID_BYTES",
    "PROFILES",
    "RECORD_ID_BYTES",
    "CaptureGrouper",
    "CaptureMeta",
    "CaptureRecords",
    "CaptureSpan",
    "CaptureView",
    "CrawlInfo",
    "Expected",
    "Finding",
    "FindingKind",
    "HttpBlock",
    "Member",
    "MemberStream",
    "Original",
    "Record",
    "RecordHeader",
    "RecordStream",
    "RecordTooLargeError",
    "Reference",
    "Scan",
    "Scanner",
    "SegmentName",
    "SpooledRecords",
    "WarcError",
    "capture_members",
    "capture_of",
    "check_long_response",
    "check_response",
    "clean_uri",
    "date_us",
    "index_line",
    "index_of",
    "line_of",
    "long_capture_of",
    "members",
    "parse_fields",
    "parse_record",
    "parse_segment_name",
    "payload_of",
    "record_id",
    "redacted",
    "reference_of",
    "revisit_members",
    "safe_uri",
    "segment_name",
    "sha1_b32",
    "split_response",
    "spooled_members",
    "surt",
    "warc_date",
    "warcinfo_member",
]
