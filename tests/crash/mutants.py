"""Limpet, broken on purpose: in each class one step is missing or in the wrong place. None of them raises.

What each must be found out as stands in test_mutants.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from limpet.admission.service import Admission
from limpet.bus import Position, Producer
from limpet.crawlnode.blocks import Blocks
from limpet.crawlnode.exchange import Exchange, Sent, _meta, _outcome
from limpet.crawlnode.health import Health
from limpet.crawlnode.robots import RobotsDesk
from limpet.crawlnode.service import CrawlNode
from limpet.crawlnode.steps import FetchSteps
from limpet.fetch import Capture
from limpet.model.events import DocumentFetched, PageLinks, decode_links
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.model.verdict import Verdict
from limpet.parser.service import Parser
from limpet.politeness import Governor, HostState
from limpet.politeness.orders import HostOrder, Orders
from limpet.politeness.unfinished import UNFINISHED
from limpet.reconciler.recovery import Recovery
from limpet.robots import HttpAnswer, RobotsAnswer
from limpet.runtime.sqlitetx import Tx
from limpet.segments import Appendable, Location
from limpet.testing.disks import DiskWrapper
from limpet.urlstore import AdmitResult, AuthorityRow, Candidate, Completion, HostRow, UrlStore
from limpet.urlstore.sqlite import SqliteUrlStore, work
from limpet.urlstore.sqlite.dueindex import DueIndex

FOREVER_US = 2**62


# -- admission ---------------------------------------------------------------------------------------------------------
class SeenBeforeRow(Admission):
    """Marks first, then writes the rows."""

    async def admit(self, pages: Sequence[PageLinks]) -> list[AdmitResult]:
        """See `Admission.admit`."""
        judged = self._desk.judge(pages, self._clock.wall_us())
        unseen = await self._unseen(judged)
        capped = self._desk.cap(unseen, await self._urls(unseen))
        await self._mark(capped.candidates, [AdmitResult.NEW] * len(capped.candidates))
        results = await self._rows(capped.candidates)
        await self._count([*judged.rejects, *capped.rejects])
        return results


class FirstDepthStands(Admission):
    """Skips whatever is marked, as if a mark knew the depth; a longer way round then decides what is too deep."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**(parts | {"nearest": None}))


class NearerUnsaid(Admission):
    """Moves the row, and leaves it to nobody to publish its links again."""

    async def _bring_nearer(self, candidates: Sequence[Candidate], results: Sequence[AdmitResult]) -> None:
        """See `Admission._bring_nearer`."""


class JobAfterOffset(Admission):
    """Commits the offset before the job is stored that follows from a shorter way."""

    async def _bring_nearer(self, candidates: Sequence[Candidate], results: Sequence[AdmitResult]) -> None:
        """See `Admission._bring_nearer`."""
        self._late = (candidates, results)

    async def _commit(self, positions: Sequence[Position]) -> None:
        """See `Admission._commit`."""
        await super()._commit(positions)
        await super()._bring_nearer(*self._late)


class OffsetBeforeRows(Admission):
    """Commits the offset, then does the work."""

    async def step(self) -> int:
        """See `Admission.step`."""
        messages = await self._consumer.receive(1)
        if not messages:
            return 0
        await self._commit([message.position for message in messages])
        for message in messages:
            await self.admit(decode_links(message.payload).pages)
        return len(messages)


# -- parser ------------------------------------------------------------------------------------------------------------
class OffsetBeforeParse(Parser):
    """Commits the offset, then does the work."""

    async def step(self) -> int:
        """See `Parser.step`."""
        messages = await self._consumer.receive(1)
        if not messages:
            return 0
        await self._commit([message.position for message in messages])
        for message in messages:
            parsing = await self._parse(message)
            await self._emit([parsing.page] if parsing.page is not None else [])
        return len(messages)


class NoAttemptMarks(Parser):
    """Forgets how often a message was begun."""

    def _is_suspect(self, position: Position) -> bool:  # noqa: ARG002 - see `Parser`
        return False


# -- crawl node --------------------------------------------------------------------------------------------------------
class PublishBeforeAppend(FetchSteps):
    """Announces the record where it is going to be, then appends it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.next = Location("", 0, 0)

    async def append(self, members: Sequence[Appendable]) -> list[Location]:
        """See `FetchSteps.append`."""
        locations = await super().append(members)
        self.next = Location(locations[-1].segment, locations[-1].offset + locations[-1].length, 0)
        return locations


class AnnouncingExchange(Exchange):
    """Publishes before it appends; needs the steps of `PublishBeforeAppend`."""

    async def finish(self, sent: Sent, store: UrlStore, producer: Producer) -> Verdict:
        """See `Exchange.finish`."""
        steps = self._steps
        verdict = self._judge(sent)
        if isinstance(steps, PublishBeforeAppend) and steps.next.segment and verdict.state is State.FETCHED:
            members, outcome = self._archivist.members(sent.capture, _meta(sent), _outcome(sent, verdict))
            assert isinstance(members[0], bytes)
            place = msgspec.structs.replace(steps.next, length=len(members[0]))
            event = self._event(sent.claim, msgspec.structs.replace(outcome, location=place))
            await steps.publish(producer, store.shard, event)
        return await super().finish(sent, store, producer)


class CompleteBeforePublish(FetchSteps):
    """Keeps the fact back until the completion is durable."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: dict[bytes, tuple[Producer, int, DocumentFetched]] = {}

    async def publish(self, producer: Producer, partition: int, event: DocumentFetched) -> None:
        """See `FetchSteps.publish`."""
        self._kept[event.fp] = (producer, partition, event)

    async def complete(self, store: UrlStore, completion: Completion, host: HostRow | None) -> bool:
        """See `FetchSteps.complete`."""
        won = await super().complete(store, completion, host)
        if kept := self._kept.pop(completion.claim.fp, None):
            await super().publish(*kept)
        return won


