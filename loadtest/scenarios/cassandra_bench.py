"""What the URL store on Cassandra costs: statements a page, conditional writes a page, claims a second, tombstones.

    make servers-up WHICH=cassandra
    python loadtest/scenarios/cassandra_bench.py [--pages 6000] [--out loadtest/evidence/cassandra_store.json]

The file that ADR 0018 quotes is loadtest/evidence/cassandra_store.json. One page is: its share of a claim of up to 20,
the completion with its outcome and host row, one accepted parse output, and four links at admission of which one is
new. Parts of the due index are ten seconds long, so that cursors pass many of them. Afterwards every read that a claim
makes of the due index is made once more with tracing on: the servers count rows and tombstone cells themselves.
"""

import argparse
import asyncio
import json
import platform
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "infra" / "local"))

from limpet.clock import SystemClock
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.runtime import SystemRandom
from limpet.segments.port import Location
from limpet.urlstore import Candidate, Claim, Completion, HostRow, ParseOutput
from limpet.urlstore.cassandra import CassandraSettings, CassandraUrlStore, Session, migrate
from limpet.urlstore.cassandra.driver import cluster
from servers import Folder, service

SHARD = 7
HOSTS = 60
CLAIM = 20
LINKS = 4
LEASE_US = 600_000_000
SCANNED = re.compile(r"Read (\d+) live rows and (\d+) tombstone cells")


class Web:
    """URLs that nobody has seen, by host."""

    def __init__(self) -> None:
        self._numbers: Counter[int] = Counter()

    def fresh(self, host: int) -> Candidate:
        """One more of a host."""
        number = self._numbers[host]
        self._numbers[host] += 1
        authority = f"https://host{host}.example"
        url = f"{authority}/page/{number}"
        fp = (host << 64 | number) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128
        return Candidate(
            fp=fp.to_bytes(16, "big"),
            key=url,
            url=url,
            host=f"host{host}.example",
            authority=authority,
            depth=1,
            hops="L",
            kind="navigation",
        )


def fetched(claim: Claim, now_us: int) -> Completion:
    """A page that was fetched and archived."""
    outcome = Outcome(
        fp=claim.fp,
        fetched_us=now_us,
        url=claim.url,
        status=200,
        location=Location("segment.warc.gz", now_us % 10**9, 25_000),
        wire_bytes=25_000,
        payload_sha256="0" * 64,
        mime="text/html",
    )
    return Completion(claim=claim, state=State.FETCHED, now_us=now_us, outcome=outcome)


class Run:
    """One load on one shard."""

    def __init__(self, store: CassandraUrlStore, pages: int) -> None:
        self.store, self.pages = store, pages
        self.done = 0
        self.batches = 0
        self.seconds = 0.0
        self._web = Web()
        self._clock = SystemClock()

    async def seed(self) -> None:
        """A backlog of each host."""
        for host in range(HOSTS):
            await self.store.admit([self._web.fresh(host) for _ in range(CLAIM)], self._clock.wall_us())

    async def run(self) -> None:
        """Every host by itself, until all pages are done."""
        began = self._clock.monotonic()
        await asyncio.gather(self._poll(), *(self._serve(host) for host in range(HOSTS)))
        self.seconds = self._clock.monotonic() - began

    async def _poll(self) -> None:
        while self.done < self.pages:
            await self.store.woken()
            await self.store.flush()
            await self._clock.sleep(1.0)

    async def _serve(self, host: int) -> None:
        authority = f"https://host{host}.example"
        while self.done < self.pages:
            now_us = self._clock.wall_us()
            claims = await self.store.claim(
                authority, limit=CLAIM, now_us=now_us, lease_us=now_us + LEASE_US, holder="bench"
            )
            self.batches += 1
            for claim in claims:
                await self._page(host, claim)
            if await self.store.next_due(authority) is None:
                await self._clock.sleep(0.5)

    async def _page(self, host: int, claim: Claim) -> None:
        row = HostRow(host=claim.host, response_us=1000)
        completion = fetched(claim, self._clock.wall_us())
        if not await self.store.complete(completion, row):
            raise SystemExit(f"{claim.url} was completed by somebody else")
        assert completion.outcome is not None
        output = ParseOutput(
            fp=claim.fp, fetched_us=completion.outcome.fetched_us, parser_version=1, links=LINKS, positions=((1, 0, 1),)
        )
        await self.store.accept_outputs([output])
        known = Candidate(
            fp=claim.fp,
            key=claim.url,
            url=claim.url,
            host=claim.host,
            authority=claim.authority,
            depth=claim.depth + 1,
            hops=claim.hops + "L",
            kind="navigation",
        )
        await self.store.admit([self._web.fresh(host), *[known] * (LINKS - 1)], self._clock.wall_us())
        self.done += 1


