"""The life of a URL as one table: every exit, and who may take it.

The diagram in docs/lifecycle.md is drawn from `TRANSITIONS` (`python -m limpet.model.lifecycle`). A row is born by
`discover`; nothing else creates one and nothing deletes one.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from limpet.model.errors import LimpetError


class State(StrEnum):
    """Where a URL is. A URL with a row is always in exactly one of these."""

    DUE = "due"  # waits for its due time
    LEASED = "leased"  # a claim holds it until the lease ends
    FETCHED = "fetched"  # its latest body is archived
    GONE = "gone"  # the site says it is not to be had
    DENIED = "denied"  # robots.txt disallows it
    FAILED = "failed"  # gave up on purpose
    PARKED = "parked"  # held back by a rule of ours
    REVIEW = "review"  # a person has to look
    CANCELLED = "cancelled"  # an operator took it out


class Actor(StrEnum):
    """Who may move a URL."""

    ADMISSION = "admission"
    CRAWLNODE = "crawlnode"
    RECOVERY = "recovery"
    OPERATOR = "operator"


class Transition(NamedTuple):
    """One arrow. `source` None means that the row is born."""

    name: str
    source: State | None
    target: State
    actor: Actor


class IllegalTransitionError(LimpetError):
    """A move that the table does not hold."""


def _arrows() -> tuple[Transition, ...]:
    due, leased, fetched = State.DUE, State.LEASED, State.FETCHED
    node, recovery, operator = Actor.CRAWLNODE, Actor.RECOVERY, Actor.OPERATOR
    rows = [
        Transition("discover", None, due, Actor.ADMISSION),
        Transition("park", None, State.PARKED, Actor.ADMISSION),
        Transition("clash", None, State.REVIEW, Actor.ADMISSION),
        Transition("refuse", None, State.CANCELLED, Actor.ADMISSION),
        Transition("claim", due, leased, node),
        Transition("recrawl", fetched, leased, node),
        Transition("fetch", leased, fetched, node),
        Transition("retry", leased, due, node),
        Transition("hand_back", leased, due, node),
        Transition("gone", leased, State.GONE, node),
        Transition("deny", leased, State.DENIED, node),
        Transition("give_up", leased, State.FAILED, node),
        Transition("bad_data", leased, State.REVIEW, node),
        Transition("rearm_denied", State.DENIED, due, node),
        Transition("wait_out", due, State.FAILED, node),
        Transition("interrupt", leased, due, recovery),
        Transition("suspect_poison", leased, State.REVIEW, recovery),
    ]
    for source in (leased, due, State.CANCELLED):  # an operator may have ended the lease of a request under way
        rows += [Transition("adopt", source, target, recovery) for target in (fetched, State.GONE)]
    rows += [Transition("cancel", source, State.CANCELLED, operator) for source in (leased, due)]
    rearmable = (State.FAILED, State.PARKED, State.REVIEW, State.GONE, State.CANCELLED)
    rows += [Transition("rearm", source, due, operator) for source in rearmable]
    return tuple(rows)


TRANSITIONS: Final = _arrows()
_MOVES: Final = {(arrow.source, arrow.target, arrow.actor): arrow for arrow in TRANSITIONS}


def move(source: State | None, target: State, actor: Actor) -> Transition:
    """The arrow from `source` to `target` that `actor` may take. Raises `IllegalTransitionError` if there is none."""
    try:
        return _MOVES[source, target, actor]
    except KeyError:
        begin = "nothing" if source is None else source.value
        raise IllegalTransitionError(f"{actor.value} may not move a URL from {begin} to {target.value}") from None


def mermaid() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2"]
    for arrow in TRANSITIONS:
        source = "[*]" if arrow.source is None else arrow.source.value
        lines.append(f"    {source} --> {arrow.target.value}: {arrow.name} ({arrow.actor.value})")
    return "\n".join(lines)


if __name__ == "__main__":
    print(mermaid())  # noqa: T201 - this module as a program prints the diagram
