"""From one archived record to what the parser publishes: read, verify, decode, extract."""

import hashlib

import msgspec

from limpet.model.events import DocumentFetched, Link
from limpet.model.links import LinkKind
from limpet.parser.decode import DecodeLimits, decode_body
from limpet.parser.links import extract, redirect_target
from limpet.warc import WarcError, parse_record, split_response

PARSER_VERSION = 1
RECORD_BYTES_MAX = 1_100_000_000
LINKS_PER_PAGE = "links_per_page"
URL_TOO_LONG = "url_too_long"
"""Admission's names for what the parser already leaves out; counted with admission's own rejects."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class ParseError(ValueError):
    """The body cannot be parsed as it lies there; the text says why."""


class Parsed(msgspec.Struct, frozen=True):
    """What came out of one body."""

    links: tuple[Link, ...]
    flags: tuple[str, ...]
    left_out: tuple[tuple[str, int], ...] = ()  # (rule, links that never became links of the event)


def parse_member(member: bytes, event: DocumentFetched, *, links_max: int, limits: DecodeLimits) -> Parsed:
    """Parse exactly the record that `event` names.

    Raises `ParseError` when the record is damaged or is not the one whose digest the event carries: a parse of other
    bytes would be a fact about something that was never fetched.
    """
    try:
        record = parse_record(member, block_bytes_max=RECORD_BYTES_MAX)
        http = split_response(record.block)
    except WarcError as error:
        raise ParseError(f"damaged record: {error}") from error
    if hashlib.sha256(http.payload).hexdigest() != event.payload_sha256:
        raise ParseError("payload digest differs from the event's")
    if http.head.status in _REDIRECTS:
        return _redirect(http.head.get(b"location"), event.url)
    return _document(
        http.payload, http.head.get(b"content-type"), http.head.get(b"content-encoding"), event, links_max, limits
    )


def _redirect(location: bytes | None, url: str) -> Parsed:
    """A redirect's body is nobody's business; its target is a link."""
    target = redirect_target(location, url) if location is not None else None
    if target is None:
        return Parsed((), ("no_location",))
    return Parsed((Link(target, LinkKind.REDIRECT),), ())


def _document(
    payload: bytes,
    content_type: bytes | None,
    content_encoding: bytes | None,
    event: DocumentFetched,
    links_max: int,
    limits: DecodeLimits,
) -> Parsed:
    decoded = decode_body(payload, content_encoding, limits)
    page = extract(decoded.data, url=event.url, content_type=content_type, links_max=links_max)
    links = page.links
    if page.meta_nofollow:
        links = [Link(link.url, link.kind, True) for link in links]
    flags = set(decoded.flags)
    flags |= {name for name, on in (("noindex", page.meta_noindex), ("noarchive", page.meta_noarchive)) if on}
    if page.truncated:
        flags.add("links_truncated")
    left_out = {LINKS_PER_PAGE: page.surplus, URL_TOO_LONG: page.overlong}
    return Parsed(tuple(links), tuple(sorted(flags)), tuple((rule, count) for rule, count in left_out.items() if count))