async def measure(settings: CassandraSettings, pages: int) -> dict[str, Any]:
    """One run, in figures."""
    await migrate(settings, SystemClock())
    session = await Session.open(settings)
    try:
        store = CassandraUrlStore(session, SHARD, clock=SystemClock(), random=SystemRandom(), epoch=1)
        run = Run(store, pages)
        await run.seed()
        await session.run("wake_slots_from", shard=SHARD, slot=0)
        before = session.tally()
        await run.run()
        after = session.tally()
        await store.close()
    finally:
        await session.close()
    statements = Counter(after.statements) - Counter(before.statements)
    conditional = Counter(after.conditional) - Counter(before.conditional)
    return {
        "pages": run.done,
        "seconds": round(run.seconds, 1),
        "pages_a_second": round(run.done / run.seconds, 1),
        "claims_a_batch": round(run.done / run.batches, 2),
        "conditional_writes_a_page": round(conditional.total() / run.done, 3),
        "conditional_by_name": _a_page(conditional, run.done),
        "statements_a_page": round(statements.total() / run.done, 2),
        "statements_by_name": _a_page(statements, run.done),
    }


def _a_page(counts: Counter[str], pages: int) -> dict[str, float]:
    return {name: round(count / pages, 3) for name, count in counts.most_common()}


def server_says(settings: CassandraSettings) -> dict[str, Any]:
    """What reads of the due index meet after the run, and what the Paxos table takes on disk."""
    connection = cluster(settings)
    try:
        session = connection.connect(settings.keyspace)
        scanned = {"parts": 0, "reads": 0, "rows": 0, "tombstone_cells": 0}
        cursors = {(row["authority"], row["lane"]): row["at_us"] for row in session.execute("SELECT * FROM cursor")}
        for (authority, lane), at_us in cursors.items():
            low = at_us // settings.slot_us
            parts = "SELECT slot FROM part WHERE authority = %s AND lane = %s AND slot >= %s"
            due = "SELECT at_us, fp FROM due WHERE authority = %s AND lane = %s AND slot = %s AND at_us > %s LIMIT 64"
            found = _traced(session, scanned, parts, (authority, lane, low))
            scanned["parts"] += len(found)
            for row in found:
                _traced(session, scanned, due, (authority, lane, row["slot"], at_us))
        (wake,) = session.execute("SELECT at_us FROM wake_cursor WHERE shard = %s", (SHARD,))
        low = wake["at_us"] // settings.slot_us
        for row in _traced(
            session, scanned, "SELECT slot FROM wake_slot WHERE shard = %s AND slot >= %s", (SHARD, low)
        ):
            _traced(session, scanned, "SELECT * FROM wake WHERE shard = %s AND slot = %s", (SHARD, row["slot"]))
        dropped = sum(1 for _ in session.execute("SELECT slot FROM part")) - scanned["parts"]
        (paxos,) = session.execute(
            "SELECT * FROM system_views.disk_usage WHERE keyspace_name = 'system' AND table_name = 'paxos'"
        )
        (local,) = session.execute("SELECT release_version FROM system.local")
        return {
            "server": local["release_version"],
            "after_the_run": scanned,
            "parts_behind_the_cursors": dropped,
            "paxos_table_mib": paxos["mebibytes"],
        }
    finally:
        connection.shutdown()


def _traced(session: Any, scanned: dict[str, int], query: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
    """One read, counted by the server."""
    result = session.execute(query, values, trace=True)
    rows = list(result)
    for event in result.get_query_trace(max_wait_sec=10).events:
        counted = SCANNED.match(event.description)
        if counted:
            scanned["reads"] += 1
            scanned["rows"] += int(counted[1])
            scanned["tombstone_cells"] += int(counted[2])
    return rows


def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(description="cost of the URL store on Cassandra")
    parser.add_argument("--pages", type=int, default=6000)
    parser.add_argument("--servers", default=".servers", help="folder of `make servers-up`")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = service("cassandra", Folder.at(options.servers)).up()
    settings = CassandraSettings(
        contact_points=tuple(found["contact_points"]),
        port=found["port"],
        datacenter=found["datacenter"],
        keyspace=f"bench_{SystemClock().wall_us() // 1_000_000}",
        replication=min(3, len(found["contact_points"])),
        slot_seconds=10,
    )
    figures = asyncio.run(measure(settings, options.pages))
    report = {"python": platform.python_version(), "form": found["form"], **figures, **server_says(settings)}
    text = json.dumps(report, indent=1, default=str) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
