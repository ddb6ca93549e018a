"""What is kept of each request for a robots.txt: the record, then its line in the shard of the host that was asked."""

import msgspec

from limpet.clock import Clock
from limpet.crawlnode.archive import Archivist, observed
from limpet.crawlnode.errands import Errand
from limpet.crawlnode.steps import FetchSteps
from limpet.fetch import Capture
from limpet.runtime.insist import insist
from limpet.urlstore import RobotsFetch, UrlStore
from limpet.warc import CaptureMeta


class RobotsArchive:
    """Every answer is archived; every attempt has a line, answered or not."""

    def __init__(self, archivist: Archivist, steps: FetchSteps, clock: Clock) -> None:
        self._archivist = archivist
        self._steps = steps
        self._clock = clock

    async def keep(self, errand: Errand, capture: Capture, store: UrlStore) -> None:
        """Both are durable afterwards. After a death in between recovery writes the line: see `Recovery`."""
        outcome = observed(capture, b"", errand.url)
        if capture.failure is None:
            members, outcome = self._archivist.members(capture, _meta(errand, capture), outcome)
            locations = await insist(lambda: self._steps.append(members), self._clock)
            outcome = msgspec.structs.replace(outcome, location=locations[0])
        fetch = RobotsFetch(outcome=outcome, hops=errand.hops, via=errand.via, cause=errand.cause)
        await insist(lambda: self._steps.put_robots_fetch(store, fetch), self._clock)
        if outcome.location is not None:
            self._steps.settling.settled(outcome.location)


def _meta(errand: Errand, capture: Capture) -> CaptureMeta:
    return CaptureMeta(
        via=errand.via,
        hops=errand.hops,
        kind="robots",
        cause=errand.cause,
        insecure_tls=bool(capture.insecure_tls),
    )
