"""One suite for every ledger: the sum of what is taken never exceeds a ceiling."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from limpet.config.settings import Politeness
from limpet.politeness import FileShares, LocalShares, Shares
from limpet.politeness.daybudget import budget_days, budget_wait_us, take_up
from limpet.politeness.fileshares import CELLS
from limpet.politeness.keys import Key, global_key
from limpet.testing.loop import SimClock, VirtualLoop
from unit.politeness.leased import Nodes

BORN_US = 1_000_000
TWO = Key("address 192.0.2.1", 2, 200_000)
MANY = Key("platform example", 8, 250_000)
CAP = Key("crawl", 0, 100_000, 1_000_000)
LATER_US = 60_000_000
DAY_US = 86_400_000_000

Open = Callable[[int], Shares]


@pytest.fixture(params=["local", "file", "leased"])
def open_slot(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the ledger as the worker of a slot; `LocalShares` has one slot only, which all share here."""
    if request.param == "leased":
        nodes = Nodes(BORN_US)
        yield nodes.slot
        nodes.close()
    elif request.param == "file":
        path = tmp_path / "shares"
        FileShares.lay_out(path, boot_id="boot", now_us=BORN_US)
        yield lambda slot: FileShares(path, slot)
    else:
        only = LocalShares(BORN_US)
        yield lambda _: only


def take(shares: Shares, keys: list[Key], now_us: int, *, day: int = 1, budget: int = 0) -> bool:
    return shares.take(keys, now_us, day=day, budget=budget)


def test_connections_of_all_workers_together(open_slot: Open) -> None:
    """Two in all, whoever has them; one that is given back is there for anybody."""
    first, second = open_slot(0), open_slot(1)
    assert take(first, [TWO], LATER_US)
    assert take(second, [TWO], LATER_US + 200_000)
    assert not take(first, [TWO], LATER_US + 400_000)
    blocked = second.blocked([TWO], LATER_US + 400_000)
    assert blocked is not None
    assert blocked.key == TWO
    second.give([TWO])
    assert take(first, [TWO], LATER_US + 400_000)


def test_starts_are_an_interval_apart(open_slot: Open) -> None:
    """Strictly: no worker's start is nearer than that to another's, and idle time is not saved up."""
    first, second = open_slot(0), open_slot(1)
    assert take(first, [TWO], LATER_US)
    first.give([TWO])
    assert not take(second, [TWO], LATER_US + 199_999)
    blocked = second.blocked([TWO], LATER_US + 50_000)
    assert blocked is not None
    assert blocked.us == 150_000
    assert take(second, [TWO], LATER_US + 200_000)


def test_nothing_is_saved_up_from_before_the_ledger(open_slot: Open) -> None:
    """A key's first start comes one interval after the birth of the ledger, for what was sent before it is unknown."""
    shares = open_slot(0)
    assert not take(shares, [TWO], BORN_US + 199_999)
    assert take(shares, [TWO], BORN_US + 200_000)


def test_a_burst_is_bounded(open_slot: Open) -> None:
    """The cap of a crawl may make good one second of lateness, not more, and starts without any."""
    shares = open_slot(0)
    assert sum(take(shares, [CAP], BORN_US + 100_000) for _ in range(20)) == 1
    assert sum(take(shares, [CAP], LATER_US) for _ in range(50)) == 11


def test_a_key_under_which_nothing_was_sent_begins_at_once(open_slot: Open) -> None:
    """One start, then the interval, whatever its burst; it cannot be begun twice, and not after a start."""
    shares = open_slot(0)
    shares.begin(CAP, BORN_US)
    assert sum(take(shares, [CAP], BORN_US) for _ in range(20)) == 1
    shares.begin(CAP, BORN_US)
    assert not take(shares, [CAP], BORN_US + 99_999)
    assert sum(take(shares, [CAP], BORN_US + 100_000) for _ in range(20)) == 1
    assert take(shares, [MANY], LATER_US)
    shares.begin(MANY, LATER_US)
    assert not take(shares, [MANY], LATER_US + 249_999)


