"""A crawl that is copied shard by shard, through the port of its store, is as sound and as polite as the original."""

import asyncio
import shutil
from pathlib import Path

from integration.crawl_maker import Sent, answer, make_crawl, make_facts, robots
from limpet.clock import SystemClock
from limpet.embedded.folder import Folder
from limpet.model.lifecycle import State
from limpet.reconciler.audit import audit
from limpet.reconciler.verify import verify
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.testing.chance import SeededRandom
from limpet.urlstore import AdmitResult, Completion, HostRow, Job, Reject, RepairItem, UrlStore
from limpet.urlstore.sqlite import SqliteUrlStore
from limpet.urlstore.sqlite.transfer import copy_shard

from contract.stores import A, B, LEASE_US, candidate, fetched, outcome, output, robots_fetch  # isort: skip

SENT = (
    robots(0.0),
    Sent(url="http://a.test/", at=2.0, links=2),
    Sent(url="http://a.test/again", at=4.0, again=True),
    Sent(url="http://a.test/again", at=6.0),
    Sent(url="http://a.test/gone", at=8.0, wire=answer(410)),
    Sent(url="http://a.test/busy", at=10.0, wire=answer(503)),
    robots(0.5, host="b.test"),
    Sent(url="http://b.test/", at=3.0),
)


def opened(path: Path) -> SqliteFile:
    """The file of a shard, for its one owner."""
    return SqliteFile(path, schema=shard_schema(), runner=InlineRunner(), clock=SystemClock(), synchronous="OFF")


async def copy_file(source: Path, target: Path) -> int:
    """Copy one shard's file through the port."""
    files = opened(source), opened(target)
    try:
        return await copy_shard(SqliteUrlStore(files[0], 7, SeededRandom(1)), files[1])
    finally:
        for file in files:
            await file.close()


def test_a_copied_crawl_is_sound_and_polite(tmp_path: Path) -> None:
    """`verify` finds every row, outcome and record of the original in the copy; `audit` judges as many."""
    original = make_crawl(tmp_path / "original", SENT)
    copy = Folder.create(tmp_path / "copy", make_facts())
    copied = [asyncio.run(copy_file(original.shard_file(n), copy.shard_file(n))) for n in range(copy.facts.shards)]
    for source, target in zip(original.segment_directories, copy.segment_directories, strict=True):
        shutil.copytree(source, target, dirs_exist_ok=True)
    shutil.copy(original.path / "settings.json", copy.path / "settings.json")
    before, after = verify(original), verify(copy)
    assert before.findings == after.findings == []
    assert sum(copied) == after.checked["rows"] == 5
    for name in ("rows", "hosts", "outcomes", "records"):
        assert after.checked[name] == before.checked[name] > 0, name
    assert audit(copy).findings == audit(original).findings
    assert audit(copy).checked == audit(original).checked


async def fill(store: UrlStore) -> None:
    """Something of everything that a shard can know."""
    wanted = [candidate(1, seed=True), candidate(2), candidate(3, parked="host_urls"), candidate(4, B), candidate(5, B)]
    await store.admit(wanted, 10)
    assert await store.admit([candidate(2, key="other")], 11) == [AdmitResult.CLASH]
    first, second = await store.claim(A, limit=2, now_us=20, lease_us=20 + LEASE_US, holder="holder")
    done = fetched(first, 30, due_us=900)
    await store.complete(done, HostRow(host="a.example", wait_us=77, wait_reason="Retry-After"))
    late = outcome(second, 31, status=503, location=None)
    retry = Completion(claim=second, state=State.DUE, now_us=32, due_us=500, failures=1, outcome=late)
    await store.complete(retry)
    await store.claim(B, limit=1, now_us=40, lease_us=40 + LEASE_US, holder="holder")
    assert done.outcome is not None
    await store.accept_outputs([output(1, done.outcome.fetched_us)])
    await store.put_job(Job(fp=first.fp, fetched_us=9, event=b"e", attempt=2, due_us=50, reason="cut"))
    await store.add_seed(f"{A}/1")
    await store.count_rejects([Reject(host="c.example", rule="scope", count=3, sample="http://c.example/")])
    await store.put_repair(RepairItem(kind="k", subject="s", detail="d", created_us=3))
    await store.notify("failed", "a.example", "dns", f"{A}/1", 60, count=4)
    for at_us in (5, 70, 86_400_000_000):
        await store.put_robots_fetch(robots_fetch(at_us))


async def told(store: UrlStore) -> dict[str, object]:
    """Everything the port tells of a shard, but for the numbers that a store gives by itself."""
    rows = sorted(await store.rows(), key=lambda row: (row.fp, row.key))
    notices = [(one.kind, one.host, one.reason, one.count, one.sample) for one in await store.notices()]
    authorities = [await store.authority(name) for name in (A, B)]
    return {
        "rows": rows,
        "outcomes": sorted(await store.all_outcomes(), key=lambda one: (one.fp, one.fetched_us)),
        "outputs": [await store.outputs(row.fp) for row in rows],
        "queues": sorted(await store.queues(), key=lambda queue: queue.authority),
        "hosts": sorted(await store.hosts(), key=lambda host: host.host),
        "rest": [await store.seeds(), await store.rejects(), await store.jobs(), await store.repairs(), notices],
        "authorities": authorities,
        "requests": [await store.requests(day) for day in (0, 1)],
        "robots": await store.robots_fetches(),
    }


def test_everything_the_port_tells_is_in_the_copy(tmp_path: Path) -> None:
    """Rows of every kind, leases and clashes too, hosts, outputs, jobs, rejects, repairs, notices, sums."""

    async def scenario() -> tuple[dict[str, object], dict[str, object], dict[str, int], dict[str, int]]:
        files = opened(tmp_path / "07.sqlite"), opened(tmp_path / "copy.sqlite")
        source, copy = (SqliteUrlStore(file, 7, SeededRandom(2)) for file in files)
        try:
            await fill(source)
            await copy_shard(source, files[1])
            return await told(source), await told(copy), await source.counters(), await copy.counters()
        finally:
            for file in files:
                await file.close()

    before, after, counted, copied = asyncio.run(scenario())
    for name, value in before.items():
        assert after[name] == value, name
    gauges = ("state.", "outcomes", "pages", "bytes", "records", "outputs", "links", "jobs_open", "repairs_open")
    for name, count in counted.items():
        if name.startswith(gauges):
            assert copied.get(name, 0) == count, name
