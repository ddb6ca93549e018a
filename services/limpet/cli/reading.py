"""Questions about a crawl folder that several verbs ask, answered from read-only views while owners write."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from limpet.cli.crawlview import Unparsed
from limpet.embedded.finder import Finder, seeds
from limpet.embedded.folder import Folder
from limpet.embedded.views import ShardViews
from limpet.model.events import decode_fetched
from limpet.model.lifecycle import State
from limpet.urlstore import UrlRow, counters
from limpet.urlstore.sqlite import codes, reading

BATCH_ROWS: Final = 1_000
ENDED_BADLY: Final = frozenset({State.FAILED, State.GONE, State.DENIED, State.PARKED, State.REVIEW})


def stored_seeds(folder: Folder) -> list[str]:
    """Every seed of the crawl, where seeds redirected to included."""
    with ShardViews(folder) as views:
        return seeds(views)


def waiting_hosts(folder: Folder) -> list[str]:
    """Hosts with something due now or later, or leased."""
    with ShardViews(folder) as views:
        queued = {queue.host for _, view in views for queue in view.queues()}
        leased = {host for found in views.read(reading.leased_hosts) for host in found}
        return sorted(queued | leased)


def rejects_by_rule(views: ShardViews) -> Counter[str]:
    """How many links each rule turned away."""
    counts: Counter[str] = Counter()
    for found in views.read(reading.rejects):
        for reject in found:
            counts[reject.rule] += reject.count
    return counts


def rows(views: ShardViews, states: Iterable[State] | None) -> Iterator[UrlRow]:
    """Rows of the given states, of all states for None, in the order of admission in each shard.

    All rows are read in batches; the rows of one state come as a whole shard's list.
    """
    if states is None:
        for _, view in views:
            for batch in view.rows_in_batches(BATCH_ROWS):
                yield from batch
        return
    for state in states:
        for found in views.read(lambda reader: reading.rows(reader, state)):  # noqa: B023 - called at once
            yield from found


def parked_by_rule(views: ShardViews) -> Counter[str]:
    """How many rows each rule holds back; a shard without any is not searched."""
    counts: Counter[str] = Counter()
    code = codes.CODES[State.PARKED]
    for shard, view in views:
        if view.counters().get(counters.of_state(State.PARKED), 0) > 0:
            counts.update(dict(views.read_one(shard, lambda reader: reader.all("reasons_of_state", (code,)))))
    return counts


def unparsed(views: ShardViews) -> list[Unparsed]:
    """Pages whose parse waits for a person."""
    found = [codes.job(row) for jobs in views.read(lambda reader: reader.all("jobs")) for row in jobs]
    return [Unparsed(decode_fetched(job.event).url, job.reason) for job in found if job.state == "review"]


def requests_on(views: ShardViews, day: int) -> int:
    """Requests of a UTC day (days since 1970), robots.txt and redirects included."""
    return sum(views.read(lambda reader: reading.requests(reader, day)))


def damages(views: ShardViews) -> list[str]:
    """Damage that recovery found in segments and kept: `SEGMENT at byte N`."""
    return [text for found in views.read(reading.damages) for text in found]


class BadSeed(msgspec.Struct, frozen=True):
    """A seed that did not end well."""

    url: str
    state: str
    reason: str


def bad_seeds(folder: Folder, views: ShardViews) -> list[BadSeed]:
    """Seeds that ended in any state but `fetched` and will not be tried again by themselves."""
    finder = Finder(folder, views)
    found = []
    for url in seeds(views):
        row = finder.row(url)
        if row is not None and row.state in ENDED_BADLY:
            found.append(BadSeed(url, row.state.value, row.reason))
    return found