class WaitsInMemory(FetchSteps):
    """Retry-After is obeyed, and written nowhere."""

    async def persist_wait(self, store: UrlStore, host: HostRow) -> None:
        """See `FetchSteps.persist_wait`."""

    async def complete(self, store: UrlStore, completion: Completion, host: HostRow | None) -> bool:  # noqa: ARG002
        """See `FetchSteps.complete`."""
        return await super().complete(store, completion, None)


class HopsUnheld(FetchSteps):
    """Follows the redirects of robots.txt to other hosts without a trace on those."""

    async def persist_wait(self, store: UrlStore, host: HostRow) -> None:
        """See `FetchSteps.persist_wait`."""
        if host.wait_reason != UNFINISHED:
            await super().persist_wait(store, host)


class ForgetsTheAnswer(FetchSteps):
    """What came after an operator ended the lease stays in the archive without an outcome."""

    async def adopt(self, store: UrlStore, outcome: Outcome, verdict: Verdict, now_us: int) -> bool:  # noqa: ARG002
        """See `FetchSteps.adopt`."""
        return True


class RearmsAfterwards(FetchSteps):
    """Stores the new rules first, then re-arms what the old ones denied."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._to_rearm: list[tuple[UrlStore, str, int]] = []

    async def rearm_denied(self, store: UrlStore, authority: str, now_us: int) -> int:
        """See `FetchSteps.rearm_denied`."""
        self._to_rearm.append((store, authority, now_us))
        return 0

    async def put_robots(self, store: UrlStore, row: AuthorityRow) -> None:
        """See `FetchSteps.put_robots`."""
        await super().put_robots(store, row)
        while self._to_rearm:
            await super().rearm_denied(*self._to_rearm.pop())


class SitemapsAfterwards(FetchSteps):
    """Stores the new rules first, then makes links of the sitemaps that they name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._to_publish: list[tuple[Producer, Sequence[tuple[int, bytes]]]] = []

    async def publish_sitemaps(self, producer: Producer, messages: Sequence[tuple[int, bytes]]) -> None:
        """See `FetchSteps.publish_sitemaps`."""
        self._to_publish.append((producer, messages))

    async def put_robots(self, store: UrlStore, row: AuthorityRow) -> None:
        """See `FetchSteps.put_robots`."""
        await super().put_robots(store, row)
        while self._to_publish:
            await super().publish_sitemaps(*self._to_publish.pop())


class AllowOn5xx(RobotsDesk):
    """Takes a server's failure for "there is no robots.txt"."""

    def _answer(self, capture: Capture) -> RobotsAnswer:
        answer = super()._answer(capture)
        if isinstance(answer, HttpAnswer) and answer.status >= 500:
            return HttpAnswer(404)
        return answer


class NeverPutsBack(CrawlNode):
    """What a block took out is gone for good."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._blocks = _BlocksForGood(parts["steps"], parts["clock"], self.offer, parts["holdings"].shard_of)


class _BlocksForGood(Blocks):
    async def uncancel(self, store: UrlStore, orders: Orders) -> None:
        """See `Blocks.uncancel`."""


class BlocksNobody(CrawlNode):
    """A block stops the sends, and nothing shows it in the rows."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._blocks = _BlocksNothing(parts["steps"], parts["clock"], self.offer, parts["holdings"].shard_of)


class _BlocksNothing(Blocks):
    async def cancel(self, store: UrlStore, orders: Orders) -> None:
        """See `Blocks.cancel`."""


