"""A finished crawl as an ordinary folder: pulled out of its servers, judged by the verbs and by strangers."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from re import match
from typing import Any, Final

from e2e.cluster.archive import members
from e2e.cluster.crawl import ClusterCrawl
from integration.judges import jwarc_validate, warcio_check

WARCIO_DIGEST: Final = "    payload digest failed sha1:"


def verdict(crawl: ClusterCrawl, into: Path) -> list[str]:
    """What `verify` and `audit`, jwarc and warcio find in the crawl; no role may be up."""
    crawl.limpet("pull", "--into", str(into))
    segments = sorted(into.glob("**/*.warc.gz"))
    assert segments, f"{into} has no segments"
    found = [f"{verb}: {finding}" for verb in ("verify", "audit") for finding in _findings(crawl, verb, into)]
    return [*found, *objections(segments)]


def _findings(crawl: ClusterCrawl, verb: str, folder: Path) -> list[Any]:
    said: dict[str, list[Any]] = json.loads(crawl.judge(verb, folder))
    return said["findings"]


def objections(segments: Sequence[Path]) -> Iterator[str]:
    """What jwarc and warcio have against segments of well-formed answers."""
    for segment in segments:
        yield from (f"jwarc: {segment.name}: {line}" for line in jwarc_validate(segment) if line.startswith("ERROR"))
        yield from (f"warcio: {segment.name}: {line}" for line in warcio_objections(segment))


def warcio_objections(segment: Path) -> Iterator[str]:
    """Its complaints but one: it takes payload digests over the framing of chunked bodies."""
    chunked = chunked_at(segment.read_bytes())
    offset = -1
    for line in warcio_check(segment)[1:]:  # the first line names the file
        if at := match(r"  offset (\d+) WARC-Record-ID", line):
            offset = int(at[1])
        elif not (line.startswith(WARCIO_DIGEST) and offset in chunked):
            yield f"offset {offset}: {line.strip()}"


def chunked_at(data: bytes) -> frozenset[int]:
    """Offsets of the response records of a segment whose bodies are chunked."""
    return frozenset(offset for offset, _, content in members(data) if _is_chunked(content))


def _is_chunked(content: bytes) -> bool:
    fields, _, block = content.partition(b"\r\n\r\n")
    head = block.partition(b"\r\n\r\n")[0].lower()
    return b"WARC-Type: response" in fields and b"\r\ntransfer-encoding: chunked" in head
