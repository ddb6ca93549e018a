"""`verify` and `audit` over crawls that the ring itself made: at rest, in the middle, after a death."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from integration.crawl_maker import make_facts
from integration.planting import kinds, noted, run_sql, shard_with
from limpet.clock import Clock
from limpet.config import Settings
from limpet.config.settings import Retries, Work
from limpet.embedded.admissible import FolderLinks
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.embedded.quota import Unlimited
from limpet.embedded.ring import Ring, recover
from limpet.embedded.seeding import admit_seeds
from limpet.fetch import Fetcher
from limpet.model.events import DocumentFetched
from limpet.reconciler.archive_walk import Archive, Walk
from limpet.reconciler.audit import audit
from limpet.reconciler.report import Report
from limpet.reconciler.verify import verify
from limpet.reconciler.verify_links import WantedLink
from limpet.runtime import Immortal, InlineRunner, Killed, Mortality
from limpet.testing.chance import SeededRandom
from limpet.testing.death import ScriptedDeath
from limpet.testing.disks import MemoryDisk
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from limpet.testing.web import FakeAnswer, FakeWeb
from limpet.warc import Member, parse_fields

SEED = "http://alpha.test/"
SETTINGS = Settings(
    retries=Retries(base_seconds=2.0, factor=2.0),
    work=Work(commit_interval_seconds=0.0, reconcile_seconds=5.0, republish_grace_seconds=1.0),
    min_free_bytes=0,
)
CRAWL_SECONDS = 90.0
ROBOTS = b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\n"
HTML = ((b"Content-Type", b"text/html"),)


def small_web(clock: Clock) -> FakeWeb:
    """Two hosts with a redirect, a dead link, a closed folder, a busy page, a cut body and a link to nowhere."""
    web = FakeWeb(clock)
    busy: list[int] = []

    def once_busy(_request: object, now_us: int) -> FakeAnswer:
        busy.append(now_us)
        if len(busy) == 1:
            return FakeAnswer(status=503, headers=((b"Retry-After", b"14"),))
        return FakeAnswer(headers=HTML, body=b"<a href=/one>")

    alpha = b"<a href=/one><a href=/gone><a href=/moved><a href=/private/x><a href=http://beta.test/>"
    web.route("http://alpha.test/robots.txt", FakeAnswer(body=ROBOTS))
    web.route("http://alpha.test/", FakeAnswer(headers=HTML, body=alpha))
    web.route("http://alpha.test/one", FakeAnswer(headers=HTML, body=b"<a href=/busy><a href=/two>", chunked=True))
    web.route("http://alpha.test/two", FakeAnswer(headers=HTML, body=b"x" * 50_000, body_seconds=1.0))
    web.route("http://alpha.test/moved", FakeAnswer(status=301, headers=((b"Location", b"/two"),)))
    web.route("http://alpha.test/busy", once_busy)
    web.route("http://beta.test/", FakeAnswer(headers=HTML, body=b"<a href=http://lost.test/><a href=/deep>"))
    web.route("http://beta.test/deep", FakeAnswer(headers=HTML, body=b"<a href=http://alpha.test/>", ending="reset"))
    return web


class Rehearsed:
    """A crawl of the small web in a folder on disk, life after life."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder.create(path / "crawl", make_facts())
        self.folder.store_settings(SETTINGS)
        self.disk = MemoryDisk()
        self._now = 0.0
        self._lives = 0

    def live(self, mortality: Mortality | None = None, during: Callable[[], None] | None = None) -> bool:
        """Recover, seed, crawl for a while; False if it died. `during` is called once a virtual second."""
        self._lives += 1
        loop = VirtualLoop(self._now)
        clock = SimClock(loop)
        ports = Ports(
            clock=clock,
            random=SeededRandom(self._lives),
            disk=self.disk,
            mortality=mortality or Immortal(),
            make_runner=lambda _name: InlineRunner(),
            make_fetcher=_fetcher,
            synchronous="OFF",
        )
        try:
            return run_virtual(self._life(ports, clock, during), loop)
        finally:
            self._now = loop.time()
            self.disk.kill()  # its locks are free, whatever became of it

    def verify(self, *, links: bool = True) -> Report:
        """Is what is there now sound?"""
        admissible = FolderLinks.of(self.folder) if links else None
        return verify(self.folder, links=links, admissible=admissible, disk=self.disk)

    def audit(self) -> Report:
        """Was it polite until now?"""
        return audit(self.folder, disk=self.disk)

    async def _life(self, ports: Ports, clock: SimClock, during: Callable[[], None] | None) -> bool:
        share = frozenset(range(self.folder.facts.shards))
        if self._lives > 1:
            await recover(self.folder, SETTINGS, share, ports, segments_of=None)
        await admit_seeds(self.folder, SETTINGS, ports, [SEED])
        ring = Ring(folder=self.folder, settings=SETTINGS, share=share, quota=Unlimited(), ports=ports)
        stop = asyncio.Event()
        watcher = asyncio.get_running_loop().create_task(_watch(clock, stop, during))
        try:
            await ring.open()
            await ring.run(stop)
            await watcher
            await ring.close()
        except Killed:
            ring.abandon()
            return False
        finally:
            watcher.cancel()
        return True


