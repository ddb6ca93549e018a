"""Thousands of hosts over days of virtual time: no rule is ever broken, and hardly any time is wasted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limpet.politeness import FileShares, Shares
from sim.politebound import best_by
from sim.politecheck import Request, violations
from sim.politedrive import BORN_US, Drive
from sim.politeworld import SECOND, Answer, Site, World, make_world

LOOKS_SECONDS = (600, 3_600, 6 * 3_600, 86_400, 3 * 86_400)
SHARE_MIN = 0.95


def file_shares(path: Path) -> Callable[[int], Shares]:
    """The ledger of real workers; taking a slot anew frees what a dead worker held."""
    FileShares.lay_out(path, boot_id="world", now_us=BORN_US)
    return lambda slot: FileShares(path, slot)


def judge(world: World, drive: Drive) -> list[tuple[int, int, int]]:
    """No violation; (seconds, sent, most that could have been sent) at each look."""
    found = violations(world, drive.log)
    assert not found, (len(found), found[:5])
    looks = []
    for seconds in LOOKS_SECONDS:
        if seconds * SECOND <= world.horizon_us:
            begun = [request for request in drive.log if request.start_us <= seconds * SECOND]
            cut, most = sum(request.cut for request in begun), best_by(world, seconds * SECOND)
            assert len(begun) - cut <= most, "the bound is one"
            looks.append((seconds, len(begun) - cut, most))
    return looks


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_small_world(seed: int, tmp_path: Path) -> None:
    """Shared addresses, platforms, delays, storms, kills and clock jumps, over the ledger that workers really use."""
    world = make_world(seed, 400)
    drive = Drive(world, file_shares(tmp_path / "shares"), seed=seed)
    drive.run()
    assert any(request.cut for request in drive.log), "a kill that strikes nobody proves nothing"
    for seconds, sent, most in judge(world, drive):
        assert sent >= SHARE_MIN * most - 1, (seconds, sent, most)


def test_a_budget_is_a_ceiling_and_a_target(tmp_path: Path) -> None:
    """Never more than the day's budget nor faster than 1.5 times its average, kills or not, and hardly less."""
    world = make_world(4, 150, days=1.5, budget=1_500)
    drive = Drive(world, file_shares(tmp_path / "shares"))
    drive.run()
    for seconds, sent, most in judge(world, drive):
        assert sent >= SHARE_MIN * most - 1, (seconds, sent, most)
    first_day = sum(request.start_us < 86_400 * SECOND for request in drive.log)
    assert first_day == world.budget


def test_hosts_take_turns_whatever_their_backlog(tmp_path: Path) -> None:
    """At one crowded address a host with ten thousand pages gets no more turns than one with fifty."""
    sites = tuple(plain(f"d{n}.example", pages=10_000 if n == 0 else 50) for n in range(20))
    world = World(sites, 1, (), (), 150 * SECOND)
    drive = Drive(world, file_shares(tmp_path / "shares"))
    drive.run()
    assert not violations(world, drive.log)
    turns = [sum(request.site is site for request in drive.log) for site in sites]
    assert max(turns) - min(turns) <= 1
    assert sum(turns) >= 5 * 145


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12])
def test_a_world_of_ten_thousand_hosts(seed: int, tmp_path: Path) -> None:
    """The full size."""
    world = make_world(seed, 10_000)
    drive = Drive(world, file_shares(tmp_path / "shares"), seed=seed)
    drive.run()
    looks = judge(world, drive)
    print(seed, len(drive.log), [(seconds, sent, round(sent / most, 4)) for seconds, sent, most in looks])  # noqa: T201
    for seconds, sent, most in looks:
        assert sent >= SHARE_MIN * most - 1, (seconds, sent, most)


