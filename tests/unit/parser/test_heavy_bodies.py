"""Long bodies and sitemaps are parsed beside the event loop, and their links leave it and enter it in portions."""

import asyncio
import gzip
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import pytest

from limpet.admission.candidates import Desk, Judged
from limpet.admission.service import Admission
from limpet.bus import Consumer, Message, Position, Producer
from limpet.clock import SystemClock
from limpet.config import Settings
from limpet.model.events import DocumentFetched, LinksDiscovered, PageLinks, decode_links, encode
from limpet.parser.decode import DecodeLimits
from limpet.parser.page import LIGHT_BODY_BYTES_MAX, HeavyBodyError, parse_member
from limpet.parser.service import PORTION_BYTES_MIN, Marks, Parser
from limpet.runtime import Immortal
from limpet.seen import SeenShard
from limpet.segments import Location, SegmentStore
from limpet.urlstore import AdmitResult, Reject, UrlStore
from unit.parser.pages import ALL, fetched

T = TypeVar("T")
ENTRIES = 12_000
SITEMAP = "".join(f"<url><loc>http://site.test/{'x' * 300}/{number}</loc></url>" for number in range(ENTRIES))
LONG = "<a href=/x>" + "y" * LIGHT_BODY_BYTES_MAX


@pytest.mark.parametrize(
    ("body", "content_type", "hops"),
    [
        (LONG.encode(), "text/html", "L"),
        (b"<urlset></urlset>", "application/xml", "M"),
        (b"http://site.test/x", "text/plain", "LMR"),
        (gzip.compress(b"<urlset></urlset>", mtime=0), "application/gzip", "L"),
    ],
)
def test_what_may_take_long_is_refused_by_the_light_way(body: bytes, content_type: str, hops: str) -> None:
    """At once, whatever it would have given; the other way reads it."""
    member, event = fetched(body, content_type=content_type, hops=hops)
    with pytest.raises(HeavyBodyError):
        parse_member(member, event, links_max=10, limits=DecodeLimits(), wants=ALL, light=True)
    parse_member(member, event, links_max=10, limits=DecodeLimits(), wants=ALL)


def test_an_ordinary_page_is_parsed_where_it_is() -> None:
    """A thread would cost more than it saves."""
    member, event = fetched(b"<a href=/x>")
    heavy = parse_member(member, event, links_max=10, limits=DecodeLimits(), wants=ALL)
    assert parse_member(member, event, links_max=10, limits=DecodeLimits(), wants=ALL, light=True) == heavy


class CountingRunner:
    """Runs at once, and counts."""

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, work: Callable[[], T]) -> T:
        """See `Runner.run`."""
        self.runs += 1
        return work()

    def close(self) -> None:
        """See `Runner.close`."""


class Ring:
    """The parser's ports, with one message to give."""

    shard = 0

    def __init__(self, member: bytes, event: DocumentFetched) -> None:
        self.published: list[list[bytes]] = []
        self.outputs: list[object] = []
        self._member = member
        self._messages = [Message(Position(0, 0, 0), encode(event))]

    async def receive(self, _limit: int) -> list[Message]:
        """See `Consumer.receive`."""
        messages, self._messages = self._messages, []
        return messages

    async def commit(self, _positions: Sequence[Position]) -> None:
        """See `Consumer.commit`."""

    async def read(self, _location: Location) -> bytes:
        """See `SegmentStore.read`."""
        return self._member

    async def publish(self, _topic: str, messages: Sequence[tuple[int, bytes]]) -> list[Position]:
        """See `Producer.publish`."""
        self.published.append([payload for _, payload in messages])
        return [Position(partition, 0, 0) for partition, _ in messages]

    async def output(self, *_: object) -> None:
        """See `UrlStore.output`."""

    async def accept_outputs(self, outputs: Sequence[object], _job: object) -> list[bool]:
        """See `UrlStore.accept_outputs`."""
        self.outputs += outputs
        return [True] * len(outputs)

    async def count_rejects(self, _rejects: Sequence[Reject]) -> None:
        """See `UrlStore.count_rejects`."""


