"""The two facts that close the ring. They carry references, never bodies.

Each event has a version `v`; a reader pauses on a version it does not know. JSON Schemas and frozen samples are in
limpet.schemas.events; a sample once published parses for ever.
"""

from typing import Final

import msgspec

from limpet.model.errors import Definite
from limpet.model.links import LinkKind
from limpet.segments.port import Location

DOCUMENT_FETCHED: Final = "document.fetched"
LINKS_DISCOVERED: Final = "links.discovered"
TOPICS: Final = (DOCUMENT_FETCHED, LINKS_DISCOVERED)
EVENT_VERSION: Final = 1


class UnknownEventVersionError(Definite):
    """An event from a newer Limpet: stop consuming, keep the offset, upgrade."""


class DocumentFetched(msgspec.Struct, frozen=True, kw_only=True):
    """A body is replicated, synced and readable at `location`. Key: (fp, fetched_us)."""

    v: int = EVENT_VERSION
    crawl: str
    fp: bytes
    url: str
    fetched_us: int
    status: int
    location: Location
    payload_sha256: str
    depth: int
    hops: str
    seed: bool = False


class Link(msgspec.Struct, frozen=True, array_like=True):
    """One link of a page, canonical."""

    url: str
    kind: LinkKind
    nofollow: bool = False


class PageLinks(msgspec.Struct, frozen=True, kw_only=True):
    """Links of one page that concern one partition. `depth` and `hops` are the page's own.

    `stray`: the page is off scope and was fetched as a requisite, which only the owner of its own shard can tell.
    """

    fp: bytes
    fetched_us: int
    url: str
    depth: int
    hops: str
    seed: bool = False
    stray: bool | msgspec.UnsetType = msgspec.UNSET  # not written unless it is so: most pages are none
    links: tuple[Link, ...]


class LinksDiscovered(msgspec.Struct, frozen=True, kw_only=True):
    """Links of many pages for one admission partition."""

    v: int = EVENT_VERSION
    crawl: str
    pages: tuple[PageLinks, ...]


class _Version(msgspec.Struct):
    v: int


_ENCODER = msgspec.json.Encoder()
_FETCHED = msgspec.json.Decoder(DocumentFetched)
_LINKS = msgspec.json.Decoder(LinksDiscovered)
_VERSION = msgspec.json.Decoder(_Version)


def encode(event: DocumentFetched | LinksDiscovered) -> bytes:
    """The event as JSON; bytes fields as base64."""
    return _ENCODER.encode(event)


def decode_fetched(payload: bytes) -> DocumentFetched:
    """Parse and validate. Raises `UnknownEventVersionError`, or msgspec.ValidationError for a malformed event."""
    _check_version(payload)
    return _FETCHED.decode(payload)


def decode_links(payload: bytes) -> LinksDiscovered:
    """Parse and validate; errors as `decode_fetched`."""
    _check_version(payload)
    return _LINKS.decode(payload)


def _check_version(payload: bytes) -> None:
    version = _VERSION.decode(payload).v
    if version != EVENT_VERSION:
        raise UnknownEventVersionError(f"event version {version} is not known here (known: {EVENT_VERSION})")
