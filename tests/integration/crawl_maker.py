"""Crawls made by hand: what was sent when, written through the real adapters, without a network.

`make_crawl` leaves a folder at rest, as an orderly end leaves it: rows, marks, logs read to their end, sealed segments.
Whatever is to be wrong with it is planted afterwards, or in the exchanges themselves.
"""

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from limpet.assembly.politeness import wire_fetcher
from limpet.clock import DurableClock
from limpet.config import Facts, ScopeFacts, Settings
from limpet.embedded.folder import Folder
from limpet.embedded.ports import Ports
from limpet.embedded.shards import Shard, Shards
from limpet.fetch import Capture
from limpet.model.events import DOCUMENT_FETCHED, DocumentFetched, encode
from limpet.model.identity import Fingerprinter, IdentityRules, bucket_of, identity_key, shard_of, suffix_list_digest
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.model.urls import split
from limpet.robots import digest
from limpet.runtime import Immortal, InlineRunner, SystemDisk
from limpet.seen.sqlite import SqliteSeen
from limpet.segments import Location, SegmentWriter
from limpet.segments.local import LocalSegments
from limpet.testing.captures import wire_capture
from limpet.testing.chance import SeededRandom
from limpet.testing.loop import EPOCH_US, SimClock, VirtualLoop, run_virtual
from limpet.urlstore.types import Candidate, Claim, Completion, ParseOutput
from limpet.warc import CaptureMeta, CrawlInfo, Original, capture_members, revisit_members, warcinfo_member

