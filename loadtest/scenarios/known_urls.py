"""A crawl that knows many URLs already, written in bulk through the URL store's own adapter: what a resume opens.

The URLs are those of the `bench` web, in the states that a crawl has when it is under way. There are no segments: the
records that the outcomes name do not exist, so that such a folder is good for measuring a resume and for nothing else.
"""

import asyncio
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from limpet.clock import SystemClock
from limpet.config import Facts, Settings
from limpet.embedded.folder import Folder
from limpet.model.identity import (
    BUCKETS,
    IDENTITY_RULES_VERSION,
    SHARDS,
    Fingerprinter,
    bucket_of,
    identity_key,
    shard_of,
    suffix_list_digest,
)
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.model.urls import split
from limpet.parser.page import PARSER_VERSION
from limpet.robots import HttpAnswer, RobotsState, Settled, advance, next_step
from limpet.runtime import InlineRunner, SystemRandom, new_incarnation
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.seen.sqlite import SqliteSeen
from limpet.segments import Location
from limpet.urlstore import AuthorityRow, Candidate, Claim, Completion, ParseOutput
from limpet.urlstore.sqlite import SqliteUrlStore

MIX: Final[dict[State, int]] = {
    State.FETCHED: 400,
    State.GONE: 25,
    State.DENIED: 15,
    State.FAILED: 10,
    State.PARKED: 5,
    State.DUE: 545,
}
"""How many URLs of a thousand are in which state."""
LEASE_US: Final = 600_000_000
POSITIONS: Final = 8
_BATCH: Final = 2_000
_CACHE_BYTES: Final = 64_000_000


def fate(number: int, of: int) -> State:
    """The state of the `number`-th of `of` URLs of a host, in the order in which they were met."""
    share, reached = number * 1000 // of, 0
    for state, count in MIX.items():
        reached += count
        if share < reached:
            return state
    return State.DUE