def parser_of(ring: Ring, runner: CountingRunner, *, depth_counts: bool = False) -> Parser:
    """A parser between these ports."""
    return Parser(
        depth_counts=depth_counts,
        store=cast("UrlStore", ring),
        consumer=cast("Consumer", ring),
        producer=cast("Producer", ring),
        segments=cast("SegmentStore", ring),
        partition_of=lambda _url: 0,
        marks=cast("Marks", ring),
        suspect={},
        alone=asyncio.Lock(),
        clock=SystemClock(),
        mortality=Immortal(),
        settings=Settings(),
        crawl="c",
        wants=ALL,
        runner=runner,
    )


def test_a_sitemap_leaves_the_loop_and_its_links_come_in_portions() -> None:
    """Parse and messages are made by the runner; no publish holds much more than a portion, and no link is missing."""
    runner = CountingRunner()
    ring = Ring(*fetched(f"<urlset>{SITEMAP}</urlset>".encode(), content_type="application/xml", hops="M"))
    assert asyncio.run(parser_of(ring, runner).step()) == 1
    assert runner.runs == 2
    assert len(ring.published) > 1
    assert all(sum(map(len, payloads[:-1])) < PORTION_BYTES_MIN for payloads in ring.published)
    found = [
        link.url for part in ring.published for one in part for page in decode_links(one).pages for link in page.links
    ]
    assert len(set(found)) == len(found) == ENTRIES
    assert len(ring.outputs) == 1


def test_a_page_does_not_leave_the_loop() -> None:
    """Neither to be parsed nor to be published."""
    runner = CountingRunner()
    ring = Ring(*fetched(b"<a href=/x>"))
    assert asyncio.run(parser_of(ring, runner).step()) == 1
    assert (runner.runs, len(ring.published)) == (0, 1)


class Portions(Admission):
    """Notes how many links come at a time, and when the offset is committed."""

    seen_links: list[int]

    async def admit(self, pages: Sequence[PageLinks]) -> list[AdmitResult]:
        """See `Admission.admit`."""
        self.seen_links.append(sum(len(page.links) for page in pages))
        return []


class Batch:
    """A consumer with one batch."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        self.committed: list[int] = []
        self._messages = [Message(Position(0, 0, number), payload) for number, payload in enumerate(payloads)]

    async def receive(self, _limit: int) -> list[Message]:
        """See `Consumer.receive`."""
        return self._messages

    async def commit(self, positions: Sequence[Position]) -> None:
        """See `Consumer.commit`."""
        self.committed += [position.offset for position in positions]


def test_admission_takes_a_batch_in_portions_and_commits_it_whole() -> None:
    """Full messages one by one, small ones together; the offset comes last."""
    runner = CountingRunner()
    ring = Ring(*fetched(f"<urlset>{SITEMAP}</urlset>".encode(), content_type="application/xml", hops="M"))
    asyncio.run(parser_of(ring, runner).step())
    full = [payload for payloads in ring.published for payload in payloads][:3]
    small = [encode(LinksDiscovered(crawl="c", pages=(_few(payload),))) for payload in full]
    batch = Batch([*full, *small])
    admission = Portions(
        store=cast("UrlStore", None),
        seen=cast("SeenShard", None),
        consumer=cast("Consumer", batch),
        desk=cast("Desk", Judged([], [])),
        offer=lambda *_: None,
        clock=SystemClock(),
        mortality=Immortal(),
        settings=Settings(),
        crawl="c",
    )
    admission.seen_links = []
    assert asyncio.run(admission.step()) == 6
    assert admission.seen_links == [500, 500, 500, 15]
    assert batch.committed == list(range(6))


def _few(payload: bytes) -> PageLinks:
    page = decode_links(payload).pages[0]
    return PageLinks(fp=page.fp, fetched_us=1, url=page.url, depth=page.depth, hops=page.hops, links=page.links[:5])
