"""Our own health, confirmed before every send: an outage of ours stops fetching, it never makes the web our buffer."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping

from limpet.clock import DurableClock
from limpet.model.errors import LimpetError

CONFIRM_EVERY_FRACTION = 0.3
OUTAGE = "outage"
"""Why a host waits whose failure was taken for ours."""


class Health:
    """Confirms every part again and again; a part is healthy while its last confirmation is young enough."""

    def __init__(
        self, clock: DurableClock, parts: Mapping[str, Callable[[], Awaitable[None]]], *, age_seconds_max: float
    ) -> None:
        self._clock = clock
        self._parts = dict(parts)
        self._age_seconds_max = age_seconds_max
        self._confirmed: dict[str, float] = {}
        self.last_error: LimpetError | None = None

    def unhealthy(self) -> str | None:
        """Name of a part that was not confirmed lately, or "clock" when the clock gate is shut; None = all is well."""
        if not self._clock.agrees():
            return "clock"
        oldest = self._clock.monotonic() - self._age_seconds_max
        return next((name for name in self._parts if self._confirmed.get(name, -1e18) < oldest), None)

    async def confirm(self) -> None:
        """Ask every part once."""
        for name, ask in self._parts.items():
            asked = self._clock.monotonic()
            try:
                await ask()
            except LimpetError as error:
                self.last_error = error
                self._confirmed.pop(name, None)
            else:
                self._confirmed[name] = asked

    async def run(self) -> None:
        """Confirm for ever, well within the allowed age."""
        while True:
            await self.confirm()
            await self._clock.sleep(self._age_seconds_max * CONFIRM_EVERY_FRACTION)


class Outage:
    """Tells failures of sites from failures of our own uplink or resolver.

    Network failures of several unrelated domains that had answered before, within a short time and with no answer from
    anyone in between, are ours: claiming stops for a while and nothing is counted. Who was excused so is left alone for
    longer each time, until it answers: sites that die together look the same, and must not be asked for ever.
    """

    DOMAINS_MIN = 3
    WINDOW_SECONDS = 30.0
    PAUSE_SECONDS = 30.0
    EXCUSE_SECONDS_MAX = 3_600.0
    SETTLE_SECONDS = 2.0
    KNOWN_MAX = 10_000

    def __init__(self, clock: DurableClock) -> None:
        self._clock = clock
        self._answered: OrderedDict[str, None] = OrderedDict()
        self._failing: dict[str, float] = {}
        self._excused: OrderedDict[str, tuple[float, float]] = OrderedDict()  # domain: how long, and until when
        self._paused_until = 0.0

    def answered(self, domain: str) -> None:
        """Somebody answered: the uplink works."""
        self._failing.clear()
        self._paused_until = 0.0
        self._excused.pop(domain, None)
        self._answered[domain] = None
        self._answered.move_to_end(domain)
        if len(self._answered) > self.KNOWN_MAX:
            self._answered.popitem(last=False)

    def failed(self, domain: str) -> None:
        """No answer from `domain`."""
        if domain not in self._answered:
            return
        now = self._clock.monotonic()
        self._failing[domain] = now
        recent = [name for name, at in self._failing.items() if at > now - self.WINDOW_SECONDS]
        if len(recent) >= self.DOMAINS_MIN:
            self._paused_until = now + self.PAUSE_SECONDS

    def excuse(self, domain: str) -> float:
        """A failure of `domain` was ours: for how many seconds it is left alone. Twice as long as the last time."""
        now = self._clock.monotonic()
        seconds, until = self._excused.get(domain, (self.PAUSE_SECONDS / 2, now))
        if until <= now:  # else another failure of the same time
            seconds = min(2 * seconds, self.EXCUSE_SECONDS_MAX)
            until = now + seconds
            self._excused[domain] = (seconds, until)
            self._excused.move_to_end(domain)
            if len(self._excused) > self.KNOWN_MAX:
                self._excused.popitem(last=False)
        return until - now

    def stopped(self) -> None:
        """Our own proxy failed: nobody can be asked."""
        self._paused_until = self._clock.monotonic() + self.PAUSE_SECONDS

    def paused_for(self) -> float:
        """Seconds for which nothing is to be claimed; 0 = no outage."""
        return max(0.0, self._paused_until - self._clock.monotonic())
