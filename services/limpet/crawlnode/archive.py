"""Captures as WARC members, and the outcome that keeps what the record says."""

from importlib.metadata import version

import msgspec

from limpet.clock import Clock
from limpet.config import Facts, ScopeFacts
from limpet.fetch import Capture
from limpet.model.outcome import Outcome
from limpet.runtime import Random
from limpet.segments import Appendable
from limpet.warc import (
    CAPTURE_ID_BYTES,
    CaptureMeta,
    CrawlInfo,
    capture_members,
    spooled_members,
    warcinfo_member,
)

RECORD_ID_BYTES = 16
FIELD_CHARS_MAX = 300
DETAIL_CHARS_MAX = 300


class Archivist:
    """Knows who we are, and writes it into every request and every segment."""

    def __init__(self, facts: Facts, random: Random, clock: Clock) -> None:
        self._facts = facts
        self._random = random
        self._clock = clock
        self.user_agent = user_agent(facts)
        self.headers: tuple[tuple[bytes, bytes], ...] = (
            (b"User-Agent", self.user_agent.encode()),
            (b"Accept", b"text/html,application/xhtml+xml,*/*;q=0.8"),
            (b"Accept-Encoding", b"gzip"),
        )

    def warcinfo(self, name: str) -> bytes:
        """The first member of segment `name`."""
        info = CrawlInfo(
            software=f"limpet/{version('limpet-crawler')}",
            user_agent=self.user_agent,
            crawl=self._facts.crawl,
            contact=self._facts.contact,
            scope=scope_text(self._facts.scope),
        )
        token = self._random.token(RECORD_ID_BYTES)
        return warcinfo_member(info, filename=name, at_us=self._clock.wall_us(), token=token)

    def members(self, capture: Capture, meta: CaptureMeta, outcome: Outcome) -> tuple[tuple[Appendable, ...], Outcome]:
        """The capture's members, the response first, and `outcome` with digests and type filled in."""
        make = capture_members if capture.spool is None else spooled_members
        records = make(capture, meta, "", self._random.token(CAPTURE_ID_BYTES))
        return records.members, msgspec.structs.replace(
            outcome,
            payload_sha256=records.payload_sha256_hex,
            payload_sha1=records.payload_sha1_b32,
            mime=_text(capture, b"content-type").partition(";")[0].strip().lower(),
            content_encoding=_text(capture, b"content-encoding"),
            etag=_text(capture, b"etag"),
            last_modified=_text(capture, b"last-modified"),
        )


def observed(capture: Capture, fp: bytes, url: str) -> Outcome:
    """What the wire told of an attempt, whoever judges it."""
    failure = capture.failure
    invalid = f"accepted although invalid: {capture.insecure_tls}" if capture.insecure_tls else ""
    return Outcome(
        fp=fp,
        fetched_us=capture.started_us,
        url=url,
        status=capture.head.status if capture.head else 0,
        failure=failure.kind if failure else "",
        detail=failure.detail[:DETAIL_CHARS_MAX] if failure else invalid,
        wire_bytes=capture.wire_bytes,
        truncated=capture.truncated or "",
        duration_us=capture.duration_us,
        remote_ip=capture.remote_ip,
        insecure_tls=bool(capture.insecure_tls),
    )


def scope_text(scope: ScopeFacts) -> str:
    """The scope in words: its kind, then whatever else was chosen, as `name=value`."""
    said = [scope.kind]
    for name in ScopeFacts.__struct_fields__[1:]:
        value = getattr(scope, name)
        if value != getattr(ScopeFacts(), name):
            said.append(f"{name}={', '.join(value) if isinstance(value, tuple) else value}")
    return "; ".join(said)


def user_agent(facts: Facts) -> str:
    """TOKEN/VERSION (+CONTACT); the token is what robots.txt is matched on."""
    contact = f" (+{facts.contact})" if facts.contact else ""
    return f"{facts.agent}/{version('limpet-crawler')}{contact}"


def _text(capture: Capture, name: bytes) -> str:
    value = capture.head.get(name) if capture.head is not None else None
    return (value or b"")[:FIELD_CHARS_MAX].decode("latin-1")
