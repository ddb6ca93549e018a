"""Everything that was fetched, robots.txt included, and everything that left the queue without a request, by time.

Each shard keeps its completions in the order in which they were made, which is nearly the order of fetch times but not
quite: a capture may be adopted much later, and clocks are set. So only keys (time, place) are sorted, in runs that are
spilled to a file when they are long, and merged; records are read one by one as they are wanted. Memory is bounded
whatever the crawl's size, and no read lasts long enough to keep a shard's owner from folding its log.
"""

import heapq
import tempfile
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from typing import IO, Final, NamedTuple, Self

import msgspec

from limpet.embedded.views import ShardViews
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime.sqlitetx import Reader, Row
from limpet.urlstore.sqlite import codes

KEYS_A_RUN_MAX: Final = 200_000
KEYS_A_READ: Final = 10_000
VIAS_KEPT_MAX: Final = 20_000
CHAIN_MAX: Final = 100
TRIES_MAX: Final = 100
CODING_ODDITIES: Final = frozenset(
    {"decoded_limit", "coding_incomplete", "coding_error", "coding_absent", "unknown_coding"}
)
"""Flags of parse outputs that tell why a body may not have been decoded to its end."""

_SHARD_BITS: Final = 8
_KIND_BITS: Final = 2
_KEYS: Final = ("log_outcome_keys", "log_ended_keys", "log_robots_keys")
"""Queries by kind, in the order of the fields of `Mark`."""
_BLOCK_KEYS: Final = 4_096

Key = tuple[int, int]
"""(time in microseconds, place): the place is a sequence number, a kind and a shard in one integer."""


class Mark(NamedTuple):
    """How far one shard has been read."""

    outcome: int = 0
    ended: int = 0
    robots: int = 0