# -- a governor that is wrong is found out -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wish", "word"),
    [
        ({"floor_seconds": 0.99, "latency_multiple": 0.0}, "after the last answer"),
        ({"latency_multiple": 4.9}, "after the last answer"),
        ({"domain_connections_max": 3}, "domain"),
        ({"platform_starts_per_second_max": 5.0}, "platform"),
        ({"address_connections_max": 3}, "address"),
        ({"address_starts_per_second_max": 6.0}, "address"),
    ],
)
def test_one_ceiling_a_little_too_high_is_found_out(wish: dict[str, Any], word: str, tmp_path: Path) -> None:
    """Each rule is the reason for something that happens in these worlds."""
    world = make_world(5, 400, days=0.01)
    drive = Drive(world, file_shares(tmp_path / "shares"), seed=5, **wish)
    drive.run()
    assert any(word in text for text in violations(world, drive.log))


def test_ceilings_that_workers_do_not_share_are_found_out(tmp_path: Path) -> None:
    """Each worker with a ledger of its own."""
    world = make_world(5, 400, days=0.01)
    places = iter(range(1_000))
    drive = Drive(world, lambda _: file_shares(tmp_path / str(next(places)))(0))
    drive.run()
    assert any("address" in text for text in violations(world, drive.log))


def test_rows_that_a_kill_forgets_are_found_out(tmp_path: Path) -> None:
    """Waits that are not durable end with the process."""
    world = make_world(1, 400, days=0.05)
    drive = Forgetful(world, file_shares(tmp_path / "shares"))
    drive.run()
    assert violations(world, drive.log)


class Forgetful(Drive):
    """Loses what was saved whenever a process dies."""

    def _kill(self, number: int) -> None:
        super()._kill(number)
        self.rows.clear()


# -- the checker finds what is planted ---------------------------------------------------------------------------------
def plain(name: str, *, pages: int = 10, address: str = "203.0.113.7", platform: str = "") -> Site:
    """A host without peculiarities."""
    return Site(name, name, platform, address, 0, pages, 50_000, 0.0, (0, 0, 0), (0, 0))


def asked(site: Site, *starts_seconds: float) -> list[Request]:
    """Requests of 50 ms each."""
    return [Request(site, n, int(at * SECOND), int(at * SECOND) + 50_000) for n, at in enumerate(starts_seconds)]


STORMY = plain("s.example")._replace(storm=(0, 1, 60))
SLOW = plain("slow.example")._replace(crawl_delay_seconds=20.0)
DEAD = plain("dead.example")._replace(outage=(1, 99))


@pytest.mark.parametrize(
    ("log", "word"),
    [
        (asked(plain("a.example"), 1, 1.02), "two connections"),
        (asked(plain("a.example"), 1, 2), "after the last answer"),
        (asked(SLOW, 1, 15), "after the last answer"),
        (asked(STORMY, 1, 50), "Retry-After"),
        (asked(DEAD, 1, 10, 20, 30, 40, 50, 60), "breaker"),
        ([r for n in range(6) for r in asked(plain(f"{n}.example"), 1 + n * 0.15)], "more than 5 starts"),
        ([r for n in range(3) for r in asked(plain(f"{n}.example"), 1 + n * 0.01)], "address 203.0.113.7: 3"),
        (
            [
                r
                for n in range(5)
                for r in asked(plain(f"{n}.github.io", platform="github.io", address=f"203.0.113.{n}"), 1 + n * 0.2)
            ],
            "more than 4 starts",
        ),
        (
            [r for n in range(3) for r in asked(plain(f"{n}.example")._replace(storm=(0, 1, 60)), 1 + n)]
            + asked(plain("other.example"), 30),
            "while three hosts must wait",
        ),
    ],
)
def test_the_checker_finds_a_planted_violation(log: list[Request], word: str) -> None:
    """A checker that finds nothing proves nothing."""
    world = World(tuple({request.site for request in log}), 1, (), (), 100 * SECOND)
    found = violations(world, log)
    assert any(word in text for text in found), found


def test_the_bound_is_what_a_host_alone_can_take() -> None:
    """1 s before the first, 50 ms each and 1 s between: 10 requests begin within 10.45 s, not 11."""
    world = World((plain("a.example", pages=100),), 1, (), (), 100 * SECOND)
    assert best_by(world, 1 * SECOND) == 1
    assert best_by(world, int(10.45 * SECOND)) == 10
    assert plain("a.example").answer(0) == Answer(200, 50_000)
