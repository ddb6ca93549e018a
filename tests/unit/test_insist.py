"""Steps of ours are tried until they hold, and not where another try would not help."""

import pytest

from limpet.bus import OversizedError, UnknownTopicError
from limpet.model.errors import CannotGoOn, Definite, Indefinite, LimpetError
from limpet.runtime.insist import RETRY_SECONDS, insist
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual


class Step:
    """Fails with each of `errors` in turn, then holds."""

    def __init__(self, *errors: LimpetError) -> None:
        self.errors = list(errors)
        self.tries = 0
        self.renewed = 0

    async def __call__(self) -> int:
        """How often it was tried."""
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.tries

    async def renew(self) -> None:
        """What is done between two tries."""
        self.renewed += 1


def insisted(step: Step) -> tuple[int, float]:
    """What came of it, and after how many seconds."""
    loop = VirtualLoop()
    clock = SimClock(loop)

    async def run() -> tuple[int, float]:
        begun = clock.monotonic()
        return await insist(step, clock, step.renew), clock.monotonic() - begun

    return run_virtual(run(), loop)


def test_an_outage_of_ours_is_waited_out() -> None:
    """Whatever is known of the effect: one pause and one look after the lease before each further try."""
    step = Step(Definite("down"), Indefinite("no answer"))
    tries, seconds = insisted(step)
    assert (tries, round(seconds, 6)) == (3, 2 * RETRY_SECONDS)
    assert step.renewed == 2


@pytest.mark.parametrize("error", [CannotGoOn("disk"), UnknownTopicError("no such topic"), OversizedError("too large")])
def test_what_no_retry_mends_ends_it_at_once(error: LimpetError) -> None:
    """A bus that refuses is no outage: a crawl node that went on trying would keep its leases for ever."""
    step = Step(error)
    with pytest.raises(type(error)):
        insisted(step)
    assert (step.tries, step.renewed) == (1, 0)
