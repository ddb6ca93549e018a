"""The log keeps what happened, whatever a client sends and however the origin ends."""

import asyncio
from pathlib import Path

from origin.events import Closed, Event, Opened, Requested, Responded, Started, Stopped, encode, read_events
from origin.log import Log
from origin.wire import Request

EVENTS: tuple[Event, ...] = (
    Started(1, 11, "kill", 7, 8080, {"pages": 3, "one_seed": True, "latency_ms": 0.5}),
    Opened(2, 12, 1, "127.0.0.2", "127.0.0.1:5"),
    Requested(3, 13, 1, 1, "127.0.0.2", "127.0.0.2:8080", "GET", "/", "", "limpet/1", referer=False, cookie=True),
    Responded(5, 15, 1, 1, 4, 503, 99, 2.0, complete=True),
    Closed(6, 16, 1, "server"),
    Stopped(7, 17),
)


def test_events_survive_the_log(tmp_path: Path) -> None:
    """Every kind of event reads back as it was, ids told apart by run."""
    path = tmp_path / "log"
    path.write_text("".join(encode(event) + "\n" for event in EVENTS))
    read = read_events(path)
    assert [type(event) for event in read] == [type(event) for event in EVENTS]
    assert (read[0], read[-1]) == (EVENTS[0], EVENTS[-1])
    opened, requested, responded, closed = read[1:5]
    assert isinstance(opened, Opened)
    assert isinstance(requested, Requested)
    assert isinstance(responded, Responded)
    assert isinstance(closed, Closed)
    assert opened.connection == requested.connection == responded.connection == closed.connection
    assert requested.request == responded.request
    assert (responded.retry_after_seconds, requested.cookie, requested.user_agent) == (2.0, True, "limpet/1")


def test_runs_on_one_log_keep_their_ids_apart(tmp_path: Path) -> None:
    """An origin started again counts from one again; its events are not taken for those of the first."""
    path = tmp_path / "log"
    path.write_text("".join(encode(event) + "\n" for event in EVENTS + EVENTS))
    assert len({event.request for event in read_events(path) if isinstance(event, Requested)}) == 2


def test_torn_lines_are_skipped(tmp_path: Path) -> None:
    """A line cut by the origin's own death costs that line only, also when the log goes on behind it."""
    path = tmp_path / "log"
    lines = [encode(event) for event in EVENTS]
    path.write_text("\n".join(lines[:3]) + "\n" + lines[3][:20])
    assert len(read_events(path)) == 3
    asyncio.run(_append(path, EVENTS[0]))
    assert len(read_events(path)) == 4
    assert read_events(tmp_path / "none") == []


async def _append(path: Path, event: Event) -> None:
    log = Log(path, asyncio.get_running_loop())
    log.event(event)
    log.close()


async def _write_by_hand(path: Path, request: Request) -> None:
    log = Log(path, asyncio.get_running_loop())
    log.opened(1, "127.0.0.2", "127.0.0.1:5")
    log.requested(3, 1, 1, request)
    log.responded(5, 1, 1, head_ns=None, status=200, size_bytes=9, retry_after_seconds=1.5, complete=False)
    log.closed(1, "client")
    await asyncio.sleep(0)  # noqa: TID251 (lets the loop turn once: the log must then be in the file)
    await asyncio.sleep(0)  # noqa: TID251 (the same)
    assert len(read_events(path)) == 4
    log.close()


def test_hand_formatted_lines_are_json(tmp_path: Path) -> None:
    """Quotes, control characters and bytes beyond ASCII in a request cannot break or forge a line."""
    evil = '/a"b\\c\r\n{"event":"stopped"}\x00\xff?q="'
    headers = {b"user-agent": b'x"\xff\x1b', b"referer": b""}
    asyncio.run(_write_by_hand(tmp_path / "log", Request('G"', evil, "h\xe9", "h\xe9:1", headers)))
    opened, requested, responded, closed = read_events(tmp_path / "log")
    assert isinstance(opened, Opened)
    assert isinstance(requested, Requested)
    assert f"{requested.path}?{requested.query}" == evil
    assert (requested.method, requested.host, requested.user_agent) == ('G"', "h\xe9", 'x"\xff\x1b')
    assert (requested.referer, requested.cookie) == (True, False)
    assert isinstance(responded, Responded)
    assert (responded.head_ns, responded.retry_after_seconds, responded.complete) == (None, 1.5, False)
    assert isinstance(closed, Closed)


def test_without_a_path_nothing_is_written() -> None:
    """A log without a file takes everything and keeps nothing."""
    asyncio.run(_write_nowhere())


async def _write_nowhere() -> None:
    log = Log(None, asyncio.get_running_loop())
    log.event(EVENTS[0])
    log.closed(1, "client")
    log.close()
