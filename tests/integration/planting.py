"""Faults, planted in crawls made by hand."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from integration.crawl_maker import Sent, answer, robots
from limpet.embedded.folder import Folder
from limpet.model.identity import bucket_of, shard_of
from limpet.model.outcome import Outcome
from limpet.model.urls import split
from limpet.reconciler.report import Report
from limpet.warc import members

PAGE, GONE, BUSY = "http://a.test/", "http://a.test/gone", "http://b.test/busy"
CRAWL = (
    robots(0),
    robots(0, host="b.test"),
    Sent(url=PAGE, at=2, links=3),
    Sent(url=GONE, at=4, wire=answer(404)),
    Sent(url="http://b.test/", at=3, wire=answer(200, b"x" * 5000)),
    Sent(url=BUSY, at=6, wire=answer(503, b"", b"Retry-After: 60")),
    Sent(url="http://b.test/lost", at=80, failure="reset"),
    Sent(url="http://a.test/last", at=90),
)


def run_sql(path: Path, statement: str, *params: object) -> list[tuple[Any, ...]]:
    """Change a file behind the back of its owner; what the statement returns."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement, params).fetchall()


def shard_with(folder: Folder, url: str) -> Path:
    """The file of the shard that owns a URL."""
    facts = folder.facts
    return folder.shard_file(shard_of(bucket_of(split(url).host, facts.buckets), facts.shards))


def segments_in(folder: Folder, replica: int = 0) -> list[Path]:
    """The segment files of one directory, sealed or open."""
    directory = folder.segment_directories[replica]
    return sorted(path for path in directory.iterdir() if not path.name.endswith(".cdxj"))


def index_of_segment(path: Path) -> Path:
    """The index beside a segment."""
    return path.with_name(path.name + ".cdxj")


def kinds(report: Report) -> set[str]:
    return {finding.kind for finding in report.findings}


def noted(report: Report) -> set[str]:
    return {note.kind for note in report.notes}


def only_first_replica(folder: Folder) -> Path:
    """Make both replicas the same again after the first was changed; the first segment."""
    segment = segments_in(folder)[0]
    for path in (segment, index_of_segment(segment)):
        other = folder.segment_directories[1] / path.name
        if path.exists():
            shutil.copyfile(path, other)
        else:
            other.unlink(missing_ok=True)
    return segment


def patch(folder: Folder, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of the one segment, in both replicas."""
    segment = segments_in(folder)[0]
    segment.write_bytes(change(segment.read_bytes()))
    only_first_replica(folder)


def flip(position: int, bit: int = 0) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]

    return change


def place_of(folder: Folder, url: str) -> tuple[int, int]:
    """Where the record of a URL is: offset and length."""
    data = segments_in(folder)[0].read_bytes()
    for member in members(lambda offset, size: data[offset : offset + size], len(data)):
        if member.header.type == "response" and member.header.uri == url:
            return member.offset, member.length
    raise KeyError(url)


def change_outcome(folder: Folder, url: str, change: Callable[[Outcome], Outcome]) -> None:
    """Rewrite the stored outcome of a URL."""
    path = shard_with(folder, url)
    seq, data = run_sql(path, "SELECT o.seq, o.data FROM outcome o JOIN url u ON u.id = o.url WHERE u.url = ?", url)[0]
    outcome = change(msgspec.msgpack.decode(data, type=Outcome))
    run_sql(path, "UPDATE outcome SET data = ? WHERE seq = ?", msgspec.msgpack.encode(outcome), seq)
