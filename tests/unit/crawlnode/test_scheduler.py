"""Round-robin by next-allowed time, whatever the backlog."""

from limpet.crawlnode.scheduler import Scheduler


def test_hosts_come_up_in_the_order_of_their_times() -> None:
    """The host that may send first comes first, not the one with the most work."""
    scheduler = Scheduler()
    for host, at in (("b", 2.0), ("a", 1.0), ("c", 3.0)):
        scheduler.schedule(scheduler.offer(host, 0, f"http://{host}", 0), at)
    assert scheduler.next_at() == 1.0
    popped = [scheduler.pop(2.5), scheduler.pop(2.5), scheduler.pop(2.5)]
    assert [entry.host if entry else None for entry in popped] == ["a", "b", None]


def test_equal_times_take_turns() -> None:
    """First come, first served: a host that was just served goes behind the others."""
    scheduler = Scheduler()
    entries = [scheduler.offer(host, 0, f"http://{host}", 0) for host in "abc"]
    for entry in entries:
        scheduler.schedule(entry, 0.0)
    order = []
    for _ in range(6):
        served = scheduler.pop(0.0)
        assert served is not None
        order.append(served.host)
        scheduler.schedule(served, 0.0)
    assert order == list("abcabc")


def test_an_earlier_time_replaces_a_later_one() -> None:
    """New work that is due sooner brings the host up sooner, once."""
    scheduler = Scheduler()
    entry = scheduler.offer("a", 0, "http://a", 0)
    scheduler.schedule(entry, 10.0)
    scheduler.schedule(entry, 5.0)
    scheduler.schedule(entry, 7.0)
    assert scheduler.pop(6.0) is entry
    assert scheduler.pop(20.0) is None


def test_a_host_being_visited_does_not_come_up_again() -> None:
    """One visit a host at a time."""
    scheduler = Scheduler()
    entry = scheduler.offer("a", 0, "http://a", 0)
    scheduler.schedule(entry, 0.0)
    entry.visiting = True
    assert scheduler.pop(1.0) is None


def test_an_idle_host_is_forgotten() -> None:
    """Memory follows the work, not the history."""
    scheduler = Scheduler()
    entry = scheduler.offer("a", 0, "http://a", 0)
    entry.due_us.clear()
    scheduler.drop_if_idle(entry)
    assert len(scheduler) == 0