SHARDS = 2
LEASE_US = 10**15
AGENT = b"limpet/0.1.0"


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `at` and `seconds` are its start after the epoch of the crawl, and how long its answer took.

    `digest` None means the copy that the authority's last robots request before it makes; `request` None the request
    that the engine would send. Robots requests are those of `/robots.txt`, unless `robots` says otherwise.
    """

    url: str
    at: float
    wire: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<p>hello</p>"
    seconds: float = 0.1
    digest: str | None = None
    gap: float = 1.0
    request: bytes | None = None
    robots: bool | None = None
    failure: str = ""
    incarnation: str = "one"
    links: int = 0
    orphan: bool = False  # the record is written, and nothing after it
    ip: str = ""  # "" = an address of the host's own
    connect: float = 0.0  # seconds between permit and send
    again: bool = False  # its URL is due again at once
    revisits: str = ""  # URL whose record has the content: a revisit record is written

    @property
    def is_robots(self) -> bool:
        """Whether it was sent for robots.txt."""
        return self.url.endswith("/robots.txt") if self.robots is None else self.robots


def answer(status: int, body: bytes = b"", *fields: bytes) -> bytes:
    """An HTTP answer as it comes over the wire."""
    lines = [b"HTTP/1.1 %d X" % status, b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def robots(at: float, text: bytes = b"User-agent: *\nDisallow: /private\n", host: str = "a.test") -> Sent:
    """A robots.txt that came."""
    return Sent(url=f"http://{host}/robots.txt", at=at, wire=answer(200, text))


def make_facts(**changes: Any) -> Facts:
    """Facts of a small crawl."""
    facts = Facts(
        crawl="made",
        shards=SHARDS,
        hash_seed=b"made-by-hand-secret",
        suffix_list_digest=suffix_list_digest(),
        scope=ScopeFacts(kind="any"),
    )
    return msgspec.structs.replace(facts, **changes)


def make_crawl(
    path: Path, sent: Sequence[Sent], *, settings: Settings | None = None, facts: Facts | None = None
) -> Folder:
    """The folder of a crawl that sent `sent`, in this order."""
    folder = Folder.create(path, facts or make_facts())
    folder.store_settings(settings or Settings())
    os.utime(folder.path / "settings.json", ns=(EPOCH_US * 1000, EPOCH_US * 1000))  # stored as the crawl began
    loop = VirtualLoop()
    run_virtual(_Maker(folder, SimClock(loop)).run(sent), loop)
    return folder


class _Maker:
    def __init__(self, folder: Folder, clock: SimClock) -> None:
        self._folder = folder
        self._clock = DurableClock(clock)
        self._random = SeededRandom(1)
        ports = Ports(
            clock=clock,
            random=self._random,
            disk=SystemDisk(),
            mortality=Immortal(),
            make_runner=lambda _name: InlineRunner(),
            make_fetcher=wire_fetcher,
            synchronous="OFF",
        )
        self._shards = Shards(folder, Settings(), ports, self._clock, InlineRunner())
        self._segments = LocalSegments(
            folder.segment_directories, disk=SystemDisk(), runner=InlineRunner(), clock=clock, min_free_bytes=0
        )
        self._writers: dict[str, SegmentWriter] = {}
        self._seen: dict[int, SqliteSeen] = {}
        self._copies: dict[str, str] = {}
        self._originals: dict[str, Original] = {}

    async def run(self, sent: Sequence[Sent]) -> None:
        await self._shards.open(range(self._folder.facts.shards))
        await self._shards.attach()
        for number in self._shards.owned:
            self._seen[number] = SqliteSeen(self._folder.seen_file(number), InlineRunner())
        for one in sent:
            await self._exchange(one)
        for shard in self._shards.owned.values():
            consumer = self._shards.fetched_consumer(shard.number)
            messages = await consumer.receive(10_000)
            await consumer.commit([message.position for message in messages])
        for writer in self._writers.values():
            await writer.close()
        for seen in self._seen.values():
            await seen.close()
        await self._shards.close()

    async def _exchange(self, one: Sent) -> None:
        capture = _capture(one)
        authority = split(one.url).authority
        if one.is_robots:
            if capture.head is not None and capture.head.status == 200:
                self._copies[authority] = digest(capture.payload)
            await self._append(one, capture_members(capture, CaptureMeta(kind="robots"), "", self._token()).members)
            return
        licence = self._copies.get(authority, "") if one.digest is None else one.digest
        shard, claim = await self._claim(one.url)
        outcome = Outcome(
            fp=claim.fp,
            fetched_us=capture.started_us,
            url=one.url,
            failure=one.failure,
            status=capture.head.status if capture.head is not None else 0,
            duration_us=capture.duration_us,
            robots_digest=licence,
            gap_us=int(one.gap * 1e6),
        )
        if capture.head is not None:
            outcome = await self._archive(one, capture, outcome)
        if not one.orphan:
            await self._finish(shard, claim, outcome, one)

    async def _archive(self, one: Sent, capture: Capture, outcome: Outcome) -> Outcome:
        meta = CaptureMeta(fp=outcome.fp, robots_digest=outcome.robots_digest, gap_us=outcome.gap_us)
        if one.revisits:
            records = revisit_members(capture, meta, self._originals[one.revisits], "", self._token())
        else:
            records = capture_members(capture, meta, "", self._token())
            self._originals[one.url] = Original(
                record_id=records.response_id,
                url=one.url,
                date_us=capture.started_us,
                payload_sha1_b32=records.payload_sha1_b32,
                payload_sha256_hex=records.payload_sha256_hex,
            )
        return msgspec.structs.replace(
            outcome,
            location=await self._append(one, records.members),
            wire_bytes=len(capture.response_bytes),
            payload_sha1=records.payload_sha1_b32,
            payload_sha256=records.payload_sha256_hex,
            truncated=capture.truncated or "",
        )

    async def _append(self, one: Sent, members: Sequence[bytes]) -> Location:
        if one.incarnation not in self._writers:
            self._writers[one.incarnation] = await self._segments.open_writer(one.incarnation, self._warcinfo)
        return (await self._writers[one.incarnation].append(members))[0]

    async def _claim(self, url: str) -> tuple[Shard, Claim]:
        facts, parts = self._folder.facts, split(url)
        shard = self._shards.owned[shard_of(bucket_of(parts.host, facts.buckets), facts.shards)]
        key = identity_key(url, IdentityRules())
        candidate = Candidate(
            fp=Fingerprinter(facts.hash_seed).fingerprint(key),
            key=key,
            url=url,
            host=parts.host,
            authority=parts.authority,
            depth=0,
            hops="",
            kind="navigation",
        )
        now_us = self._clock.wall_us()
        await shard.store.admit([candidate], now_us)
        await self._seen[shard.number].mark([candidate.fp])
        claims = await shard.store.claim(
            parts.authority, limit=1, now_us=now_us, lease_us=now_us + LEASE_US, holder="made"
        )
        return shard, claims[0]

    async def _finish(self, shard: Shard, claim: Claim, outcome: Outcome, one: Sent) -> None:
        state = _state(outcome)
        now_us = self._clock.wall_us()
        if state is State.FETCHED:
            event = DocumentFetched(
                crawl=self._folder.facts.crawl,
                fp=claim.fp,
                url=one.url,
                fetched_us=outcome.fetched_us,
                status=outcome.status,
                location=outcome.location or Location("", 0, 0),
                payload_sha256=outcome.payload_sha256,
                depth=0,
                hops="",
            )
            await shard.producer.publish(DOCUMENT_FETCHED, [(shard.number, encode(event))])
        due_us = now_us + LEASE_US if state is State.DUE else now_us if one.again else 0
        completion = Completion(claim=claim, state=state, now_us=now_us, due_us=due_us, outcome=outcome)
        assert await shard.store.complete(completion)
        if state is State.FETCHED:
            output = ParseOutput(fp=claim.fp, fetched_us=outcome.fetched_us, parser_version=1, links=one.links)
            await shard.store.accept_outputs([output])

    def _warcinfo(self, name: str) -> bytes:
        info = CrawlInfo(software="limpet/0.1.0", user_agent=AGENT.decode(), crawl="made")
        return warcinfo_member(info, filename=name, at_us=self._clock.wall_us(), token=self._random.token(16))

    def _token(self) -> bytes:
        return self._random.token(48)


def _state(outcome: Outcome) -> State:
    if outcome.failure or outcome.status >= 429:
        return State.DUE
    return State.GONE if outcome.status >= 400 else State.FETCHED


def _capture(one: Sent) -> Capture:
    started_us, duration_us = EPOCH_US + round(one.at * 1e6), round(one.seconds * 1e6)
    if one.failure:
        return Capture(url=one.url, started_us=started_us, duration_us=duration_us)
    parts = split(one.url)
    host = parts.authority.partition("://")[2].encode()
    request = b"GET %b HTTP/1.1\r\nHost: %b\r\nUser-Agent: %b\r\n\r\n" % (parts.path_query.encode(), host, AGENT)
    capture = wire_capture(
        one.url,
        one.wire,
        request=one.request or request,
        started_us=started_us,
        duration_us=duration_us,
        remote_ip=one.ip or f"192.0.2.{1 + zlib.crc32(parts.host.encode()) % 250}",
    )
    return msgspec.structs.replace(capture, connect_us=round(one.connect * 1e6))