@pytest.mark.parametrize(
    ("sent_on", "waits"),
    [({}, False), ({-2: 9}, False), ({-1: 1}, True), ({0: 1}, True), ({-1: 7, 0: 2}, True), ({-1: 0, 0: 10}, True)],
)
def test_the_first_request_of_a_small_budget_waits_only_for_what_was_sent(
    open_slot: Open, sent_on: dict[int, int], *, waits: bool
) -> None:
    """At once when neither today (0) nor yesterday knows a request; else an interval later. The day's sum holds."""
    loop = VirtualLoop()
    clock, policy, shares = SimClock(loop), Politeness(budget_per_day=10), open_slot(0)
    today = clock.wall_us() // DAY_US
    assert budget_days(clock) == (today - 1, today)
    take_up(shares, policy, clock, {today + day: requests for day, requests in sent_on.items()})
    assert shares.requests(today) == sent_on.get(0, 0)
    assert (budget_wait_us(shares, policy, clock) > 0) is waits
    key = global_key(policy)
    assert key is not None
    starts = [s for s in range(0, 86_400, 60) if take(shares, [key], s * 1_000_000, day=today, budget=10)]
    assert len(starts) + sent_on.get(0, 0) <= 10
    assert all(later - earlier >= key.interval_us / 1e6 - 1 for earlier, later in pairwise(starts))
    loop.close()


def test_all_or_nothing(open_slot: Open) -> None:
    """A key that is blocked costs the others nothing."""
    shares = open_slot(0)
    assert take(shares, [TWO], LATER_US)
    assert not take(shares, [MANY, TWO], LATER_US)
    assert shares.blocked([MANY], LATER_US) is None


def test_the_budget_of_a_day(open_slot: Open) -> None:
    """A ceiling over all workers; a refund counts; the next day begins at nothing; durable counts are not forgotten."""
    first, second = open_slot(0), open_slot(1)
    first.restore(1, 3)
    assert take(first, [], LATER_US, budget=5)
    assert take(second, [], LATER_US, budget=5)
    assert not take(first, [], LATER_US, budget=5)
    second.refund(1)
    assert first.requests(1) == 4
    assert take(first, [], LATER_US, budget=5)
    assert first.requests(2) == 0
    assert take(first, [], LATER_US, day=2, budget=5)


def test_three_hosts_that_must_wait_hold_the_address_back(open_slot: Open) -> None:
    """For as long as three of them wait at once: until the third longest of their waits."""
    first, second = open_slot(0), open_slot(1)
    assert first.trouble(TWO, "a", LATER_US + 10, LATER_US) == 0
    assert first.trouble(TWO, "a", LATER_US + 9_000_000, LATER_US) == 0
    assert second.trouble(TWO, "b", LATER_US + 5_000_000, LATER_US) == 0
    assert second.trouble(TWO, "c", LATER_US + 7_000_000, LATER_US) == LATER_US + 5_000_000
    assert not take(first, [TWO], LATER_US + 4_999_999)
    assert take(first, [TWO], LATER_US + 5_000_000)


def test_random_takes_never_exceed_a_ceiling(open_slot: Open) -> None:
    """Any order of takes and gives by three workers, judged by a list of what happened."""
    rng = Random(7)
    workers = [open_slot(slot) for slot in range(3)]
    keys = [Key(f"address {n}", 1 + n % 3, 50_000 * (n % 4)) for n in range(12)]
    held: list[tuple[int, list[Key]]] = []
    starts: dict[str, int] = {}
    now_us = LATER_US
    for _ in range(1_500):
        now_us += rng.randrange(30_000)
        if held and rng.random() < 0.5:
            slot, given = held.pop(rng.randrange(len(held)))
            workers[slot].give(given)
            continue
        slot, wanted = rng.randrange(3), rng.sample(keys, rng.randrange(1, 4))
        if not take(workers[slot], wanted, now_us):
            continue
        held.append((slot, wanted))
        for key in wanted:
            assert sum(key in others for _, others in held) <= key.connections_max
            assert now_us - starts.get(key.name, 0) >= key.interval_us
            starts[key.name] = now_us
    assert len(starts) == len(keys)


