"""`verify --links`: stored bodies parsed again, and every link that the rules admit looked up among the rows.

Parser and rules are given from outside: the roles know nothing of each other, and only what composes them can.
"""

import hashlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from limpet.model.events import LINKS_DISCOVERED, DocumentFetched
from limpet.model.identity import bucket_of, shard_of
from limpet.model.outcome import Outcome
from limpet.reconciler.archive_walk import Archive, Segment
from limpet.reconciler.crawl_folder import CrawlFolder
from limpet.reconciler.kinds import VerifyKind as Kind
from limpet.reconciler.report import Collector
from limpet.reconciler.snapshot import Snapshot
from limpet.reconciler.verify_rows import LogState, decode_outcome
from limpet.robots import RobotsState
from limpet.segments import Location
from limpet.urlstore.types import ParseOutput

SAMPLE_MAX: Final = 2_000
BATCH: Final = 500
HOST_CAP_REJECT_FACTOR: Final = 10
MEMBER_BYTES_MAX: Final = 64_000_000
"""More than the longest sitemap that is read, packed as badly as can be."""
"""Beyond this many times a host's cap its links are counted and get no row: admission's rule, written down again."""

_ROBOTS: Final = msgspec.msgpack.Decoder(RobotsState)
_OUTPUT: Final = msgspec.msgpack.Decoder(ParseOutput)


class WantedLink(msgspec.Struct, frozen=True):
    """A link that must have a row: canonical URL, host, fingerprint."""

    url: str
    host: str
    fp: bytes


class AdmissibleLinks(Protocol):
    """Parser and rules of admission in one: from a stored body to the links that must have rows."""

    def __call__(self, member: bytes, page: DocumentFetched, /) -> Sequence[WantedLink]:
        """Links of the response record `member` that the rules admitted whenever they were judged.

        The cap of a host's URLs is left to the caller. Raises ValueError when the body cannot be parsed.
        """
        ...

    def sitemaps(self, authority: str, robots: bytes, fetched_us: int, /) -> Sequence[WantedLink]:
        """The same for the sitemaps that a robots.txt of that time names."""
        ...


class Page(msgspec.Struct, frozen=True):
    """A stored body that was parsed."""

    outcome: Outcome
    depth: int
    hops: str
    seed: bool
    positions: tuple[tuple[int, int, int], ...]


class LinkCheck:
    """Parses up to `SAMPLE_MAX` stored bodies again, the same ones each time: which follows from their keys."""

    def __init__(
        self,
        folder: CrawlFolder,
        archive: Archive,
        shards: Mapping[int, Snapshot],
        logs: Mapping[int, LogState],
        admissible: AdmissibleLinks,
        out: Collector,
    ) -> None:
        self._facts = folder.facts
        settings = folder.load_settings()
        cap = settings.rules.host_urls_max if settings is not None else 0
        self._host_urls_max = cap * HOST_CAP_REJECT_FACTOR
        self._archive = archive
        self._segments: dict[str, Segment] = {}
        self._shards = shards
        self._logs = logs
        self._admissible = admissible
        self._out = out

    def run(self) -> None:
        """Check the sample."""
        self._segments = {segment.name: segment for segment in self._archive.segments()}
        for page in sample(self._pages(), SAMPLE_MAX):
            self._page(page)
        for number, shard in self._shards.items():
            self._robots(number, shard)

    def _robots(self, number: int, shard: Snapshot) -> None:
        """Sitemaps that the present robots.txt of each authority names, once every message that may have been theirs
        is read.
        """
        known = [(name, _ROBOTS.decode(robots)) for name, robots in shard.rows("robots")]
        written = [(part, end) for topic, part, _, end in shard.rows("log_parts") if topic == LINKS_DISCOVERED]
        if any(self._next(part, number) < end for part, end in written):
            self._out.checked["robots_waiting"] += len(known)
            return
        for authority, state in known:
            copy = state.copy
            if copy is None or copy.status != "rules":
                continue
            for link in self._admissible.sitemaps(authority, copy.body, copy.fetched_us):
                self._out.checked["sitemaps"] += 1
                if self._is_lost(link):
                    self._out.find(Kind.LOST_LINK, link.url, f"a sitemap that {authority}/robots.txt names")

    def _next(self, part: int, source: int) -> int:
        """The first offset that admission has not committed."""
        reader = self._logs.get(part)
        return reader.consumed.get((LINKS_DISCOVERED, part, source), 1) if reader is not None else 0

    def _pages(self) -> Iterator[Page]:
        for shard in self._shards.values():
            after = 0
            while rows := list(shard.rows("parsed_pages", (after, BATCH))):
                for seq, data, depth, hops, seed, output in rows:
                    if seq > after:  # two versions of the parser may have parsed one body
                        after = seq
                        positions = _OUTPUT.decode(output).positions
                        yield Page(decode_outcome(data), depth, hops, bool(seed), positions)

    def _page(self, page: Page) -> None:
        outcome = page.outcome
        if outcome.location is None or not self._were_judged(page):
            self._out.checked["pages_waiting"] += 1
            return
        member = self._member(outcome.location)
        try:
            wanted = self._admissible(member, _event(page, outcome.location, self._facts.crawl))
        except ValueError as error:
            self._out.note(Kind.LINKS_UNCHECKED, outcome.url, str(error))
            return
        self._out.checked["pages_parsed"] += 1
        for link in wanted:
            self._out.checked["links"] += 1
            if self._is_lost(link):
                self._out.find(Kind.LOST_LINK, link.url, f"linked from {outcome.url}, stored {outcome.fetched_us}")

    def _were_judged(self, page: Page) -> bool:
        """Whether admission has committed every message with links of this page."""
        return all(self._next(part, source) > offset for part, source, offset in page.positions)

    def _member(self, location: Location) -> bytes:
        """The bytes of a record from the first copy that has them; b"" if none does, which parses as damaged.

        Of a long one its beginning, which holds all that is ever parsed.
        """
        size_bytes = min(location.length, MEMBER_BYTES_MAX)
        segment = self._segments.get(location.segment)
        for replica in segment.replicas if segment is not None else ():
            assert segment is not None
            try:
                data = self._archive.reader(segment, replica)(location.offset, size_bytes)
            except OSError:
                continue
            if len(data) == size_bytes:
                return data
        return b""

    def _is_lost(self, link: WantedLink) -> bool:
        shard = self._shards.get(shard_of(bucket_of(link.host, self._facts.buckets), self._facts.shards))
        if shard is None or shard.one("row_exists", (link.fp,)) is not None:
            return False
        return not self._host_urls_max or (shard.value("host_urls", (link.host,)) or 0) < self._host_urls_max


def sample(pages: Iterator[Page], size: int) -> list[Page]:
    """`size` of `pages`, or all of them if there are no more: those whose keys hash lowest."""
    keyed = ((_lot(page.outcome), number, page) for number, page in enumerate(pages))
    return [page for _, _, page in heapq.nsmallest(size, keyed)]


def _lot(outcome: Outcome) -> bytes:
    key = outcome.fp + outcome.fetched_us.to_bytes(8, "big", signed=True)
    return hashlib.blake2b(key, digest_size=8, person=b"verify-links").digest()


def _event(page: Page, location: Location, crawl: str) -> DocumentFetched:
    outcome = page.outcome
    return DocumentFetched(
        crawl=crawl,
        fp=outcome.fp,
        url=outcome.url,
        fetched_us=outcome.fetched_us,
        status=outcome.status,
        location=location,
        payload_sha256=outcome.payload_sha256,
        depth=page.depth,
        hops=page.hops,
        seed=page.seed,
    )
