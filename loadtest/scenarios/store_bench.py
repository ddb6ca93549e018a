"""What the embedded store costs: CPU per page over 16 shard files, and how long a resume waits for a million rows.

    python loadtest/scenarios/store_bench.py [--pages 16000] [--rows 1000000] [--out FILE]

The file that ADR 0005 quotes is loadtest/evidence/sqlite_store.json. One page is: its share of a claim, one
document.fetched, the completion with its outcome and host row, one accepted parse output, its links as a message, and
50 links at admission of which one is new. CPU is that of the whole process, commits and fsyncs on the runner's thread
included; `busy` is the share of the event loop that other work takes meanwhile, which is not counted.
"""

import argparse
import asyncio
import contextlib
import gc
import hashlib
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from limpet.bus.sqlite import SqliteConsumer, SqliteLog, SqliteProducer
from limpet.clock import SystemClock
from limpet.model.events import DOCUMENT_FETCHED, LINKS_DISCOVERED
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime import SystemRandom, ThreadRunner
from limpet.runtime.sqlitefile import SqliteFile, _Write
from limpet.schemas.sqlite import shard_schema
from limpet.seen.sqlite import SqliteSeen
from limpet.segments.port import Location
from limpet.urlstore import Candidate, Claim, Completion, HostRow, ParseOutput
from limpet.urlstore.sqlite import SqliteUrlStore

LINKS = 50
SEEDED = 50_000  # number of the first host whose URLs are fetched
CLAIM = 20
MESSAGE_PAGES = 10
BURN_SECONDS = 0.002
RESUME_SHARDS = 32
MARKERS = ("<!-- measured: begin -->\n", "<!-- measured: end -->\n")
TITLES = {
    "as_built": "as built",
    "ops_on_runner": "operations on the runner's thread too",
    "savepoint_each": "a savepoint around every operation",
    "page_8k": "pages of 8 KiB",
    "wal_16m": "WAL checkpointed at 16 MB, not 4 MB",
    "secure_delete": "deleted content zeroed (`secure_delete`)",
}
VARIANTS = tuple(TITLES)
EVENT = b"e" * 420  # a document.fetched as it is encoded
LINK_BYTES = 70


def fingerprint(text: str) -> bytes:
    """Stands in for the crawl's own: 16 bytes, evenly spread."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def candidate(shard: int, host: int, number: int) -> Candidate:
    """A URL with the length of a real one."""
    name = f"www.host-{shard:02d}-{host:05d}.example"
    url = f"https://{name}/section/{number % 97:02d}/article-{number:08d}.html"
    return Candidate(
        fp=fingerprint(url),
        key=url,
        url=url,
        host=name,
        authority=f"https://{name}",
        depth=2,
        hops="LL",
        kind="navigation",
    )


class OpsOnRunner(SqliteFile):
    """The other way to run a group: operations and commit on the runner's thread."""

    def _run(self, group: list[_Write]) -> dict[str, int]:
        self._group = group
        return {}

    def _commit_blocking(self) -> None:
        self._later = super()._run(self._group)
        super()._commit_blocking()

    def _succeed(self, totals: dict[str, int], group: list[_Write]) -> None:
        totals.update(self._later)
        super()._succeed(totals, group)


class SavepointEach(SqliteFile):
    """A savepoint around every operation instead of running a group again when one fails."""

    def _run(self, group: list[_Write]) -> dict[str, int]:
        self._begin()
        for write in group:
            self._run_alone(write)
        return self._store_counters()


def open_file(path: Path, variant: str, **how: Any) -> SqliteFile:
    """A shard's file, the way `variant` does it."""
    if variant == "page_8k" and not path.exists():
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA page_size = 8192")
            connection.execute("VACUUM")
    kind = {"ops_on_runner": OpsOnRunner, "savepoint_each": SavepointEach}.get(variant, SqliteFile)
    file = kind(path, schema=shard_schema(), **how)
    if variant == "wal_16m":
        file._connection.execute("PRAGMA wal_autocheckpoint = 4000").fetchall()  # noqa: SLF001 - only measured here
    if variant == "secure_delete":
        file._connection.execute("PRAGMA secure_delete = ON").fetchall()  # noqa: SLF001 - only measured here
    return file


class Options(NamedTuple):
    """One measurement."""

    shards: int
    pages: int
    flows: int
    interval: float
    rows_before: int
    variant: str = "as_built"
    busy: float = 0.0


