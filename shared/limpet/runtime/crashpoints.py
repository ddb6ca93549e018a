"""Process death as a port: every durable step has a named point on both sides."""

from typing import Final, Protocol

STEPS: Final = (
    "fetch.claim",
    "fetch.send",
    "fetch.wait",
    "fetch.append",
    "fetch.publish",
    "fetch.complete",
    "fetch.hand_back",
    "fetch.robots",
    "fetch.sitemaps",
    "fetch.deny",
    "fetch.rearm",
    "fetch.wait_out",
    "fetch.cancel",
    "fetch.uncancel",
    "fetch.adopt",
    "fetch.line",
    "fetch.notify",
    "parse.mark",
    "parse.acquit",
    "parse.publish",
    "parse.accept",
    "parse.commit",
    "parse.job",
    "parse.notify",
    "admit.rows",
    "admit.nearer",
    "admit.seen",
    "admit.count",
    "admit.commit",
    "recover.cut",
    "recover.adopt",
    "recover.line",
    "recover.publish",
    "recover.expire",
    "recover.waits",
    "recover.seal",
    "recover.republish",
    "recover.gap",
    "recover.pass",
)

CRASH_POINTS: Final = frozenset(f"{step}.{side}" for step in STEPS for side in ("before", "after"))
"""Every name a `Mortality` may be asked about: `step.before` (nothing happened yet) and `step.after` (durable)."""


class Killed(BaseException):
    """The process died here, in a rehearsal. A BaseException, so that no handler of ours can survive it."""


class Mortality(Protocol):
    """Asked at every crash point; may not return."""

    def crashpoint(self, name: str) -> None:
        """Return, or die. `name` is one of `CRASH_POINTS`."""
        ...


class Immortal:
    """Never dies at a crash point."""

    def crashpoint(self, name: str) -> None:
        """See `Mortality.crashpoint`."""
