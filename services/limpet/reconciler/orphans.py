"""What the records of a capture tell, where the process that made it can no longer be asked."""

from collections.abc import Mapping

from limpet.fetch import Head
from limpet.model.outcome import Outcome
from limpet.segments import Location
from limpet.urlstore import RobotsFetch
from limpet.warc import CaptureView


def is_robots(fields: Mapping[str, str]) -> bool:
    """Whether the metadata record is that of a robots.txt."""
    return fields.get("limpet-kind") == "robots"


def fp_of(fields: Mapping[str, str], name: str = "limpet-fp") -> bytes:
    """A fingerprint in the metadata record; empty where there is none."""
    try:
        return bytes.fromhex(fields.get(name, ""))
    except ValueError:
        return b""


def observed(view: CaptureView, fp: bytes, location: Location) -> Outcome:
    """What the records tell of an attempt, whoever judges it."""
    head = Head(status=view.status, headers=view.headers)
    return Outcome(
        fp=fp,
        fetched_us=view.date_us,
        url=view.url,
        status=view.status,
        location=location,
        wire_bytes=view.block_bytes,
        payload_sha256=view.payload_sha256_hex,
        payload_sha1=view.payload_sha1_b32,
        mime=_text(head, b"content-type").partition(";")[0].strip().lower(),
        content_encoding=_text(head, b"content-encoding"),
        truncated=view.truncated,
        duration_us=_int(view.fields.get("limpet-duration-us", "")),
        remote_ip=view.ip,
        robots_digest=view.fields.get("robots-digest", ""),
        robots_rule=view.fields.get("robots-rule", ""),
        gap_us=_int(view.fields.get("limpet-gap-us", "")),
        etag=_text(head, b"etag"),
        last_modified=_text(head, b"last-modified"),
        insecure_tls=bool(view.fields.get("insecure-tls")),
    )


def _text(head: Head, name: bytes) -> str:
    return (head.get(name) or b"")[:300].decode("latin-1")


def _int(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


def robots_fetch_of(view: CaptureView, location: Location) -> RobotsFetch:
    """The line of a robots.txt that was archived."""
    return RobotsFetch(
        outcome=observed(view, b"", location),
        hops=view.fields.get("hopsFromSeed", ""),
        via=view.fields.get("via", ""),
        cause=fp_of(view.fields, "limpet-cause"),
    )