class LeaseUnchecked(CrawlNode):
    """Sends whatever it holds, however little is left of its lease."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._longest_us = -FOREVER_US


class BlindHealth(Health):
    """Finds everything well."""

    def unhealthy(self) -> str | None:
        """See `Health.unhealthy`."""
        return None


class AsksTheWebAgain(Exchange):
    """When a step of ours fails, hands the URL back, to be fetched again."""

    async def finish(self, sent: Sent, store: UrlStore, producer: Producer) -> Verdict:
        """See `Exchange.finish`."""
        try:
            await producer.healthy()
        except Exception:  # noqa: BLE001 - any trouble of ours
            now_us = self._clock.wall_us()
            verdict = self._judge(sent)
            await self._steps.hand_back(store, [sent.claim], now_us, now_us)
            return msgspec.structs.replace(verdict, due_us=now_us)
        return await super().finish(sent, store, producer)


# -- politeness --------------------------------------------------------------------------------------------------------
class TokensPileUp(Governor):
    """A host that was not asked for a while may be asked at once, as if the time we were dead were a gap."""

    def meet(self, row: HostRow, since: float | None = None, *, unsure: bool = False) -> HostState:
        """See `Governor.meet`."""
        known = row.host in self._hosts
        state = super().meet(row, since, unsure=unsure)
        if not known:
            state.free_at = self._started
        return state


class DeafGovernor(Governor):
    """Orders are read, and not obeyed."""

    def obey(self, orders: Orders) -> set[str]:
        """See `Governor.obey`."""
        return super().obey({host: HostOrder(gap_seconds=order.gap_seconds) for host, order in orders.items()})


class NoHold(Recovery):
    """Does not ask whether a host may still be answering."""

    async def _hold_hosts(self) -> None:
        pass


class ShortHold(Recovery):
    """Holds hosts by our own gap, not by the one the site asked for."""

    def _crawl_delay(self, authority: AuthorityRow) -> float | None:  # noqa: ARG002 - see `Recovery`
        return None


# -- recovery ----------------------------------------------------------------------------------------------------------
class AdoptsRobotsOnly(Recovery):
    """Leaves intact records without an outcome where they are, and fetches their URLs again."""

    async def _is_orphan(self, span: Any) -> bool:
        return "limpet-kind: robots" in span.metadata.block_start.decode() and await super()._is_orphan(span)


class AdoptsNoRobots(Recovery):
    """Leaves a record of a robots.txt without its line."""

    async def _is_orphan(self, span: Any) -> bool:
        return "limpet-kind: robots" not in span.metadata.block_start.decode() and await super()._is_orphan(span)


class AdoptsEverything(Recovery):
    """Adopts every capture it meets, whether it has an outcome or not; needs `UnguardedStore`."""

    async def _is_orphan(self, span: Any) -> bool:
        return "limpet-kind: robots" not in span.metadata.block_start.decode()


class CutsNothing(Recovery):
    """Seals a dead writer's segment with its torn tail."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._segments = _Uncut(self._segments)


class _Uncut:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def recover(self, name: str, good_bytes: int) -> bool:  # noqa: ARG002 - see `SegmentStore.recover`
        return True


class AdoptsBeforePublishing(Recovery):
    """Makes the outcome of an orphan durable, then publishes it."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self._kept = {shard: _KeptBack(producer) for shard, producer in self._producers.items()}
        self._producers = self._kept

    async def _adopt(self, name: str, span: Any) -> int:
        adopted = await super()._adopt(name, span)
        for producer in self._kept.values():
            await producer.let_go()
        return adopted


class _KeptBack:
    """A producer that publishes when it is told to."""

    def __init__(self, inner: Producer) -> None:
        self._inner = inner
        self._waiting: list[tuple[str, Sequence[tuple[int, bytes]]]] = []

    async def publish(self, topic: str, messages: Sequence[tuple[int, bytes]]) -> list[Position]:
        self._waiting.append((topic, messages))
        return []

    async def let_go(self) -> None:
        while self._waiting:
            await self._inner.publish(*self._waiting.pop())

    async def healthy(self) -> None:
        await self._inner.healthy()

    def backlog(self) -> int:
        return self._inner.backlog()


# -- the authority and the disk ----------------------------------------------------------------------------------------
class UnguardedStore(SqliteUrlStore):
    """Completes for whoever asks, and adopts what it already has: no token, no lease, no key decides."""

    async def complete(self, completion: Completion, host: HostRow | None = None) -> bool:
        """See `UrlStore.complete`."""
        return await self._file.write(lambda tx: _complete_anyway(tx, self._index, completion, host))

    async def adopt(self, outcome: Outcome, state: State, reason: str, now_us: int) -> bool:
        """See `UrlStore.adopt`."""
        if await self.has_outcome(outcome.fp, outcome.fetched_us):
            outcome = msgspec.structs.replace(outcome, fetched_us=outcome.fetched_us + 1)
        return await super().adopt(outcome, state, reason, now_us)


def _complete_anyway(tx: Tx, index: DueIndex, completion: Completion, host: HostRow | None) -> bool:
    claim = completion.claim
    url_id, authority_id = tx.all("rearm_get", (claim.fp,))[0][:2]
    tx.run("lease_delete", (claim.fp,))
    tx.run("lease_insert", (claim.fp, url_id, authority_id, claim.token, FOREVER_US, False, "nobody"))
    return work.complete(tx, index, completion, host)


class NoSync(DiskWrapper):
    """Says that everything is synced."""

    def perform(self, operation: Any, path: Any, effect: Any) -> Any:
        """See `DiskWrapper.perform`."""
        return None if operation == "sync" else super().perform(operation, path, effect)