class Shard:
    """One shard with everything a worker keeps for it."""

    def __init__(
        self, folder: Path, number: int, runner: ThreadRunner, interval: float, variant: str = "as_built"
    ) -> None:
        self.number = number
        self.clock = clock = SystemClock()
        path = folder / f"{number:02d}.sqlite"
        self.file = open_file(path, variant, runner=runner, clock=clock, commit_interval_seconds=interval)
        self.store = SqliteUrlStore(self.file, number, SystemRandom())
        self.log = SqliteLog(self.file, number, clock, own=True)
        self.producer = SqliteProducer(self.file, self.log, clock, retention_us=1_000_000)
        self.seen = SqliteSeen(folder / f"{number:02d}.seen", runner)
        logs = {number: self.log}
        self.fetched = SqliteConsumer(self.file, DOCUMENT_FETCHED, number, logs, clock)
        self.links = SqliteConsumer(self.file, LINKS_DISCOVERED, number, logs, clock)
        self.pages = 0
        self.parsed = 0
        self.admitted = 0
        self.new = 1_000_000
        self.known: list[bytes] = []

    async def seed(self, hosts: int, urls: int) -> None:
        """Rows to claim."""
        for host in range(hosts):
            batch = [candidate(self.number, SEEDED + host, number) for number in range(urls)]
            await self.store.admit(batch, self.clock.wall_us())
            self.known += [one.fp for one in batch]
        await self.seen.mark(self.known)

    async def close(self) -> None:
        """Everything of the shard."""
        await self.seen.close()
        await self.file.close()


async def fetch_pages(shard: Shard, flow: int, flows: int, pages: int) -> None:
    """Claim, publish, complete."""
    clock, host = shard.clock, flow
    while shard.pages < pages:
        now_us = clock.wall_us()
        authority = candidate(shard.number, SEEDED + host, 0).authority
        claims = await shard.store.claim(
            authority, limit=CLAIM, now_us=now_us, lease_us=now_us + 600_000_000, holder="0123456789abcdef"
        )
        host += flows
        for claim in claims:
            await shard.producer.publish(DOCUMENT_FETCHED, [(shard.number, claim.fp + EVENT)])
            await shard.store.complete(completion(claim, clock.wall_us()), host_row(claim, clock.wall_us()))
            shard.pages += 1
        if not claims:
            return


def completion(claim: Claim, now_us: int) -> Completion:
    """A page that was fetched."""
    outcome = Outcome(
        fp=claim.fp,
        fetched_us=now_us,
        url=claim.url,
        status=200,
        location=Location("LIMPET-20260102030405678-00001-0123456789abcdef.warc.gz", 123_456_789, 25_000),
        wire_bytes=32_000,
        payload_sha256="0" * 64,
        payload_sha1="A" * 32,
        mime="text/html",
        content_encoding="gzip",
        duration_us=150_000,
        remote_ip="192.0.2.17",
        robots_digest="0" * 64,
        gap_us=1_000_000,
        etag='"0123456789abcdef"',
        last_modified="Thu, 01 Jan 2026 00:00:00 GMT",
        decoded_digest="0" * 32,
    )
    return Completion(claim=claim, state=State.FETCHED, now_us=now_us, outcome=outcome)


def host_row(claim: Claim, now_us: int) -> HostRow:
    """What politeness remembers after each answer."""
    return HostRow(host=claim.host, wait_us=now_us + 1_000_000, wait_reason="gap", response_us=150_000)


async def parse_pages(shard: Shard, pages: int) -> None:
    """Receive, publish links, accept, commit."""
    while shard.parsed < pages:
        messages = await shard.fetched.receive(64)
        if not messages:
            await shard.fetched.wait(0.2)
            continue
        sizes = [len(messages[i : i + MESSAGE_PAGES]) for i in range(0, len(messages), MESSAGE_PAGES)]
        links = [(shard.number, size.to_bytes(1, "big") + b"l" * (LINKS * LINK_BYTES * size)) for size in sizes]
        positions = await shard.producer.publish(LINKS_DISCOVERED, links)
        where = tuple((p.partition, p.source, p.offset) for p in positions)
        outputs = [
            ParseOutput(
                fp=m.payload[:16], fetched_us=m.position.offset, parser_version=1, links=LINKS, positions=where[:1]
            )
            for m in messages
        ]
        await shard.store.accept_outputs(outputs)
        await shard.fetched.commit([message.position for message in messages])
        shard.parsed += len(messages)


