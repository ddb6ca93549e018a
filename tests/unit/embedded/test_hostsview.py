"""What an onlooker is told of hosts: from rows, from orders, and from workers that answer."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from limpet.assembly.places import shard_of_host
from limpet.clock import SystemClock
from limpet.config import Facts, Settings
from limpet.embedded.folder import Folder
from limpet.embedded.hostsview import HostNow, HostsView
from limpet.embedded.live import Answer, Listener, Pulse, Reasons, forget
from limpet.embedded.views import ShardViews
from limpet.politeness.orders import HostOrder, Orders
from limpet.robots import HttpAnswer, RobotsState, Settled, advance, next_step
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.testing.chance import SeededRandom
from limpet.urlstore import AuthorityRow, Candidate, HostRow
from limpet.urlstore.sqlite import SqliteUrlStore

FACTS = Facts(crawl="0123456789abcdef", hash_seed=b"s" * 16, suffix_list_digest="d" * 64)
CLOCK = SystemClock()
HOUR_US = 3_600_000_000
HOST = "a.example"


async def no_more(_: SqliteUrlStore) -> None:
    """Nothing but one URL that is due."""


def look(
    path: Path,
    fill: Callable[[SqliteUrlStore], Awaitable[None]] = no_more,
    orders: Orders | None = None,
    settings: Settings | None = None,
    told: Reasons | None = None,
) -> HostNow:
    """A crawl with one URL of one host, and how that host shows."""

    async def make(folder: Folder) -> None:
        shard = shard_of_host(HOST, FACTS)
        file = SqliteFile(
            folder.shard_file(shard), schema=shard_schema(), runner=InlineRunner(), clock=CLOCK, synchronous="OFF"
        )
        store = SqliteUrlStore(file, shard, SeededRandom(1))
        url = f"http://{HOST}/"
        one = Candidate(
            fp=b"f" * 16,
            key=url,
            url=url,
            host=HOST,
            authority=url.rstrip("/"),
            depth=0,
            hops="",
            kind="navigation",
            due_us=1,
        )
        await store.admit([one], 1)
        await fill(store)
        await file.close()

    folder = Folder.create(path / "crawl", FACTS)
    asyncio.run(make(folder))
    with ShardViews(folder) as views:
        view = HostsView(folder, views, orders or {}, settings or Settings(), CLOCK)
        if told is not None:
            view.told = lambda: {HOST: (CLOCK.wall_us(), told)}
        found = view.hosts()
        assert [one.host for one in found] == [one.host for one in view.hosts(HOST)] == [HOST]
    return found[0]


def robots_row(body: bytes, **wait: object) -> AuthorityRow:
    """An authority with a robots.txt."""
    settled = next_step(0, HttpAnswer(200, body=body))
    assert isinstance(settled, Settled)
    state = advance(RobotsState(), settled, CLOCK.wall_us(), 0.0)
    row = AuthorityRow(authority=f"http://{HOST}", host=HOST, robots=msgspec.msgpack.encode(state))
    return msgspec.structs.replace(row, **wait)


def test_a_host_without_trouble_has_its_floor(tmp_path: Path) -> None:
    """And may be asked now, as far as the shards know."""
    host = look(tmp_path)
    assert (host.gap_reason, host.gap_seconds, host.queued, host.urls) == ("floor", 1.0, 1, 1)
    assert (host.next_reason, host.slow, host.order) == ("", False, "")
    assert host.ceilings == [f"domain {HOST}"]


@pytest.mark.parametrize(("seconds", "slow"), [(30, False), (7_200, True)])
def test_a_crawl_delay_is_named(tmp_path: Path, seconds: int, slow: bool) -> None:
    """Above an hour the host is listed as slow."""
    row = robots_row(b"User-agent: *\nCrawl-delay: %d\n" % seconds)
    host = look(tmp_path, lambda store: store.put_authority(row))
    assert (host.gap_reason, host.gap_seconds, host.slow) == ("crawl-delay", float(seconds), slow)


def test_slow_answers_and_ones_own_delay_are_named(tmp_path: Path) -> None:
    """The longest wish is in force, the others are told of too."""
    settings = Settings(politeness=msgspec.structs.replace(Settings().politeness, delay_seconds=3.0))
    host = look(tmp_path, lambda store: store.put_host(HostRow(host=HOST, response_us=2_000_000)), settings=settings)
    assert host.gaps == [("latency", 10.0), ("delay", 3.0), ("floor", 1.0)]


@pytest.mark.parametrize("reason", ["http_429", "breaker", "unfinished request"])
def test_a_wait_of_the_host_is_named(tmp_path: Path, reason: str) -> None:
    """With the moment it ends."""
    until_us = CLOCK.wall_us() + HOUR_US
    row = HostRow(host=HOST, wait_us=until_us, wait_reason=reason, trips=2)
    host = look(tmp_path, lambda store: store.put_host(row))
    assert (host.next_us, host.next_reason, host.breaker_trips) == (until_us, reason, 2)


def test_unreachable_robots_are_named(tmp_path: Path) -> None:
    """They hold the host back when it has no other server."""
    until_us = CLOCK.wall_us() + HOUR_US
    row = robots_row(b"", wait_us=until_us, wait_reason="robots_timeout")
    host = look(tmp_path, lambda store: store.put_authority(row))
    assert (host.next_us, host.next_reason) == (until_us, "robots_timeout")


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        (HostOrder(paused_us=1), ("operator_pause", None, "operator_pause", False)),
        (HostOrder(blocked_us=1, paused_us=1), ("operator_block", None, "operator_block", False)),
    ],
)
def test_a_stopped_host_waits_for_the_operator(tmp_path: Path, order: HostOrder, shown: tuple[object, ...]) -> None:
    """No moment is promised."""
    host = look(tmp_path, orders={HOST: order})
    assert (host.order, host.next_us, host.next_reason, host.slow) == shown


def test_a_slowed_host_is_slow(tmp_path: Path) -> None:
    """By the operator."""
    host = look(tmp_path, orders={HOST: HostOrder(gap_seconds=90.0)})
    assert (host.order, host.gap_reason, host.gap_seconds, host.slow) == ("operator_slow", "operator", 90.0, True)


def test_what_a_worker_says_comes_on_top(tmp_path: Path) -> None:
    """The rest of a gap, a ceiling: whatever is the longest decides. Gaps themselves are no waits."""
    told = [("floor", 1.0), ("rest of the gap", 0.5), ("ceiling: address 192.0.2.1", 60.0)]
    host = look(tmp_path, told=told)
    assert host.next_reason == "ceiling: address 192.0.2.1"
    assert host.next_us is not None
    assert host.next_us > CLOCK.wall_us() + 30_000_000


# -- workers that tell -------------------------------------------------------------------------------------------------
def test_a_worker_answers_whoever_asks(tmp_path: Path) -> None:
    """Every question anew; once it has ended nobody waits for it, and a stopped one is missed."""
    asked = []

    def hosts() -> list[tuple[str, Reasons]]:
        asked.append(1)
        return [(HOST, [("floor", 1.0)]), *((f"h{number}.example", []) for number in range(250))]

    async def main() -> None:
        listener = Listener(tmp_path, CLOCK)
        assert await listener.ask() == {}
        pulse = Pulse(tmp_path, 3, CLOCK, hosts)
        beating = asyncio.ensure_future(pulse.run())
        await CLOCK.sleep(0.05)
        assert listener.silent_workers() == {}
        for count in (1, 2):
            found = await listener.ask()
            assert found[HOST][1] == [("floor", 1.0)]
            assert (len(found), len(asked)) == (251, count)
        beating.cancel()
        assert await listener.ask() == {}, "it does not answer any more, and is not waited for without end"
        pulse.end()
        assert listener.silent_workers() == {}

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == [tmp_path / "ask"]


def test_what_lies_around_is_no_answer(tmp_path: Path) -> None:
    """Foreign files, and answers to an earlier question; a run that begins forgets them."""
    listener, stale = Listener(tmp_path, CLOCK), tmp_path / "hosts-1.json"
    (tmp_path / "worker-x.alive").touch()
    (tmp_path / "worker-1.alive").touch()
    stale.write_bytes(msgspec.json.encode(Answer(at_us=1, hosts={HOST: []})))
    os.utime(stale, (1, 1))
    assert asyncio.run(listener.ask()) == {}
    os.utime(tmp_path / "worker-1.alive", (1, 1))
    assert list(listener.silent_workers()) == [1]
    assert asyncio.run(listener.ask()) == {}
    forget(tmp_path)
    assert listener.silent_workers() == {}
    assert not stale.exists()


def test_a_robots_txt_that_is_none_is_told(tmp_path: Path) -> None:
    """In the listing as a mark, of one host with its server and in words."""
    host = look(tmp_path / "odd", lambda store: store.put_authority(robots_row(b"<html>not found</html>")))
    assert (host.robots_oddities, host.authorities[0].robots_oddity) == (["html"], "html")
    assert look(tmp_path / "plain", lambda store: store.put_authority(robots_row(b"Allow: /"))).robots_oddities == []
