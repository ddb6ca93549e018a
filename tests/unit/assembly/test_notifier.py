import asyncio
import http.server
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from limpet.assembly import notifier
from limpet.assembly.notifier import Notifier
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.testing.chance import SeededRandom
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.urlstore.sqlite import SqliteUrlStore


class Receiver:
    """A webhook that answers what the test says."""

    def __init__(self, *answers: int) -> None:
        self._answers = list(answers)
        self.bodies: list[bytes] = []

    async def __call__(self, url: str, body: bytes) -> int:
        assert url == "http://hook.example/"
        self.bodies.append(body)
        return self._answers.pop(0) if self._answers else 204


class Desk:
    """One shard with notices, and a notifier over it."""

    def __init__(self, path: Path, webhook: str, receiver: Receiver) -> None:
        self.loop = VirtualLoop()
        self.clock = SimClock(self.loop)
        self.file = SqliteFile(
            path / "00.sqlite", schema=shard_schema(), runner=InlineRunner(), clock=self.clock, synchronous="OFF"
        )
        self.store = SqliteUrlStore(self.file, 0, SeededRandom(1))
        self.notifier = Notifier([self.store], webhook, self.clock, receiver)

    async def notify(self, count: int = 1) -> None:
        await self.store.notify("failed", "a.example", "timeout", "http://a.example/x", 5, count)


@pytest.fixture(autouse=True)
def _quiet_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, logger="limpet.notice"):
        yield


def test_without_a_webhook_a_log_line_is_the_delivery(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each notice is logged once and then marked."""
    receiver = Receiver()
    desk = Desk(tmp_path, "", receiver)

    async def main() -> None:
        await desk.notify(3)
        assert await desk.notifier.deliver()
        assert await desk.store.notices() == []
        assert await desk.notifier.deliver()
        await desk.file.close()

    run_virtual(main(), desk.loop)
    assert [record.getMessage() for record in caplog.records] == ["failed"]
    assert receiver.bodies == []


def test_a_notice_is_marked_only_after_2xx(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A deaf receiver delays a notice and never loses it; the log has it once all the same."""
    receiver = Receiver(500, 0, 200)
    desk = Desk(tmp_path, "http://hook.example/", receiver)

    async def main() -> None:
        await desk.notify()
        assert not await desk.notifier.deliver()
        assert not await desk.notifier.deliver()
        assert len(await desk.store.notices()) == 1
        assert await desk.notifier.deliver()
        assert await desk.store.notices() == []
        await desk.file.close()

    run_virtual(main(), desk.loop)
    sent = [msgspec.json.decode(body)["notices"][0] for body in receiver.bodies]
    assert [(one["kind"], one["host"], one["count"]) for one in sent] == [("failed", "a.example", 1)] * 3
    assert [record.getMessage() for record in caplog.records].count("failed") == 1


def test_what_comes_in_during_a_delivery_is_delivered_next(tmp_path: Path) -> None:
    """Only the counts that were shown are marked."""
    desk = Desk(tmp_path, "http://hook.example/", Receiver())

    async def main() -> None:
        await desk.notify(2)
        shown = await desk.store.notices()
        await desk.notify(5)
        await desk.store.delivered(shown)
        assert [notice.count for notice in await desk.store.notices()] == [5]
        await desk.file.close()

    run_virtual(main(), desk.loop)


def test_the_notifier_delivers_until_it_is_stopped_and_once_more(tmp_path: Path) -> None:
    """Rounds come every few seconds, rarer while the receiver is deaf; the end has a round of its own."""
    receiver = Receiver(*[503] * 5)
    desk = Desk(tmp_path, "http://hook.example/", receiver)

    async def main() -> float:
        stop = asyncio.Event()
        await desk.notify()
        running = asyncio.ensure_future(desk.notifier.run(stop))
        while len(receiver.bodies) < 6:
            await desk.clock.sleep(1)
        took = desk.clock.monotonic()
        await desk.notify()
        stop.set()
        await running
        assert await desk.store.notices() == []
        await desk.file.close()
        return took

    assert 5 * 30 < run_virtual(main(), desk.loop) < 5 * 120
    assert len(receiver.bodies) == 7


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes every POST."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201 if body == b"{}" else 400)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_post_json_speaks_http() -> None:
    """The real `Post` returns the status, and 0 for a receiver that is not there."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    port = server.server_address[1]
    try:
        assert asyncio.run(notifier.post_json(f"http://127.0.0.1:{port}/", b"{}")) == 201
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert asyncio.run(notifier.post_json(f"http://127.0.0.1:{port}/", b"{}")) == 0
    assert asyncio.run(notifier.post_json("no url", b"{}")) == 0