def test_what_a_dead_worker_held_is_free_when_its_slot_is_taken_anew(tmp_path: Path) -> None:
    """Its starts are remembered all the same, and so is what others hold."""
    path = tmp_path / "shares"
    FileShares.lay_out(path, boot_id="boot", now_us=BORN_US)
    other, dead = FileShares(path, 0), FileShares(path, 1)
    assert take(other, [TWO], LATER_US)
    assert take(dead, [TWO], LATER_US + 200_000, budget=100)
    again = FileShares(path, 1)
    assert not take(again, [TWO], LATER_US + 300_000)
    assert take(again, [TWO], LATER_US + 400_000)
    assert not take(again, [TWO], LATER_US + 900_000)
    assert again.requests(1) == 1
    for shares in (other, dead, again):
        shares.close()


def test_a_ledger_is_kept_within_a_boot_and_made_anew_after_one(tmp_path: Path) -> None:
    """A new run goes on with the starts and the budget of the last; boot time that began anew means nothing to it."""
    path = tmp_path / "shares"
    FileShares.lay_out(path, boot_id="boot", now_us=BORN_US)
    shares = FileShares(path, 0)
    assert take(shares, [TWO], LATER_US, budget=9)
    shares.close()
    FileShares.lay_out(path, boot_id="boot", now_us=LATER_US)
    shares = FileShares(path, 0)
    assert shares.requests(1) == 1
    assert not take(shares, [TWO], LATER_US + 1)
    shares.close()
    FileShares.lay_out(path, boot_id="another", now_us=0)
    shares = FileShares(path, 0)
    assert shares.requests(1) == 0
    shares.close()


def test_cells_are_used_again_and_their_lack_means_no_send(tmp_path: Path) -> None:
    """More keys than cells: idle ones make room; a key without a place gets no share."""
    path = tmp_path / "shares"
    FileShares.lay_out(path, boot_id="boot", now_us=0)
    shares = FileShares(path, 0)
    now_us, refused = LATER_US, 0
    for number in range(CELLS + 2_000):
        key = Key(f"address {number}", 1, 1_000)
        if not take(shares, [key], now_us):
            blocked = shares.blocked([key], now_us)
            assert blocked is not None, "no place, no share"
            refused += 1
    assert refused > 0
    shares.close()
    shares = FileShares(path, 0)
    key = Key("address after all that", 1, 1_000)
    assert take(shares, [key], now_us + 1_000)
    shares.close()


def test_an_onlooker_sees_when_the_budget_goes_on(tmp_path: Path) -> None:
    """Without taking anything: the pace between two requests, then the rest of the UTC day."""
    loop = VirtualLoop()
    path, clock, policy = tmp_path / "shares", SimClock(loop), Politeness(budget_per_day=10)
    assert FileShares.look(path, boot_id="boot") is None
    FileShares.lay_out(path, boot_id="boot", now_us=clock.boot_us())
    assert FileShares.look(path, boot_id="another") is None
    key, day = global_key(policy), clock.wall_us() // 86_400_000_000
    assert key is not None
    worker, onlooker = FileShares(path, 0), FileShares.look(path, boot_id="boot")
    assert onlooker is not None
    assert budget_wait_us(onlooker, policy, clock) == key.interval_us == 5_760_000_000
    assert budget_wait_us(onlooker, Politeness(), clock) == 0
    worker.restore(day, 10)
    assert budget_wait_us(onlooker, policy, clock) == 86_400_000_000 - clock.wall_us() % 86_400_000_000
    onlooker.close()
    worker.close()
    loop.close()
