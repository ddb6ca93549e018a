"""Responses made up for the parser's tests, and what comes of them."""

import hashlib

from limpet.model.events import DocumentFetched
from limpet.model.links import LinkKind
from limpet.parser.decode import DecodeLimits
from limpet.parser.page import Parsed, parse_member
from limpet.parser.wants import Wants
from limpet.segments import Location
from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, capture_members

URL = "http://site.test/dir/page"
REQUISITES = Wants(requisites=True)
EXTRAS = Wants(extras=True)
ALL = Wants(requisites=True, extras=True)
NOTHING_MORE = Wants()


def fetched(
    body: bytes | str, *fields: str, content_type: str | None = "text/html", url: str = URL, hops: str = ""
) -> tuple[bytes, DocumentFetched]:
    """The record of a response with this body and these further fields, and the event that names it."""
    content = body.encode() if isinstance(body, str) else body
    head = ["HTTP/1.1 200 OK", f"Content-Length: {len(content)}", *fields]
    head += [f"Content-Type: {content_type}"] if content_type is not None else []
    wire = "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + content
    capture = wire_capture(url, wire)
    records = capture_members(capture, CaptureMeta(), "", bytes(48))
    member = records.members[records.response_index]
    event = DocumentFetched(
        crawl="c",
        fp=bytes(16),
        url=url,
        fetched_us=1,
        status=200,
        location=Location("s", 0, len(member)),
        payload_sha256=hashlib.sha256(capture.payload).hexdigest(),
        depth=0,
        hops=hops,
    )
    return member, event


def parsed(
    body: bytes | str,
    *fields: str,
    content_type: str | None = "text/html",
    wants: Wants = ALL,
    url: str = URL,
    hops: str = "",
    links_max: int = 1_000,
) -> Parsed:
    """What the parser makes of such a response."""
    member, event = fetched(body, *fields, content_type=content_type, url=url, hops=hops)
    return parse_member(member, event, links_max=links_max, limits=DecodeLimits(), wants=wants)


def links(found: Parsed) -> list[tuple[str, LinkKind]]:
    """Where it leads, and as what; the page's own site left out of the URLs."""
    return [(link.url.removeprefix("http://site.test"), link.kind) for link in found.links]
