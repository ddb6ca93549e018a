"""From one archived record to what the parser publishes: read, verify, decode, extract."""

import contextlib
import hashlib
from collections.abc import Sequence

import msgspec

from limpet.fetch import Head
from limpet.model.events import DocumentFetched, Link
from limpet.model.links import LinkKind
from limpet.parser import linkheader, mediatype, signals, sitemaps
from limpet.parser.charset import REFUSED, is_refused
from limpet.parser.decode import DECODED_LIMIT, Decoded, DecodeLimits, decode_body
from limpet.parser.documents import header_links, read_document, refreshed
from limpet.parser.javascript import FLAG as NEEDS_JAVASCRIPT
from limpet.parser.kept import KeptBodies
from limpet.parser.links import PAGES, Page, essence_of, extract, redirect_target
from limpet.parser.resolve import resolve
from limpet.parser.wants import NAVIGATION_ONLY, Wants
from limpet.warc import RecordStream, RecordTooLargeError, WarcError, parse_record, split_response

PARSER_VERSION = 1
RECORD_BYTES_MAX = 4_194_304
"""Blocks beyond are read as a stream."""
LIGHT_RECORD_BYTES_MAX = 300_000
LIGHT_BODY_BYTES_MAX = 1_000_000

DIGEST_UNCHECKED = "digest_unchecked"
"""Flag of an output: the body is longer than what is parsed of it, and the rest was not read."""

LINKS_PER_PAGE = "links_per_page"
URL_TOO_LONG = "url_too_long"
"""Admission's names for what the parser already leaves out; counted with admission's own rejects."""

NOFOLLOW = "nofollow"

Headers = Sequence[tuple[bytes, bytes]]

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class ParseError(ValueError):
    """The body cannot be parsed as it lies there; the text says why."""


class HeavyBodyError(Exception):
    """The body is one to be parsed beside the event loop, not in it."""


class TooLargeError(ValueError):
    """The record is to be read as a stream."""


class Parsed(msgspec.Struct, frozen=True):
    """What came out of one body."""

    links: tuple[Link, ...]
    flags: tuple[str, ...]
    left_out: tuple[tuple[str, int], ...] = ()  # (rule, links that never became links of the event)


def parse_member(
    member: bytes,
    event: DocumentFetched,
    *,
    links_max: int,
    limits: DecodeLimits,
    wants: Wants = NAVIGATION_ONLY,
    kept: KeptBodies | None = None,
    light: bool = False,
) -> Parsed:
    """Parse exactly the record that `event` names.

    At most `links_max` links (50,000 in a sitemap), that of its ``Refresh`` field, and those of its ``Link`` fields, a
    hundred at most.
    `kept` may have the body decoded already; `limits` are the default ones then. `light`: `HeavyBodyError` is raised
    soon for what takes longer than an event loop should be held up.
    Raises `ParseError` when the record is damaged or is not the one whose digest the event carries: a parse of other
    bytes would be a fact about something that was never fetched. `TooLargeError` when it is for `parse_stream`.
    """
    if light and len(member) > LIGHT_RECORD_BYTES_MAX:
        raise HeavyBodyError
    try:
        record = parse_record(member, block_bytes_max=RECORD_BYTES_MAX)
    except RecordTooLargeError as error:
        raise TooLargeError(str(error)) from error
    except WarcError as error:
        raise ParseError(f"damaged record: {error}") from error
    try:
        http = split_response(record.block)
    except WarcError as error:
        raise ParseError(f"damaged record: {error}") from error
    if hashlib.sha256(http.payload).hexdigest() != event.payload_sha256:
        raise ParseError("payload digest differs from the event's")
    decoded = kept.take(event.payload_sha256, http.head.get(b"content-encoding")) if kept is not None else None
    return _read(http.head, http.payload, event, links_max, limits, wants, decoded=decoded, light=light)


def parse_any(
    member: bytes, event: DocumentFetched, *, links_max: int, limits: DecodeLimits, wants: Wants = NAVIGATION_ONLY
) -> Parsed:
    """`parse_member`, or `parse_stream` where the record is too large for that. Raises `ParseError`."""
    with contextlib.suppress(TooLargeError):
        return parse_member(member, event, links_max=links_max, limits=limits, wants=wants)
    stream = RecordStream(payload_bytes_max(event, limits, wants))
    try:
        stream.feed(member, until_full=True)
    except WarcError as error:
        raise ParseError(f"damaged record: {error}") from error
    return parse_stream(stream, event, links_max=links_max, limits=limits, wants=wants)


def parse_stream(
    stream: RecordStream,
    event: DocumentFetched,
    *,
    links_max: int,
    limits: DecodeLimits,
    wants: Wants = NAVIGATION_ONLY,
) -> Parsed:
    """The same for a record that was read as a stream, to its end or until its payload was `full`.

    Of one that is longer than that, the digest is left unchecked, which a flag says: that would take reading a
    gigabyte to find the links in its beginning.
    """
    if stream.head is None or not (stream.done or stream.full):
        raise ParseError("damaged record: cut short")
    if stream.done and stream.payload_sha256_hex != event.payload_sha256:
        raise ParseError("payload digest differs from the event's")
    parsed = _read(stream.head, stream.take(), event, links_max, limits, wants)
    if stream.done:
        return parsed
    return msgspec.structs.replace(parsed, flags=tuple(sorted({*parsed.flags, DIGEST_UNCHECKED})))


def payload_bytes_max(event: DocumentFetched, limits: DecodeLimits, wants: Wants) -> int:
    """How much of a long payload is parsed; a sitemap may be longer than a page."""
    is_sitemap = wants.extras and _run(event.hops) == "M"
    return max(limits.decoded_bytes_max, sitemaps.LIMITS.decoded_bytes_max if is_sitemap else 0)


