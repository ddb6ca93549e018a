"""`limpet log`: one line a capture in the columns of Heritrix's crawl.log (docs/operating.md)."""

import argparse
import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from limpet.cli.folderview import FolderView
from limpet.cli.opening import open_view
from limpet.cli.printing import flush, plain, write
from limpet.clock import Clock, SystemClock
from limpet.embedded.capturelog import CaptureLog, Entry, Marks
from limpet.model.errors import UsageError
from limpet.model.lifecycle import State

FOLLOW_SECONDS: Final = 0.5
NO_ANSWER: Final = {
    "dns": -1,
    "refused": -2,
    "connect": -2,
    "tls": -2,
    "proxy": -2,
    "reset": -3,
    "protocol": -3,
    "timeout": -4,
    "gate": -5001,
}
"""Heritrix's codes for what has no status. Source: its glossary, "Status codes"."""
UNEXPECTED: Final = -5
NO_ROBOTS: Final = -61
UNREACHABLE: Final = -2
DELETED: Final = -6000
DENIED: Final = -9998


def log(arguments: argparse.Namespace) -> int:
    """Print what there is, and with --follow what comes."""
    if arguments.follow and arguments.config is not None:
        raise UsageError("--follow takes a crawl folder: a cluster keeps nothing in the order of time")
    with open_view(arguments) as view:
        if not isinstance(view, FolderView) or not arguments.follow:
            _print(view.captures(), as_json=arguments.json)
            return 0
        captures = view.log()
        marks = captures.now()
        _print(captures.between({}, marks), as_json=arguments.json)
        asyncio.run(_follow(captures, marks, SystemClock(), as_json=arguments.json))
    return 0


async def _follow(captures: CaptureLog, seen: Marks, clock: Clock, *, as_json: bool) -> None:
    """What is completed from now on, until interrupted."""
    while True:
        await clock.sleep(FOLLOW_SECONDS)
        marks = captures.now()
        if marks != seen:
            _print(captures.between(seen, marks), as_json=as_json)
            seen = marks


def _print(entries: Iterable[Entry], *, as_json: bool) -> None:
    for entry in entries:
        write((msgspec.json.encode(as_object(entry)).decode() if as_json else as_line(entry)) + "\n")
    flush()


def code_of(entry: Entry) -> int:
    """The status, or what Heritrix writes where there is none."""
    if entry.outcome is not None:
        return entry.outcome.status or NO_ANSWER.get(entry.outcome.failure, UNEXPECTED)
    if entry.state is State.DENIED:
        return DENIED
    if entry.state is State.CANCELLED:
        return DELETED
    return NO_ROBOTS if "robots" in entry.reason else UNREACHABLE


def as_line(entry: Entry) -> str:
    """The twelve columns."""
    outcome = entry.outcome
    begun = digest = worker = size = mime = ""
    if outcome is not None:
        begun = f"{_digits(outcome.fetched_us)}+{outcome.duration_us // 1000}"
        digest = f"sha1:{outcome.payload_sha1}" if outcome.payload_sha1 else ""
        worker = worker_of(entry)
        size = str(outcome.wire_bytes) if outcome.status else ""
        mime = outcome.mime
    head = f"{_iso(entry.at_us)} {code_of(entry):5d} {size or '-':>10}"
    columns = (entry.url, entry.hops, entry.via, mime, f"#{worker or '-'}", begun, digest, entry.source)
    return " ".join([head, *(_column(text) for text in columns), _column(",".join(annotations(entry)))])


def as_object(entry: Entry) -> dict[str, Any]:
    """The same for programs, with what the columns have no room for."""
    outcome = entry.outcome
    fields: dict[str, Any] = {
        "at_us": entry.at_us,
        "code": code_of(entry),
        "url": entry.url,
        "hops": entry.hops,
        "via": entry.via,
        "source": entry.source,
        "annotations": annotations(entry),
    }
    if outcome is None:
        return {**fields, "state": entry.state, "reason": entry.reason}
    return {
        **fields,
        "status": outcome.status,
        "failure": outcome.failure,
        "detail": outcome.detail,
        "bytes": outcome.wire_bytes,
        "mime": outcome.mime,
        "worker": worker_of(entry),
        "fetched_us": outcome.fetched_us,
        "duration_us": outcome.duration_us,
        "sha1": outcome.payload_sha1,
        "truncated": outcome.truncated,
        "tries": entry.tries,
        "invalid_certificate": outcome.insecure_tls,
        "record": outcome.location,
    }


def annotations(entry: Entry) -> list[str]:
    """What else is worth a word."""
    outcome = entry.outcome
    if outcome is None:
        state = entry.state.value if entry.state is not None else ""
        return [state, *([entry.reason] if entry.reason else [])]
    found = [f"failure:{outcome.failure}"] if outcome.failure else []
    found += [f"{entry.tries}t"] if entry.tries > 1 else []
    found += [f"truncated:{outcome.truncated}"] if outcome.truncated else []
    found += entry.oddities
    found += ["invalid_certificate"] if outcome.insecure_tls else []
    found += [f"ip:{outcome.remote_ip}"] if outcome.remote_ip else []
    return found + ([f"robots:{outcome.robots_digest[:12]}"] if outcome.robots_digest else [])


def worker_of(entry: Entry) -> str:
    """The process that archived it: its incarnation, which its segments are named after. "" without a record."""
    place = entry.outcome.location if entry.outcome is not None else None
    return "" if place is None else place.segment.partition(".")[0].rpartition("-")[2]


def _column(text: str) -> str:
    """Never empty, and never a blank or anything else that would end the column or the line."""
    if text.isprintable() and " " not in text:
        return text or "-"
    return "".join(plain(char) if not char.isspace() else f"%{ord(char):02X}" for char in text)


def _iso(us: int) -> str:
    return datetime.fromtimestamp(us // 1000 / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _digits(us: int) -> str:
    return datetime.fromtimestamp(us // 1000 / 1000, UTC).strftime("%Y%m%d%H%M%S%f")[:-3]