async def admit_links(shard: Shard, pages: int) -> None:
    """Receive, ask the seen set, admit what is new, mark, commit."""
    while shard.admitted < pages:
        messages = await shard.links.receive(64)
        if not messages:
            await shard.links.wait(0.2)
            continue
        for count in (message.payload[0] for message in messages):
            shard.admitted += count
            fps, fresh = [], []
            for page in range(count):
                at = (shard.new * 131 + page) % max(1, len(shard.known) - LINKS)
                fps += shard.known[at : at + LINKS - 1]
                shard.new += 1
                fresh.append(candidate(shard.number, shard.new % 200, shard.new))
            present = await shard.seen.present(fps + [one.fp for one in fresh])
            assert all(present[: len(fps)])
            assert not any(present[len(fps) :])
            await shard.store.admit(fresh, shard.clock.wall_us())
            await shard.seen.mark([one.fp for one in fresh])
        await shard.links.commit([message.position for message in messages])


async def trim(shard: Shard, pages: int) -> None:
    """Retention, once a second."""
    while shard.admitted < pages:
        await shard.clock.sleep(1)
        offsets = {
            DOCUMENT_FETCHED: {shard.number: shard.fetched.uncommitted()[shard.number]},
            LINKS_DISCOVERED: {shard.number: shard.links.uncommitted()[shard.number]},
        }
        await shard.producer.trim(shard.clock.wall_us(), offsets)


def size_of(folder: Path) -> int:
    """Bytes of all shard files."""
    return sum(path.stat().st_size for path in folder.glob("*.sqlite"))


async def burn(fraction: float, until: "asyncio.Future[Any]") -> float:
    """Keep the event loop busy with other work, as parsing does; the CPU seconds it took."""
    spent = 0.0
    while not until.done():
        begin = time.thread_time()
        while time.thread_time() - begin < BURN_SECONDS:
            pass
        spent += time.thread_time() - begin
        await asyncio.sleep(BURN_SECONDS * (1 - fraction) / fraction)  # noqa: TID251 - a load generator
    return spent


