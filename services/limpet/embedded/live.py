"""What only a worker at work knows of its hosts, told to onlookers who ask; and that the worker is alive at all.

```
DIR/run/ask            its time is the number of the latest question
DIR/run/hosts-N.json   the answer of worker N, with the time of its question: as of when, and why each of its hosts is
                       asked as seldom as it is
DIR/run/worker-N.alive touched by worker N every few seconds; gone when it ended as it should
```

Nothing here is durable, and nothing depends on it: without an answer onlookers show what the shards know.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from limpet.clock import Clock

ASK_NAME: Final = "ask"
LOOK_SECONDS: Final = 0.25
BEAT_LOOKS: Final = 8
SILENT_SECONDS: Final = 10.0
ANSWER_SECONDS_MAX: Final = 0.8
ANSWER_BYTES_MAX: Final = 33_554_432
HOSTS_A_TURN: Final = 100
HOSTS_TOLD_MAX: Final = 20_000

Reasons = list[tuple[str, float]]
"""(reason, seconds), as `Governor.explain` gives them."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker says."""

    at_us: int
    hosts: dict[str, Reasons]


class Pulse:
    """The worker's side. `hosts` is walked a piece at a time, so that no answer holds up the crawl."""

    def __init__(self, run: Path, slot: int, clock: Clock, hosts: Callable[[], Iterable[tuple[str, Reasons]]]) -> None:
        self._ask = run / ASK_NAME
        self._answer = run / f"hosts-{slot}.json"
        self._alive = run / f"worker-{slot}.alive"
        self._clock = clock
        self._hosts = hosts

    async def run(self) -> None:
        """Beat and answer until cancelled."""
        answered_ns, looks = _mtime_ns(self._ask), 0
        while True:
            if looks % BEAT_LOOKS == 0:
                with contextlib.suppress(OSError):  # a pulse is not worth a run
                    self._alive.touch()
            looks += 1
            await self._clock.sleep(LOOK_SECONDS)
            asked_ns = _mtime_ns(self._ask)
            if asked_ns > answered_ns:
                answered_ns = asked_ns
                await self._tell(asked_ns)

    def end(self) -> None:
        """The worker ended as it should."""
        for path in (self._alive, self._answer):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    async def _tell(self, asked_ns: int) -> None:
        found: dict[str, Reasons] = {}
        for host, reasons in self._hosts():
            found[host] = reasons
            if len(found) >= HOSTS_TOLD_MAX:
                break
            if len(found) % HOSTS_A_TURN == 0:
                await self._clock.sleep(0)
        data = msgspec.json.encode(Answer(at_us=self._clock.wall_us(), hosts=found))
        draft = self._answer.with_name(self._answer.name + ".tmp")
        with contextlib.suppress(OSError):
            draft.write_bytes(data)
            os.utime(draft, ns=(asked_ns, asked_ns))  # which question it answers
            draft.replace(self._answer)


class Listener:
    """The onlooker's side."""

    def __init__(self, run: Path, clock: Clock) -> None:
        self._run = run
        self._clock = clock

    def silent_workers(self) -> dict[int, float]:
        """Workers that ought to be at work and have not been heard of: slot -> seconds since."""
        ages = self._ages()
        return {slot: age for slot, age in sorted(ages.items()) if age > SILENT_SECONDS}

    async def ask(self) -> dict[str, tuple[int, Reasons]]:
        """Host -> (as of, reasons), from every worker that answers in time."""
        slots = [slot for slot, age in self._ages().items() if age <= SILENT_SECONDS]
        if not slots:
            return {}
        asked_ns = self._put_question()
        if not asked_ns:
            return {}
        give_up = self._clock.monotonic() + ANSWER_SECONDS_MAX
        answers = [self._run / f"hosts-{slot}.json" for slot in slots]
        while any(_mtime_ns(path) < asked_ns for path in answers) and self._clock.monotonic() < give_up:
            await self._clock.sleep(0.02)
        found: dict[str, tuple[int, Reasons]] = {}
        for path in answers:
            answer = _read(path) if _mtime_ns(path) >= asked_ns else None
            if answer is not None:
                found |= {host: (answer.at_us, reasons) for host, reasons in answer.hosts.items()}
        return found

    def _put_question(self) -> int:
        """Its number, which is the time of the file: greater than any before. 0 in somebody else's folder."""
        ask = self._run / ASK_NAME
        number = max(self._clock.wall_us() * 1000, _mtime_ns(ask) + 1)
        try:
            ask.touch()
            os.utime(ask, ns=(number, number))
        except OSError:
            return 0
        return _mtime_ns(ask)

    def _ages(self) -> dict[int, float]:
        now_ns = self._clock.wall_us() * 1000
        found = {}
        for path in self._run.glob("worker-*.alive"):
            number = path.name.removeprefix("worker-").removesuffix(".alive")
            beat_ns = _mtime_ns(path)
            if number.isdigit() and beat_ns:
                found[int(number)] = max(0.0, (now_ns - beat_ns) / 1e9)
        return found


def forget(run: Path) -> None:
    """A run begins: what workers of an earlier one left behind says nothing."""
    for path in (*run.glob("worker-*.alive"), *run.glob("hosts-*.json")):
        with contextlib.suppress(OSError):
            path.unlink()


def _mtime_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _read(path: Path) -> Answer | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(ANSWER_BYTES_MAX), type=Answer)
    except (OSError, msgspec.MsgspecError):
        return None