async def _watch(clock: SimClock, stop: asyncio.Event, during: Callable[[], None] | None) -> None:
    give_up = clock.monotonic() + CRAWL_SECONDS
    while clock.monotonic() < give_up:
        await clock.sleep(1.0)
        if during is not None:
            during()
    stop.set()


def _fetcher(_settings: Settings, clock: Clock) -> Fetcher:
    return small_web(clock)


@pytest.fixture
def crawl(tmp_path: Path) -> Rehearsed:
    return Rehearsed(tmp_path)


def test_what_the_ring_leaves_is_sound_and_was_polite(crawl: Rehearsed) -> None:
    """A whole crawl, links included, and what was looked at in it."""
    assert crawl.live()
    archive = crawl.verify()
    assert archive.findings == []
    assert archive.checked["rows"] == 10
    assert archive.checked["pages_parsed"] == 7
    assert archive.checked["links"] == 12
    politeness = crawl.audit()
    assert politeness.findings == []
    assert politeness.checked["pages"] == archive.checked["outcomes"] - politeness.checked.get("failures", 0)


def test_metadata_tells_where_a_page_was_found(crawl: Rehearsed) -> None:
    """Each record of a page found on its own shard names the page that linked to it, and the hops from the seed."""
    assert crawl.live()
    archive, found = Archive(crawl.folder.segment_directories, crawl.disk), {}
    for segment in archive.segments():
        size_bytes = segment.replicas[0].size_bytes
        for member in Walk([archive.reader(segment, segment.replicas[0])], size_bytes, lambda _offset: None):
            assert isinstance(member, Member)
            if member.header.type == "metadata":
                fields = parse_fields(member.block_start)
                found[member.header.uri] = (fields.get("via", ""), fields.get("hopsFromSeed", ""))
    assert found[SEED] == ("", "")
    assert found["http://alpha.test/one"] == (SEED, "L")
    assert found["http://alpha.test/two"][0] in {"http://alpha.test/one", "http://alpha.test/moved"}
    assert found["http://beta.test/deep"] == ("http://beta.test/", "LL")


def test_a_link_without_a_row_is_found(crawl: Rehearsed) -> None:
    """A lost URL, in the words of the guarantees: a stored body links to it, the rules admit it, nobody has it."""
    assert crawl.live()
    path = shard_with(crawl.folder, SEED)
    run_sql(path, "DELETE FROM url WHERE url = ?", "http://alpha.test/private/x")
    report = crawl.verify()
    assert "lost_link" in kinds(report)
    lost = [finding for finding in report.findings if finding.kind == "lost_link"]
    assert [finding.subject for finding in lost] == ["http://alpha.test/private/x"]
    assert SEED in lost[0].detail
    assert "lost_link" not in kinds(crawl.verify(links=False))


class NoParser:
    """Can parse nothing."""

    def __call__(self, _member: bytes, _page: DocumentFetched, /) -> Sequence[WantedLink]:
        """See `AdmissibleLinks.__call__`."""
        raise ValueError("no")

    def sitemaps(self, _authority: str, _robots: bytes, _fetched_us: int, /) -> Sequence[WantedLink]:
        """See `AdmissibleLinks.sitemaps`."""
        return ()


def test_a_body_that_cannot_be_parsed_again_is_noted(crawl: Rehearsed) -> None:
    """Its damage is found by the other checks; that its links went unchecked is said as well."""
    assert crawl.live()
    report = verify(crawl.folder, links=True, admissible=NoParser(), disk=crawl.disk)
    assert (report.findings, noted(report) & {"links_unchecked"}) == ([], {"links_unchecked"})
    assert report.checked.get("pages_parsed", 0) == 0


def test_both_hold_at_every_moment_of_a_running_crawl(crawl: Rehearsed) -> None:
    """Once a second: rows before segments, one snapshot a shard, so that nothing is ever half there."""
    reports: list[Report] = []

    def look() -> None:
        reports.append(crawl.verify())
        reports.append(crawl.audit())

    assert crawl.live(during=look)
    assert [finding for report in reports for finding in report.findings] == []
    assert len({report.checked.get("pages", 0) for report in reports}) > 5


@pytest.mark.parametrize(
    ("point", "occurrence"),
    [
        ("fetch.claim.after", 2),
        ("fetch.wait.after", 1),
        ("fetch.append.before", 3),
        ("fetch.append.after", 4),
        ("fetch.publish.after", 3),
        ("fetch.complete.before", 5),
        ("fetch.robots.before", 1),
        ("parse.accept.before", 2),
        ("parse.commit.before", 2),
        ("admit.rows.after", 2),
        ("admit.seen.before", 1),
    ],
)
def test_a_death_leaves_nothing_to_find(crawl: Rehearsed, point: str, occurrence: int) -> None:
    """Right after it there are notes at most, whatever was half done; after the next life not even those."""
    assert not crawl.live(ScriptedDeath(point, occurrence))
    assert [finding for report in (crawl.verify(links=False), crawl.audit()) for finding in report.findings] == []
    assert crawl.live()
    archive = crawl.verify()
    assert [*archive.findings, *crawl.audit().findings] == []
    assert noted(archive) <= {"unmarked", "adoptable", "duplicate_record"}