async def run_pages(folder: Path, options: Options) -> dict[str, Any]:
    """CPU and wall time of `pages` pages, in files that hold `rows_before` rows before."""
    await fill(folder, options.rows_before, options.shards, 50)
    runner = ThreadRunner("store")
    built = [Shard(folder, number, runner, options.interval, options.variant) for number in range(options.shards)]
    each, flows = options.pages // options.shards, options.flows
    await asyncio.gather(*(shard.seed(hosts=each // CLAIM + flows, urls=CLAIM) for shard in built))
    before = size_of(folder)
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    jobs: list[Awaitable[None]] = [fetch_pages(shard, flow, flows, each) for shard in built for flow in range(flows)]
    for step in (parse_pages, admit_links, trim):
        jobs += [step(shard, each) for shard in built]
    work = asyncio.gather(*jobs)
    burnt = await burn(options.busy, work) if options.busy else 0.0
    await work
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu - burnt
    done = sum(shard.pages for shard in built)
    for shard in built:
        await shard.close()
    runner.close()
    size = size_of(folder) - before
    return {
        **options._asdict(),
        "pages": done,
        "cpu_ms_a_page": round(cpu / done * 1000, 3),
        "pages_a_second": round(done / wall),
        "file_bytes_a_page": round(size / done),
    }


def batches(rows: int, shards: int, urls: int) -> Iterator[tuple[int, list[Candidate]]]:
    """`rows` candidates over `shards` shards, `urls` on each host."""
    for shard in range(shards):
        for host in range(rows // shards // urls):
            yield shard, [candidate(shard, host, number) for number in range(urls)]


async def fill(folder: Path, rows: int, shards: int, urls: int) -> None:
    """A crawl that was stopped with `rows` rows."""
    runner = ThreadRunner("store")
    built = {number: Shard(folder, number, runner, 0.0) for number in range(shards)}
    for shard, batch in batches(rows, shards, urls):
        await built[shard].store.admit(batch, 1)
    for one in built.values():
        await one.close()
    runner.close()


async def resume(folder: Path, shards: int) -> dict[str, Any]:
    """Open every shard, ask for queues and counters."""
    runner = ThreadRunner("store")
    wall = time.perf_counter()
    built = [Shard(folder, number, runner, 0.05) for number in range(shards)]
    queues = sum([len(await shard.store.queues()) for shard in built])
    rows = sum([(await shard.store.counters())["state.due"] for shard in built])
    wall = time.perf_counter() - wall
    for shard in built:
        await shard.close()
    runner.close()
    return {"rows": rows, "queues": queues, "seconds": round(wall, 3)}


def in_folder(base: Path | None, work: Callable[[Path], Coroutine[Any, Any, dict[str, Any]]]) -> dict[str, Any]:
    """`work` in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=base) as name:
        return asyncio.run(work(Path(name)))


def medians(rounds: int, base: Path | None, runs: Sequence[Options]) -> list[dict[str, Any]]:
    """Of each kind of run the one with the median CPU. Kinds take turns, so that all meet the same neighbours."""
    found: list[list[dict[str, Any]]] = [[] for _ in runs]
    for _ in range(rounds):
        for kept, options in zip(found, runs, strict=True):
            kept.append(in_folder(base, partial(run_pages, options=options)))
    return [sorted(kept, key=lambda run: run["cpu_ms_a_page"])[len(kept) // 2] for kept in found]


def plan(pages: int) -> list[Options]:
    """What the decision rests on: load, size and a busy loop as built, then every other way of doing it."""
    base = Options(shards=16, pages=pages, flows=10, interval=0.05, rows_before=0)
    loads = [base, base._replace(flows=3), base._replace(rows_before=500_000)]
    others = [base._replace(variant=name) for name in VARIANTS if name != "as_built"]
    crowded = [base._replace(variant=name, busy=busy) for busy in (0.8, 0.95) for name in VARIANTS[:2]]
    return loads + others + crowded


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=16_000)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the resume, 0 = leave it out")
    parser.add_argument("--rounds", type=int, default=3, help="the one with the median CPU is told")
    parser.add_argument("--only-as-built", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the files go (default: the system's temporary folder)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--adr", type=Path, help="page whose figures are replaced")
    parser.add_argument("--again", type=Path, help="measure nothing, take the figures of this file")
    return parser.parse_args()


def adr_table(evidence: Mapping[str, Any]) -> str:
    """The measured part of the ADR, from the evidence."""
    lines = ["| Way | busy loop | CPU ms a page | pages/s |", "|---|---|---|---|"]
    for run in evidence["page"]:
        way = TITLES[run["variant"]]
        if run["variant"] == "as_built":
            way += f", {run['shards'] * run['flows']} pages in flight"
            way += f", {run['rows_before']:,} rows before" if run["rows_before"] else ""
        lines.append(f"| {way} | {run['busy']:.0%} | {run['cpu_ms_a_page']:.2f} | {run['pages_a_second']:,} |")
    lines += ["", "| Rows | queues | seconds to open 32 files, list queues, read counters |", "|---|---|---|"]
    lines += [f"| {one['rows']:,} | {one['queues']:,} | {one['seconds']:.2f} |" for one in evidence["resume"]]
    note = (
        f"{evidence['links_a_page']} links a page, one of them new. Python {evidence['python']}, SQLite "
        f"{evidence['sqlite']}, {evidence['cpus']} cores, with other work on the machine: pages/s are no limit."
    )
    return "\n".join([*lines, "", note]) + "\n"


def write_adr(path: Path, evidence: Mapping[str, Any]) -> None:
    """Replace what stands between the markers."""
    before, _, rest = path.read_text("utf-8").partition(MARKERS[0])
    after = rest.partition(MARKERS[1])[2]
    path.write_text(before + MARKERS[0] + adr_table(evidence) + MARKERS[1] + after, "utf-8")


def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """Everything, in one go."""
    runs = plan(asked.pages) if asked.pages else []
    if asked.only_as_built:
        runs = [options for options in runs if options.variant == "as_built"]
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "cpus": os.cpu_count(),
        "links_a_page": LINKS,
        "page": medians(asked.rounds, asked.folder, runs),
        "resume": [],
    }
    for urls in (50, 5) if asked.rows else ():

        async def both(folder: Path, urls: int = urls) -> dict[str, Any]:
            await fill(folder, asked.rows, RESUME_SHARDS, urls)
            return await resume(folder, RESUME_SHARDS)

        found["resume"].append({"urls_a_host": urls} | in_folder(asked.folder, both))
    return found


def main() -> None:
    """Measure, print, write."""
    asked = parsed()
    found = json.loads(asked.again.read_text("utf-8")) if asked.again else measured(asked)
    text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text)
    if asked.out:
        asked.out.write_text(text, "utf-8")
    if asked.adr:
        write_adr(asked.adr, found)


if __name__ == "__main__":
    main()
