"""Our own health, and whose fault a failure is."""

from limpet.clock import DurableClock
from limpet.crawlnode.health import Health, Outage
from limpet.model.errors import Definite
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual


class Part:
    """A part of ours that can be out of order."""

    def __init__(self) -> None:
        self.broken = False

    async def confirm(self) -> None:
        """Confirm, or raise."""
        if self.broken:
            raise Definite("the bus is away")


def test_nothing_is_healthy_before_it_was_confirmed() -> None:
    """No confirmation is no health: a node that just started sends nothing."""
    loop = VirtualLoop()
    health = Health(DurableClock(SimClock(loop)), {"bus": Part().confirm}, age_seconds_max=5.0)
    assert health.unhealthy() == "bus"
    loop.close()


def test_a_part_that_goes_away_stops_sends_within_the_age() -> None:
    """A confirmation is worth five seconds; afterwards the part's name says why nothing is sent."""
    loop = VirtualLoop()
    clock = DurableClock(SimClock(loop))
    bus, disk = Part(), Part()
    health = Health(clock, {"bus": bus.confirm, "segments": disk.confirm}, age_seconds_max=5.0)

    async def scenario() -> list[str | None]:
        runner = loop.create_task(health.run())
        await clock.sleep(1.0)
        seen = [health.unhealthy()]
        bus.broken = True
        await clock.sleep(5.0)
        seen.append(health.unhealthy())
        bus.broken = False
        await clock.sleep(2.0)
        seen.append(health.unhealthy())
        runner.cancel()
        return seen

    assert run_virtual(scenario(), loop) == [None, "bus", None]


def test_a_wall_clock_that_was_moved_is_unhealthy() -> None:
    """The clock gate: while wall and boot clock disagree nothing is sent, in either direction."""
    for seconds in (3600.0, -3600.0):
        loop = VirtualLoop()
        system = SimClock(loop)
        health = Health(DurableClock(system), {}, age_seconds_max=5.0)
        assert health.unhealthy() is None
        system.jump(seconds)
        assert health.unhealthy() == "clock"
        loop.close()


def _outage() -> tuple[VirtualLoop, Outage]:
    loop = VirtualLoop()
    return loop, Outage(DurableClock(SimClock(loop)))


def test_known_domains_that_fail_together_are_our_own_outage() -> None:
    """Three unrelated domains that had answered fail at once: it is us; an answer from anyone ends it."""
    loop, outage = _outage()
    for domain in ("a.test", "b.test", "c.test"):
        outage.answered(domain)
    outage.failed("a.test")
    outage.failed("b.test")
    assert outage.paused_for() == 0.0
    outage.failed("c.test")
    assert outage.paused_for() > 0.0
    outage.answered("d.test")
    assert outage.paused_for() == 0.0
    loop.close()


def test_domains_that_never_answered_fail_by_themselves() -> None:
    """A list of dead seeds is no outage of ours."""
    loop, outage = _outage()
    for number in range(50):
        outage.failed(f"dead{number}.test")
    assert outage.paused_for() == 0.0
    loop.close()


def test_one_domain_failing_often_is_its_own_trouble() -> None:
    """Unrelated domains are what tells an outage."""
    loop, outage = _outage()
    outage.answered("a.test")
    for _ in range(50):
        outage.failed("a.test")
    assert outage.paused_for() == 0.0
    loop.close()


def test_an_excuse_lasts_longer_each_time_until_the_domain_answers() -> None:
    """Half a minute, then twice as long up to an hour; failures within one excuse share it."""
    loop, outage = _outage()
    clock = SimClock(loop)

    async def story() -> list[float]:
        given = []
        for _ in range(9):
            given.append(outage.excuse("a.test"))
            await clock.sleep(1.0)
            assert outage.excuse("a.test") == given[-1] - 1.0
            outage.answered("b.test")
            await clock.sleep(given[-1])
        outage.answered("a.test")
        return [*given, outage.excuse("a.test")]

    assert loop.run_until_complete(story()) == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 30]
    loop.close()


def test_a_proxy_that_fails_stops_everything_for_a_while() -> None:
    """Our own proxy is our only way out; an answer from anyone ends it."""
    loop, outage = _outage()
    outage.stopped()
    assert outage.paused_for() > 0.0
    outage.answered("a.test")
    assert outage.paused_for() == 0.0
    loop.close()
