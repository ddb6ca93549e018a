"""How long things last between processes whose clocks run at different rates."""

from typing import Final

import msgspec

CLOCK_RATE_ERROR_MAX: Final = 0.01
"""How much faster or slower than real time a boot clock may run; ordinary ones stay a hundred times nearer."""

RENEWALS_A_LEASE: Final = 3


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Spans of membership; every process of a crawl must use the same. `ValueError` when they could not be safe.

    `margin_seconds`: what observers wait beyond the lease. `fetch_seconds_max`: the longest that a request may take
    after its licence. `orphan_seconds`: how long a free shard that no living process is told to have stays alone.
    """

    lease_seconds: float = 20.0
    margin_seconds: float = 2.0
    fetch_seconds_max: float = 140.0
    poll_seconds: float = 1.0
    orphan_seconds: float = 20.0

    def __post_init__(self) -> None:
        """Refuse what could not be safe."""
        least = self.lease_seconds * (_stretch() - 1)
        if self.margin_seconds < least:
            raise ValueError(
                f"margin_seconds = {self.margin_seconds:g} must be {least:g} at least: so far apart may the clocks of "
                f"two machines be after a lease of {self.lease_seconds:g} s"
            )
        if not 0 < self.poll_seconds <= self.lease_seconds / RENEWALS_A_LEASE:
            raise ValueError(
                f"poll_seconds = {self.poll_seconds:g} must be a third of lease_seconds = {self.lease_seconds:g} at "
                "most, and more than 0"
            )

    @property
    def lease_us(self) -> int:
        """How long a renewal holds, from before it was sent, on its owner's clock."""
        return int(self.lease_seconds * 1e6)

    @property
    def renewal_us(self) -> int:
        """From one renewal to the next."""
        return self.lease_us // RENEWALS_A_LEASE

    @property
    def death_us(self) -> int:
        """A beat that an observer sees unchanged for so long, on its own clock, is that of a dead incarnation."""
        return int((self.lease_seconds + self.margin_seconds) * 1e6)

    @property
    def fetch_us(self) -> int:
        """The longest fetch of another machine, on this one's clock."""
        return int(self.fetch_seconds_max * _stretch() * 1e6)

    @property
    def takeover_us(self) -> int:
        """A beat unchanged for so long: dead, and whatever it had sent has ended."""
        return self.death_us + self.fetch_us

    @property
    def takeover_seconds_max(self) -> float:
        """From a death to the taking of its shards, while the table answers at once, real time.

        A take-over where the hint follows the death; where it never does, `orphan_seconds` and three polls for each
        living process come on top.
        """
        return (self.takeover_us / 1e6 + 3 * self.poll_seconds) / (1 - CLOCK_RATE_ERROR_MAX)


def _stretch() -> float:
    """A span on the fastest clock over the same span on the slowest."""
    return (1 + CLOCK_RATE_ERROR_MAX) / (1 - CLOCK_RATE_ERROR_MAX)