Marks = dict[int, Mark]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log. `outcome` None: the URL was never asked for, `state` and `reason` say why."""

    at_us: int
    url: str
    hops: str
    via: str  # URL of the page it was found on, "" for a seed; of a robots.txt, what waited for it or redirected
    source: str  # the seed it was reached from
    outcome: Outcome | None = None
    state: State | None = None
    reason: str = ""
    tries: int = 1  # this one counted, since the URL was last settled; `TRIES_MAX` stands for more, too
    oddities: tuple[str, ...] = ()  # of the body's coding, as far as it was parsed when the log was read


class CaptureLog:
    """The log of a crawl folder, through views that may be read while the crawl runs."""

    def __init__(self, views: ShardViews, shards: int, *, keys_a_run_max: int = KEYS_A_RUN_MAX) -> None:
        self._views = views
        self._shards = range(shards)
        self._keys_a_run_max = keys_a_run_max
        self._origins = _Origins(views, shards)

    def now(self) -> Marks:
        """Marks behind everything that there is."""
        return {shard: self._views.read_one(shard, _latest) for shard in self._shards}

    def between(self, after: Marks, until: Marks) -> Iterator[Entry]:
        """Entries behind `after` and up to `until`, by time; equal times in the order of their places."""
        with _Runs(self._keys_a_run_max) as runs:
            for shard in self._shards:
                for key in self._keys(shard, after.get(shard, Mark()), until.get(shard, Mark())):
                    runs.add(key)
            for at_us, place in runs.merged():
                entry = self._entry(at_us, place)
                if entry is not None:
                    yield entry

    def _keys(self, shard: int, after: Mark, until: Mark) -> Iterator[Key]:
        for kind, query in enumerate(_KEYS):
            seq = after[kind]
            while seq < until[kind]:
                params = (seq, until[kind], KEYS_A_READ)
                found = self._views.read_one(shard, lambda reader: reader.all(query, params))  # noqa: B023 - at once
                if not found:
                    break
                yield from ((at_us, (number << _KIND_BITS | kind) << _SHARD_BITS | shard) for number, at_us in found)
                seq = found[-1][0]

    def _entry(self, at_us: int, place: int) -> Entry | None:
        """None for a request for a robots.txt that was let go of meanwhile: nothing else is ever deleted."""
        shard, rest = place & (1 << _SHARD_BITS) - 1, place >> _SHARD_BITS
        number, kind = rest >> _KIND_BITS, rest & (1 << _KIND_BITS) - 1
        make = (self._fetched, self._ended, self._robots)[kind]
        return make(shard, number, at_us)

    def _fetched(self, shard: int, number: int, at_us: int) -> Entry:
        data, _, hops, via, seed = self._row(shard, "log_outcome", number)
        outcome = codes.outcome(data)
        tries, oddities = self._views.read_one(shard, lambda reader: _beside(reader, number, outcome))
        found_on, source = self._found(shard, via, seed=seed)
        return Entry(
            at_us=at_us,
            url=outcome.url,
            hops=hops,
            via=found_on,
            source=source or outcome.url,
            outcome=outcome,
            tries=tries,
            oddities=oddities,
        )

    def _ended(self, shard: int, number: int, at_us: int) -> Entry:
        code, reason, url, _, hops, via, seed = self._row(shard, "log_ended", number)
        found_on, source = self._found(shard, via, seed=seed)
        state = codes.STATES[code]
        return Entry(at_us=at_us, url=url, hops=hops, via=found_on, source=source or url, state=state, reason=reason)

    def _robots(self, shard: int, number: int, at_us: int) -> Entry | None:
        row = self._views.read_one(shard, lambda reader: reader.one("log_robots", (number,)))
        if row is None:
            return None
        fetch = codes.robots_fetch(row[0])
        _, source = self._found(shard, fetch.cause)
        url = fetch.outcome.url
        return Entry(at_us=at_us, url=url, hops=fetch.hops, via=fetch.via, source=source or url, outcome=fetch.outcome)

    def _row(self, shard: int, query: str, number: int) -> Row:
        row = self._views.read_one(shard, lambda reader: reader.one(query, (number,)))
        assert row is not None  # nothing is ever deleted there
        return row

    def _found(self, shard: int, via: bytes, *, seed: bool = False) -> tuple[str, str]:
        """Where it was found, and the seed it was reached from; both "" for a seed."""
        return self._origins.of(shard, via) if via and not seed else ("", "")


def _beside(reader: Reader, number: int, outcome: Outcome) -> tuple[int, tuple[str, ...]]:
    """How often the URL was tried by then, and what was odd about the coding of what came."""
    before = [codes.STATES[state] for (state,) in reader.all("log_states_before", (number, TRIES_MAX - 1))]
    tries = 1 + next((count for count, state in enumerate(before) if state is not State.DUE), len(before))
    output = reader.one("log_output", (outcome.fp, outcome.fetched_us)) if outcome.status else None
    flags = codes.output(output[0]).flags if output is not None else ()
    return tries, tuple(flag for flag in flags if flag in CODING_ODDITIES)


def _latest(reader: Reader) -> Mark:
    row = reader.one("log_marks")
    return Mark(*(number or 0 for number in row)) if row is not None else Mark()


class _Origins:
    """Where pages were found, and from which seed: the latest are remembered."""

    def __init__(self, views: ShardViews, shards: int) -> None:
        self._views = views
        self._shards = shards
        self._known: OrderedDict[bytes, tuple[str, str]] = OrderedDict()

    def of(self, shard: int, fp: bytes) -> tuple[str, str]:
        """(URL of `fp`, the seed it was reached from); most pages are found on one of the same shard."""
        chain: list[tuple[bytes, str]] = []
        source = ""
        while fp and len(chain) < CHAIN_MAX:
            known = self._known.get(fp)
            if known is not None:
                self._known.move_to_end(fp)
                chain.append((fp, known[0]))
                source = known[1]
                break
            url, via, seed = self._look(shard, fp)
            chain.append((fp, url))
            source = url
            if seed:
                break
            fp = via
        for place, url in chain:
            self._remember(place, (url, source))
        return (chain[0][1], source) if chain else ("", "")

    def _look(self, shard: int, fp: bytes) -> tuple[str, bytes, bool]:
        for number in (shard, *(other for other in range(self._shards) if other != shard)):
            row = self._views.read_one(number, lambda reader: reader.one("log_via", (fp,)))
            if row is not None:
                return row[0], row[1], bool(row[2])
        return "", b"", True

    def _remember(self, fp: bytes, found: tuple[str, str]) -> None:
        self._known[fp] = found
        while len(self._known) > VIAS_KEPT_MAX:
            self._known.popitem(last=False)


class _Runs:
    """Keys sorted in runs; what is not the last run lies in a file."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._keys: list[Key] = []
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, key: Key) -> None:
        """One key more."""
        self._keys.append(key)
        if len(self._keys) >= self._keys_max:
            self._spill()

    def merged(self) -> Iterator[Key]:
        """All keys in order."""
        self._keys.sort()
        if not self._files:
            return iter(self._keys)
        return heapq.merge(iter(self._keys), *(_read(file) for file in self._files))

    def _spill(self) -> None:
        self._keys.sort()
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the runs; it has no name to be left behind
        array("q", [number for key in self._keys for number in key]).tofile(file)
        file.seek(0)
        self._files.append(file)
        self._keys = []


def _read(file: IO[bytes]) -> Iterator[Key]:
    while data := file.read(_BLOCK_KEYS * 16):
        numbers = array("q")
        numbers.frombytes(data)
        yield from zip(numbers[::2], numbers[1::2], strict=True)
