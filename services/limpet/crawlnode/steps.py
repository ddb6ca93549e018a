"""The fetch write order, one function a step, a crash point on both sides of each.

1 claim · 2 license (crawlnode.service) · 3 send, with a host wait persisted at the headers · 4 append · 5 publish ·
6 complete. State is made durable first, then acknowledged: each step returns only when its effect is durable.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from limpet.bus import Producer
from limpet.fetch import Capture, Fetcher, FetchRequest
from limpet.fetch.port import OnHead
from limpet.model.events import DOCUMENT_FETCHED, LINKS_DISCOVERED, DocumentFetched, encode
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.model.verdict import Verdict
from limpet.politeness.orders import CANCELLED_BY, HostOrder
from limpet.runtime import Mortality
from limpet.segments import Appendable, Location, SegmentWriter, Settling
from limpet.urlstore import AuthorityRow, Claim, Completion, HostRow, RobotsFetch, UrlStore

CANCEL_URLS_MAX: Final = 1_000
RECORDED: Final = frozenset({State.FETCHED, State.GONE})
"""What an attempt may settle: its record without an outcome is an orphan."""


class FetchSteps:
    """The durable effects of a crawl node."""

    def __init__(self, segments: SegmentWriter, mortality: Mortality, holder: str, settling: Settling) -> None:
        self._segments = segments
        self._crashpoint = mortality.crashpoint
        self._holder = holder
        self.settling = settling

    async def claim(self, store: UrlStore, authority: str, limit: int, now_us: int, lease_us: int) -> list[Claim]:
        """Step 1: lease due URLs of one authority."""
        self._crashpoint("fetch.claim.before")
        claims = await store.claim(authority, limit=limit, now_us=now_us, lease_us=lease_us, holder=self._holder)
        self._crashpoint("fetch.claim.after")
        return claims

    async def send(self, fetcher: Fetcher, request: FetchRequest, on_head: OnHead) -> Capture:
        """Step 3: nothing of it is durable, and the site has been asked. There is no await before the request."""
        self._crashpoint("fetch.send.before")
        capture = await fetcher.fetch(request, on_head)
        self._crashpoint("fetch.send.after")
        return capture

    async def persist_wait(self, store: UrlStore, host: HostRow) -> None:
        """Step 3, at the headers: a wait that the site asked for outlives us."""
        self._crashpoint("fetch.wait.before")
        await store.put_host(host)
        self._crashpoint("fetch.wait.after")

    async def append(self, members: Sequence[Appendable]) -> list[Location]:
        """Step 4: the capture is replicated, synced and readable."""
        self._crashpoint("fetch.append.before")
        locations = await self._segments.append(members)
        self._crashpoint("fetch.append.after")
        return locations

    async def publish(self, producer: Producer, partition: int, event: DocumentFetched) -> None:
        """Step 5: the fact is on the bus."""
        self._crashpoint("fetch.publish.before")
        await producer.publish(DOCUMENT_FETCHED, [(partition, encode(event))])
        self._crashpoint("fetch.publish.after")

    async def complete(self, store: UrlStore, completion: Completion, host: HostRow | None) -> bool:
        """Step 6: outcome and row, guarded by the token. False: we were late, the record stays."""
        self._crashpoint("fetch.complete.before")
        won = await store.complete(completion, host)
        self._crashpoint("fetch.complete.after")
        return won

    async def adopt(self, store: UrlStore, outcome: Outcome, verdict: Verdict, now_us: int) -> bool:
        """Instead of step 6 where an operator ended the lease: what is in the archive has its outcome.

        False for an attempt that settled nothing, as recovery has it.
        """
        if outcome.location is None or verdict.state not in RECORDED:
            return False
        self._crashpoint("fetch.adopt.before")
        won = await store.adopt(outcome, verdict.state, verdict.reason, now_us)
        self._crashpoint("fetch.adopt.after")
        return won

    async def notify(self, store: UrlStore, claim: Claim, verdict: Verdict, now_us: int) -> None:
        """Before the completion that people should hear of: a death in between tells them twice, never not at all."""
        self._crashpoint("fetch.notify.before")
        await store.notify(verdict.notice, claim.host, verdict.reason, claim.url, now_us)
        self._crashpoint("fetch.notify.after")

    async def cancel(self, store: UrlStore, host: str, now_us: int, order: HostOrder) -> int:
        """An operator blocked a host or parts of it: leases there end, rows leave the queue."""
        self._crashpoint("fetch.cancel.before")
        under = order.taken_out
        count = await _all_of(lambda: store.cancel(host, CANCELLED_BY, now_us, CANCEL_URLS_MAX, under))
        self._crashpoint("fetch.cancel.after")
        return count

    async def cancel_claims(self, store: UrlStore, host: str, now_us: int, order: HostOrder, count: int) -> None:
        """The same for so many URLs whose turn came only now: leases end before anything that waits is looked at."""
        self._crashpoint("fetch.cancel.before")
        await store.cancel(host, CANCELLED_BY, now_us, count, order.taken_out)
        self._crashpoint("fetch.cancel.after")

    async def uncancel(self, store: UrlStore, host: str, now_us: int, order: HostOrder) -> int:
        """A block is gone: what it took out is due again, but for what others still take out."""
        self._crashpoint("fetch.uncancel.before")
        but = order.taken_out
        count = await _all_of(lambda: store.uncancel(host, CANCELLED_BY, now_us, CANCEL_URLS_MAX, but))
        self._crashpoint("fetch.uncancel.after")
        return count

    async def deny(self, store: UrlStore, completion: Completion) -> bool:
        """A URL that robots.txt disallows: no send, no outcome."""
        self._crashpoint("fetch.deny.before")
        won = await store.complete(completion)
        self._crashpoint("fetch.deny.after")
        return won

    async def hand_back(self, store: UrlStore, claims: Sequence[Claim], due_us: int, now_us: int) -> None:
        """Return what was not sent."""
        self._crashpoint("fetch.hand_back.before")
        await store.hand_back(claims, due_us, now_us)
        self._crashpoint("fetch.hand_back.after")

    async def rearm_denied(self, store: UrlStore, authority: str, now_us: int) -> int:
        """Other rules than those that denied URLs: the URLs are due again, before the new rules are known as such."""
        self._crashpoint("fetch.rearm.before")
        count = await store.rearm_denied(authority, now_us)
        self._crashpoint("fetch.rearm.after")
        return count

    async def wait_out(self, store: UrlStore, authority: str, reason: str, now_us: int) -> int:
        """The URLs of an authority that was waited for in vain."""
        self._crashpoint("fetch.wait_out.before")
        count = await store.wait_out(authority, reason, now_us)
        self._crashpoint("fetch.wait_out.after")
        return count

    async def put_robots_fetch(self, store: UrlStore, fetch: RobotsFetch) -> None:
        """The line of a request for a robots.txt, once its record is durable; it counts it among those of the day."""
        self._crashpoint("fetch.line.before")
        await store.put_robots_fetch(fetch)
        self._crashpoint("fetch.line.after")

    async def publish_sitemaps(self, producer: Producer, messages: Sequence[tuple[int, bytes]]) -> None:
        """Sitemaps that a robots.txt names are links on the bus, before its rules are known as such."""
        self._crashpoint("fetch.sitemaps.before")
        await producer.publish(LINKS_DISCOVERED, messages)
        self._crashpoint("fetch.sitemaps.after")

    async def put_robots(self, store: UrlStore, row: AuthorityRow) -> None:
        """The robots verdict of an authority."""
        self._crashpoint("fetch.robots.before")
        await store.put_authority(row)
        self._crashpoint("fetch.robots.after")


async def _all_of(step: Callable[[], Awaitable[int]]) -> int:
    """Repeat a step until it finds nothing more: one huge write would hold up everybody else's."""
    total = 0
    while count := await step():
        total += count
    return total