def build(path: Path, seeds: Sequence[str], urls: int, owned: str, robots: bytes) -> None:
    """Make a crawl in `path` that knows about `urls` URLs: as many of each host of `seeds`. Uses every core."""
    per_host = max(1, urls // len(seeds))
    random, now_us = SystemRandom(), SystemClock().wall_us()
    facts = Facts(
        crawl=new_incarnation(random),
        shards=SHARDS,
        buckets=BUCKETS,
        hash_seed=random.token(16),
        suffix_list_digest=suffix_list_digest(),
        identity_version=IDENTITY_RULES_VERSION,
        created_us=now_us,
    )
    folder = Folder.create(path, facts)
    folder.store_settings(Settings(owned=(owned,)))
    by_shard: dict[int, list[str]] = {}
    for seed in seeds:
        by_shard.setdefault(shard_of(bucket_of(split(seed).host, BUCKETS), SHARDS), []).append(seed)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = [pool.submit(_build_shard, path, number, hosts, per_host, robots) for number, hosts in by_shard.items()]
        for job in jobs:
            job.result()


def _build_shard(path: Path, number: int, seeds: Sequence[str], per_host: int, robots: bytes) -> None:
    asyncio.run(_Shard(Folder.open(path), number, robots).build(seeds, per_host))


class _Shard:
    """One shard of such a crawl, filled host by host through the verbs of the port."""

    def __init__(self, folder: Folder, number: int, robots: bytes) -> None:
        self._facts = folder.facts
        self._clock = SystemClock()
        self._runner = InlineRunner()
        self._file = SqliteFile(
            folder.shard_file(number),
            schema=shard_schema(),
            runner=self._runner,
            clock=self._clock,
            synchronous="OFF",  # whoever loses power here builds it again
            commit_interval_seconds=0.0,
            cache_bytes=_CACHE_BYTES,
        )
        self._store = SqliteUrlStore(self._file, number, SystemRandom())
        self._seen = SqliteSeen(folder.seen_file(number), self._runner)
        self._fingerprinter = Fingerprinter(folder.facts.hash_seed)
        settled = next_step(0, HttpAnswer(200, body=robots))
        assert isinstance(settled, Settled)
        self._settled = settled

    async def build(self, seeds: Sequence[str], per_host: int) -> None:
        """All rows of all hosts; the shard is closed and clean afterwards."""
        for seed in seeds:
            await self._host(seed, per_host)
        await self._seen.close()
        await self._file.close()

    async def _host(self, seed: str, per_host: int) -> None:
        await self._store.add_seed(seed)
        now_us = self._clock.wall_us()
        candidates = [self._candidate(seed, number, per_host, now_us) for number in range(per_host)]
        for begin in range(0, per_host, _BATCH):
            await self._store.admit(candidates[begin : begin + _BATCH], now_us)
        await self._seen.mark([candidate.fp for candidate in candidates])
        await self._store.put_authority(self._authority(seed, now_us))
        await self._finish(candidates[0].authority, per_host, now_us)

    def _candidate(self, seed: str, number: int, per_host: int, now_us: int) -> Candidate:
        """The number-th URL of a host; its due time is its rank, so that claims come in the same order."""
        state = fate(number, per_host)
        url = f"{seed}{_path(number, state)}"
        key, parts = identity_key(url, self._facts.identity), split(url)
        hops = "" if number == 0 else "LLLL"[: 1 + number % 4]
        return Candidate(
            fp=self._fingerprinter.fingerprint(key),
            key=key,
            url=url,
            host=parts.host,
            authority=parts.authority,
            depth=len(hops),
            hops=hops,
            kind="navigation",
            seed=number == 0,
            via=b"" if number == 0 else self._fingerprinter.fingerprint(seed),
            due_us=now_us - per_host + number,
            parked="host_cap" if state is State.PARKED else "",
        )

    def _authority(self, seed: str, now_us: int) -> AuthorityRow:
        parts = split(seed)
        state = advance(RobotsState(), self._settled, now_us, 0.0)
        return AuthorityRow(
            authority=parts.authority,
            host=parts.host,
            robots=msgspec.msgpack.encode(state),
            robots_digest=self._settled.digest,
        )

    async def _finish(self, authority: str, per_host: int, now_us: int) -> None:
        """Claim what is to have a fate, and give it that."""
        fates = [state for state in (fate(number, per_host) for number in range(per_host)) if state is not State.PARKED]
        ended = [state for state in fates if state is not State.DUE]
        for begin in range(0, len(ended), _BATCH):
            states = ended[begin : begin + _BATCH]
            lease_us = now_us + LEASE_US
            claims = await self._store.claim(
                authority, limit=len(states), now_us=now_us, lease_us=lease_us, holder="bench"
            )
            pairs = list(zip(claims, states, strict=True))
            await asyncio.gather(*(self._store.complete(self._completion(*pair, now_us)) for pair in pairs))
            await self._store.accept_outputs(
                [_output(claim, now_us) for claim, state in pairs if state is State.FETCHED]
            )

    def _completion(self, claim: Claim, state: State, now_us: int) -> Completion:
        asked = state is not State.DENIED
        outcome = _outcome(claim, state, now_us, self._settled.digest) if asked else None
        reason = {State.GONE: "http_404", State.DENIED: "/private/", State.FAILED: "refused"}.get(state, "")
        return Completion(claim=claim, state=state, now_us=now_us, reason=reason, failures=1, outcome=outcome)


def _path(number: int, state: State) -> str:
    if number == 0:
        return ""
    folder = {State.DENIED: "private", State.GONE: "missing"}.get(state, "notes")
    return f"{folder}/{number:07d}.html"


def _outcome(claim: Claim, state: State, now_us: int, robots_digest: str) -> Outcome:
    """As long as a real one; what it says of the body is made up."""
    if state is State.FAILED:
        return Outcome(fp=claim.fp, fetched_us=now_us, url=claim.url, failure="refused", robots_digest=robots_digest)
    digest = hashlib.sha256(claim.fp)
    number = int.from_bytes(claim.fp[:4], "big")
    return Outcome(
        fp=claim.fp,
        fetched_us=now_us,
        url=claim.url,
        status=404 if state is State.GONE else 200,
        location=Location("limpet-20261101000000000-00001-benchbenchbench0.warc.gz", number, 26_000),
        wire_bytes=32_000,
        payload_sha256=digest.hexdigest(),
        payload_sha1=digest.hexdigest()[:32].upper(),
        mime="text/html",
        content_encoding="gzip",
        duration_us=5_000,
        remote_ip=claim.host,
        robots_digest=robots_digest,
    )


def _output(claim: Claim, now_us: int) -> ParseOutput:
    positions = tuple((partition, claim.fp[0] % SHARDS, 100_000 + partition) for partition in range(POSITIONS))
    return ParseOutput(fp=claim.fp, fetched_us=now_us, parser_version=PARSER_VERSION, links=50, positions=positions)
