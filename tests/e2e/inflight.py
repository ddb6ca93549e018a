"""What is in flight at an instant: by the site's own log, and by the files of a dead owner."""

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep

from e2e.processes import wait_until
from origin.events import Closed, Event, Opened, Requested, decode
from origin.visits import Visit, visits_of

ACCEPT_SECONDS = 0.02
_UNREAD = """
SELECT offset FROM log
WHERE topic = 'document.fetched'
  AND offset >= coalesce((SELECT max(next) FROM consumed WHERE topic = 'document.fetched'), 1)
"""
_OUTCOMES = "SELECT u.url, o.fetched_us FROM outcome AS o JOIN url AS u ON u.id = o.url"


class WitnessLog:
    """The log of one run of the origin, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._open: dict[int, str] = {}
        self.events: list[Event] = []
        self.requested_ns = 0  # when the latest request came

    def read(self) -> None:
        """Take in what was written since; a line that is not whole yet is left for the next time."""
        with self._path.open("rb") as log:
            log.seek(self._position)
            data = log.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        for event in map(decode, whole.decode().splitlines()):
            self._take(event)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        match event:
            case Opened():
                self._open[event.connection] = event.local
            case Closed():
                self._open.pop(event.connection, None)
            case Requested():
                self.requested_ns = event.t_ns
            case _:
                pass

    def settle(self, hosts: Iterable[str]) -> None:
        """Until the origin has noticed the end of every connection of `hosts`: then it has seen all they sent."""
        wanted = frozenset(hosts)

        def quiet() -> bool:
            self.read()
            return not wanted.intersection(self._open.values())

        for _ in range(2):  # the second look is for a connection that was still waiting to be accepted
            wait_until(quiet, "the origin to notice that its clients are gone", 10.0)
            sleep(ACCEPT_SECONDS)

    def visits(self) -> list[Visit]:
        """All requests so far in order of arrival."""
        self.read()
        return visits_of(self.events)


@dataclass(frozen=True, slots=True)
class Look:
    """What the files of some shards hold: hosts, tokens of leases, positions of unread `document.fetched`,
    authorities whose robots.txt is known, and the fetch times of every URL with an outcome.
    """

    hosts: set[str] = field(default_factory=set)
    tokens: set[bytes] = field(default_factory=set)
    unread: set[tuple[int, int]] = field(default_factory=set)
    licensed: set[str] = field(default_factory=set)
    fetched_us: dict[str, list[int]] = field(default_factory=dict)


def look(folder: Path, shards: Iterable[int], scratch: Path) -> Look:
    """Read copies of the shards' files, whose owner must be dead: so looking changes nothing."""
    seen = Look()
    for shard in shards:
        with closing(_copy(folder / "shards" / f"{shard:02d}.sqlite", scratch)) as file:
            seen.hosts.update(name for (name,) in file.execute("SELECT name FROM host"))
            seen.tokens.update(token for (token,) in file.execute("SELECT token FROM lease"))
            seen.unread.update((shard, offset) for (offset,) in file.execute(_UNREAD))
            seen.licensed.update(name for (name,) in file.execute("SELECT name FROM authority WHERE robots <> x''"))
            for url, us in file.execute(_OUTCOMES):
                seen.fetched_us.setdefault(url, []).append(us)
    return seen


def _copy(path: Path, scratch: Path) -> sqlite3.Connection:
    """Of the file and its log; the index of the log is made anew, as after every crash."""
    copy = scratch / "copy.sqlite"
    for suffix in ("", "-wal", "-shm"):
        target, source = Path(f"{copy}{suffix}"), Path(f"{path}{suffix}")
        target.unlink(missing_ok=True)
        if suffix != "-shm" and source.exists():
            shutil.copyfile(source, target)
    return sqlite3.connect(copy)
