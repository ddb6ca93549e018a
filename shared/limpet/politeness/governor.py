"""The governor: when a host may be asked again. Catch-up is capped by it, never by backlog.

One connection a host, and from the end of one response to the start of the next request at least the gap: the largest
of the floor, the site's crawl-delay and a multiple of its last response time. A wait that the site asked for
(Retry-After) comes on top and is durable. Nothing piles up while the process is down: after a start a host waits one
full gap, and two gaps if a request of ours may still have been under way (see `unfinished_wait_seconds`).

Gaps are measured on the monotonic clock, waits in durable time; no wall clock is read here.
"""

from collections.abc import Callable

from msgspec.structs import replace

from limpet.clock import Clock
from limpet.config.settings import Politeness
from limpet.urlstore.types import HostRow

UNFINISHED_SECONDS_MIN = 10.0
UNFINISHED_OWNED_SECONDS_MIN = 1.0
UNFINISHED = "unfinished request"
BUSY_SECONDS = 0.05


class HostState:
    """What is known of one host in this process."""

    __slots__ = ("busy", "crawl_delay_seconds", "free_at", "last_good_us", "owned", "row", "saved")

    def __init__(self, row: HostRow, *, owned: bool, free_at: float) -> None:
        self.row = row
        self.saved = row
        self.owned = owned
        self.busy = False
        self.free_at = free_at  # monotonic second at which the gap after the last exchange is over
        self.crawl_delay_seconds = 0.0
        self.last_good_us = 0


class Permit:
    """The right to one exchange with one host; must be ended exactly once."""

    __slots__ = ("gap_seconds", "state")

    def __init__(self, state: HostState, gap_seconds: float) -> None:
        self.state = state
        self.gap_seconds = gap_seconds


class Governor:
    """Politeness of the hosts that this process owns."""

    def __init__(self, clock: Clock, policy: Politeness, is_owned: Callable[[str], bool]) -> None:
        self._clock = clock
        self._policy = policy
        self._is_owned = is_owned
        self._hosts: dict[str, HostState] = {}
        self._started = clock.monotonic()
        self._rate_free_at = self._started

    def host(self, host: str, load: Callable[[str], HostRow | None] = lambda _: None) -> HostState:
        """The state of a host, made from its durable row the first time: it then waits one full gap from the start."""
        state = self._hosts.get(host)
        if state is None:
            row = load(host) or HostRow(host=host)
            state = HostState(row, owned=self._is_owned(host), free_at=self._started)
            state.free_at += self.gap_seconds(state)
            self._hosts[host] = state
        return state

    def gap_seconds(self, state: HostState) -> float:
        """The gap in force: seconds from the end of a response to the next request."""
        if state.owned:
            return max(self._policy.delay_seconds, state.crawl_delay_seconds)
        latency = state.row.response_us / 1e6 * self._policy.latency_multiple
        return max(
            self._policy.floor_seconds,
            self._policy.delay_seconds,
            state.crawl_delay_seconds,
            min(self._policy.latency_gap_seconds_max, latency),
        )

    def set_crawl_delay(self, state: HostState, seconds: float) -> None:
        """Obey a crawl-delay of one of the host's authorities; the largest wins, and it counts from the last end."""
        if seconds > state.crawl_delay_seconds:
            before = self.gap_seconds(state)
            state.crawl_delay_seconds = seconds
            state.free_at += self.gap_seconds(state) - before

    def ready_in(self, state: HostState) -> float:
        """Seconds until the host may be asked; 0 or less = now. A busy host is not ready: ask again a little later."""
        gap = state.free_at - self._clock.monotonic()
        wait = (state.row.wait_us - self._clock.wall_us()) / 1e6 if state.row.wait_us else 0.0
        busy = BUSY_SECONDS if state.busy else 0.0
        return max(gap, wait, busy, self._rate_free_at - self._clock.monotonic())

    def permit(self, state: HostState) -> Permit | None:
        """The permit for one exchange, now or not at all."""
        if state.busy or self.ready_in(state) > 0:
            return None
        state.busy = True
        self._spend_rate()
        return Permit(state, self.gap_seconds(state))

    def end(self, permit: Permit, duration_us: int, *, sent: bool = True) -> None:
        """The exchange is over (its connection closed): the gap begins. With `sent` False nothing went out."""
        state = permit.state
        state.busy = False
        if sent:
            state.row = replace(state.row, response_us=duration_us)
            state.free_at = self._clock.monotonic() + self.gap_seconds(state)

    def wait_until(self, state: HostState, until_us: int, reason: str) -> HostRow:
        """Hold the host until durable time `until_us`; never shortens a wait. The row to persist."""
        if until_us > state.row.wait_us:
            state.row = replace(state.row, wait_us=until_us, wait_reason=reason)
        return state.row

    def disown(self, state: HostState) -> None:
        """The host turned out to live at a public address: nobody's word makes it ours, and every gap applies."""
        state.owned = False

    def unfinished(self, state: HostState, longest_seconds: float = 0.0) -> HostRow:
        """The row to persist where a request may stay unfinished: whoever starts next then waits two gaps.

        `longest_seconds`: how long the request may still take. Nothing changes for this process: it will see the end.
        """
        seconds = longest_seconds + unfinished_wait_seconds(self.gap_seconds(state), owned=state.owned)
        until_us = self._clock.wall_us() + int(seconds * 1e6)
        if until_us <= state.row.wait_us:
            return state.row
        return replace(state.row, wait_us=until_us, wait_reason=UNFINISHED)

    def failing(self, state: HostState, *, good: bool) -> None:
        """Count answers that mean trouble, for the length of the next wait; a good answer resets."""
        state.row = replace(state.row, failing=0 if good else state.row.failing + 1)
        if good:
            state.last_good_us = self._clock.wall_us()

    def unsaved(self, state: HostState) -> HostRow | None:
        """The row, when it differs from the last one handed out in what a restart would need; else None."""
        old, new = state.saved, state.row
        matters = self._policy.floor_seconds * 1e6 / max(self._policy.latency_multiple, 1e-9)
        slower = not state.owned and new.response_us > max(matters, 1.2 * old.response_us)
        if old.wait_us == new.wait_us and old.failing == new.failing and not slower:
            return None
        state.saved = new
        return new

    def _spend_rate(self) -> None:
        if self._policy.global_rate_max > 0:
            now = self._clock.monotonic()
            self._rate_free_at = max(now, self._rate_free_at) + 1.0 / self._policy.global_rate_max


def unfinished_wait_seconds(gap_seconds: float, *, owned: bool) -> float:
    """How long a host waits after a start when a request to it may still have been under way."""
    return max(2 * gap_seconds, UNFINISHED_OWNED_SECONDS_MIN if owned else UNFINISHED_SECONDS_MIN)
