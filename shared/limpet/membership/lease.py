"""The lease of one incarnation, as its owner counts it."""

from limpet.clock import Clock


class Lease:
    """Alive from the first acknowledged renewal until `lease_us` after the last one was *sent*; then gone for good.

    Counted from before the sending, since an observer may have seen the renewal at any instant after it. A renewal that
    is acknowledged when the lease has run out changes nothing: an observer that looked meanwhile may have seen it or
    not. Boot time counts while a machine sleeps or a process is stopped, and nobody can set it.
    """

    def __init__(self, incarnation: str, clock: Clock, lease_us: int) -> None:
        self.incarnation = incarnation
        self._clock = clock
        self._lease_us = lease_us
        self._ends_us: int | None = None

    def __repr__(self) -> str:
        state = "new" if self._ends_us is None else "alive" if self.alive() else "gone"
        return f"Lease({self.incarnation!r}, {state})"

    def alive(self) -> bool:
        """Whether the incarnation may act now. Once it was True and then False it never is True again."""
        return self._ends_us is not None and self._clock.boot_us() < self._ends_us

    def gone(self) -> bool:
        """Whether it was alive, and never will be again."""
        return self._ends_us is not None and not self.alive()

    def age_us(self) -> int | None:
        """Since the last acknowledged renewal was sent; None before the first, and once it was given up."""
        return None if not self._ends_us else self._clock.boot_us() - (self._ends_us - self._lease_us)

    def renewed(self, sent_us: int) -> None:
        """A renewal was acknowledged that was sent at `sent_us`, boot time."""
        if self._ends_us is None:
            self._ends_us = sent_us + self._lease_us
        elif self.alive():
            self._ends_us = max(self._ends_us, sent_us + self._lease_us)

    def end(self) -> None:
        """Give it up now."""
        self._ends_us = 0