def _read(
    head: Head,
    payload: bytes,
    event: DocumentFetched,
    links_max: int,
    limits: DecodeLimits,
    wants: Wants,
    *,
    decoded: Decoded | None = None,
    light: bool = False,
) -> Parsed:
    if head.status in _REDIRECTS:
        return _redirect(head.get(b"location"), event.url)
    coding = head.get(b"content-encoding")
    if decoded is None:
        decoded = decode_body(payload, coding, limits)
    if wants.extras and DECODED_LIMIT in decoded.flags and sitemaps.is_sitemap(decoded.data):
        decoded = decode_body(payload, coding, sitemaps.LIMITS)  # a sitemap may be longer than a page
    if light and _is_heavy(decoded.data, event.hops, wants):
        raise HeavyBodyError
    return _document(head.headers, decoded, event, links_max, wants)


def _is_heavy(body: bytes, hops: str, wants: Wants) -> bool:
    """Long pages, and what may hold or unpack to fifty thousand URLs."""
    if len(body) > LIGHT_BODY_BYTES_MAX:
        return True
    return wants.extras and (_run(hops) == "M" or body.startswith(b"\x1f\x8b"))


def _redirect(location: bytes | None, url: str) -> Parsed:
    """A redirect's body is nobody's business; its target is a link."""
    target = redirect_target(location, url) if location is not None else None
    if target is None:
        return Parsed((), ("no_location",))
    return Parsed((Link(target, LinkKind.REDIRECT),), ())


def _document(headers: Headers, decoded: Decoded, event: DocumentFetched, links_max: int, wants: Wants) -> Parsed:
    """A body of whatever type, and what its headers say of it."""
    content_type = mediatype.declared(_all(headers, b"content-type"))
    asked = signals.of_headers(headers, wants.agent.lower().encode())
    flags, essence = set(decoded.flags), essence_of(content_type, decoded.data)
    if essence in PAGES:
        page = _page(decoded.data, event, content_type, links_max, wants)
        links, surplus, overlong = _with_refresh(page.links, headers, event), page.surplus, page.overlong
        asked |= page.signals
        flags |= {NEEDS_JAVASCRIPT} if page.needs_javascript else set()
        flags |= {REFUSED} if is_refused(page.charset) else set()
    else:
        reading = read_document(
            decoded,
            url=event.url,
            essence=essence,
            content_type=content_type,
            links_max=links_max,
            wants=wants,
            as_sitemap=_run(event.hops) == "M",
        )
        links, _, overlong, surplus = reading.links
        flags |= reading.flags
    if wants.wide:
        links = _with_announced(links, headers, event.url, wants)
    if NOFOLLOW in asked:
        links = [_unendorsed(link) for link in links]
    if surplus:
        flags.add("links_truncated")
    left_out = {LINKS_PER_PAGE: surplus, URL_TOO_LONG: overlong}
    return Parsed(
        tuple(links),
        tuple(sorted(flags | signals.flags_of(asked))),
        tuple((rule, count) for rule, count in left_out.items() if count),
    )


def _page(data: bytes, event: DocumentFetched, content_type: bytes | None, links_max: int, wants: Wants) -> Page:
    """An HTML page.

    One that was fetched as a requisite (an error page in the place of an image) shows nothing to anybody: its own
    requisites are left alone, and its refresh is no redirect of the image, but a link.
    """
    needed = was_needed(event.hops)
    if needed:
        wants = msgspec.structs.replace(wants, requisites=False)
    page = extract(data, url=event.url, content_type=content_type, links_max=links_max, wants=wants)
    if not needed:
        return page
    links = [Link(link.url, _as_navigation(link.kind), link.nofollow) for link in page.links]
    return msgspec.structs.replace(page, links=links)


def _as_navigation(kind: LinkKind) -> LinkKind:
    return LinkKind.NAVIGATION if kind is LinkKind.REDIRECT else kind


def _with_refresh(links: list[Link], headers: Headers, event: DocumentFetched) -> list[Link]:
    """The links of a page with that of its ``Refresh`` field, which browsers obey as they do a meta refresh.

    It is relative to the URL, since it is read before the page is (https://html.spec.whatwg.org/#read-html).
    """
    values = _all(headers, b"refresh")
    found = resolve(refreshed(values[0]), event.url, 1).links if values else []
    if was_needed(event.hops):
        found = [Link(link.url, _as_navigation(link.kind)) for link in found]
    return [*links, *(new for new in found if all((new.url, new.kind) != (old.url, old.kind) for old in links))]


def _with_announced(links: Sequence[Link], headers: Headers, url: str, wants: Wants) -> list[Link]:
    """The links of a document with those of its ``Link`` fields, distinct."""
    values = _all(headers, b"link")
    if not values:
        return list(links)
    announced = resolve(header_links(values, wants), url, linkheader.LINKS_MAX).links
    known = {(link.url, link.kind) for link in links}
    return [*links, *(link for link in announced if (link.url, link.kind) not in known)]


def _unendorsed(link: Link) -> Link:
    """A page that asks not to be followed still needs what it needs."""
    return link if link.kind is LinkKind.REQUISITE else Link(link.url, link.kind, True)


def _all(headers: Headers, name: bytes) -> list[bytes]:
    return [value for key, value in headers if key.lower() == name]


def was_needed(hops: str) -> bool:
    """Whether a document was fetched as a requisite."""
    return _run(hops) == "E"


def _run(hops: str) -> str:
    """How a document was reached, redirects aside: the last letter of its hop path."""
    return hops.rstrip("R")[-1:]
