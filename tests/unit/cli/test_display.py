import io

import msgspec

from limpet.cli.display import Display
from limpet.embedded.collect import Collected, Rest
from limpet.testing.loop import EPOCH_US
from limpet.urlstore.sqlite import QueueState


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class HandClock:
    """Time as the test sets it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def wall_us(self) -> int:
        return EPOCH_US + self.boot_us()

    def boot_us(self) -> int:
        return int(self.seconds * 1e6)

    def boot_id(self) -> str:
        return "hand"

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def look(pages: int, *, due: int = 0, failed: int = 0, rest: Rest | None = None) -> Collected:
    """One collect."""
    counters = {"pages": pages, "bytes": pages * 1000, "state.due": due, "state.failed": failed}
    return Collected(at_us=EPOCH_US, shards={0: counters}, rest=rest)


def waiting(*seconds: int) -> Rest:
    """Hosts that wait so long."""
    queues = tuple(QueueState(f"http://h{n}", f"h{n}", 0, EPOCH_US + n * 1_000_000, "http_429") for n in seconds)
    return Rest(leased=0, jobs=0, repairs=0, unread=0, queues=queues, offsets=())


def test_a_terminal_gets_one_line_that_is_redrawn() -> None:
    """Fetched, queued, waiting, failed, pages/s and bytes, in place, never wider than the terminal."""
    stream, clock = Terminal(), HandClock()
    display = Display(stream, clock, columns=lambda: 200)
    display.progress(look(0, due=3))
    clock.seconds = 2.0
    display.progress(look(10, due=34, failed=1, rest=waiting(12, 90)))
    lines = stream.getvalue().split("\r\x1b[2K")
    assert lines[-1] == "fetched 10 · queued 34 · waiting 2 hosts, next in 12 s · failed 1 · 5.0 pages/s · 10.0 kB"
    assert "\n" not in stream.getvalue()
    narrow = Terminal()
    Display(narrow, clock, columns=lambda: 20).progress(look(10))
    assert len(narrow.getvalue().removeprefix("\r\x1b[2K")) == 19


def test_a_wait_for_the_budget_is_told_apart_from_a_hang() -> None:
    """A small budget makes long waits: the line says for what, and how long."""
    stream, clock = Terminal(), HandClock()
    held = QueueState("http://a", "a", 0, EPOCH_US + 5_760_000_000, "budget")
    rest = msgspec.structs.replace(waiting(), queues=(held, *waiting(9999).queues))
    Display(stream, clock, columns=lambda: 200).progress(look(1, due=3, rest=rest))
    assert "waiting for the day's budget, next request in 1 h 36 min" in stream.getvalue()


def test_notes_do_not_tear_the_line() -> None:
    """A note takes the line's place; the line comes again below; the end leaves an empty line."""
    stream, clock = Terminal(), HandClock()
    display = Display(stream, clock, columns=lambda: 80)
    display.progress(look(1))
    display.note("worker 1 died")
    display.progress(look(2))
    display.close()
    display.close()
    assert "\r\x1b[2Kworker 1 died\n\r\x1b[2Kfetched 2" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_elsewhere_a_plain_line_comes_every_five_seconds_and_only_for_news() -> None:
    """No control characters, no repetition."""
    stream, clock = io.StringIO(), HandClock()
    display = Display(stream, clock)
    for second in range(21):
        clock.seconds = float(second)
        display.progress(look(min(second, 7)))
    lines = stream.getvalue().splitlines()
    assert [line.split(" · ")[0] for line in lines] == ["fetched 0", "fetched 5", "fetched 7", "fetched 7", "fetched 7"]
    clock.seconds = 60.0
    display.progress(look(7))
    count = len(stream.getvalue().splitlines())
    clock.seconds = 120.0
    display.progress(look(7))
    assert len(stream.getvalue().splitlines()) == count
    assert "\x1b" not in stream.getvalue()


def test_the_rate_is_of_the_last_seconds() -> None:
    """A crawl that stalls shows it."""
    stream, clock = Terminal(), HandClock()
    display = Display(stream, clock, columns=lambda: 200)
    for second in range(40):
        clock.seconds = float(second)
        display.progress(look(100 if second else 0))
    assert "0.0 pages/s" in stream.getvalue().split("\r")[-1]
