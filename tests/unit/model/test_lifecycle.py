"""The life of a URL: one table, and nothing beside it."""

import itertools

import pytest

from limpet.model.lifecycle import (
    TRANSITIONS,
    Actor,
    IllegalTransitionError,
    State,
    mermaid,
    move,
)


def test_every_arrow_can_be_taken_by_its_actor() -> None:
    """`move` answers with an arrow of the table that leads there."""
    for arrow in TRANSITIONS:
        taken = move(arrow.source, arrow.target, arrow.actor)
        assert taken in TRANSITIONS
        assert taken[1:] == arrow[1:]


def test_everything_beside_the_table_raises() -> None:
    """All combinations of source, target and actor that are no arrow are illegal, and the error names all three."""
    legal = {(arrow.source, arrow.target, arrow.actor) for arrow in TRANSITIONS}
    sources: list[State | None] = [None, *State]
    refused = 0
    for source, target, actor in itertools.product(sources, State, Actor):
        if (source, target, actor) in legal:
            continue
        with pytest.raises(IllegalTransitionError) as caught:
            move(source, target, actor)
        assert actor.value in str(caught.value)
        assert target.value in str(caught.value)
        refused += 1
    assert refused == len(sources) * len(State) * len(Actor) - len(legal)


def test_an_arrow_is_listed_once() -> None:
    """No two arrows say the same thing."""
    assert len(TRANSITIONS) == len(set(TRANSITIONS))


def test_every_state_can_be_reached_from_birth() -> None:
    """A state that nothing leads to would be dead."""
    reached: set[State] = set()
    frontier: set[State | None] = {None}
    while frontier:
        found = {arrow.target for arrow in TRANSITIONS if arrow.source in frontier} - reached
        reached |= found
        frontier = set(found)
    assert reached == set(State)


def test_a_url_leaves_every_state_but_by_a_named_exit() -> None:
    """No state is a trap: each has a way on, for the crawl or for an operator."""
    assert {arrow.source for arrow in TRANSITIONS} == {None, *State}


def test_only_admission_gives_birth_and_it_does_nothing_else() -> None:
    """Rows come into being by discovery alone."""
    for arrow in TRANSITIONS:
        assert (arrow.source is None) == (arrow.actor is Actor.ADMISSION)


def test_a_lease_ends_by_its_owner_by_recovery_or_by_an_operator() -> None:
    """Leaving `leased` is never admission's business, and claiming is only the crawl node's."""
    assert {arrow.actor for arrow in TRANSITIONS if arrow.target is State.LEASED} == {Actor.CRAWLNODE}
    ends = {arrow.actor for arrow in TRANSITIONS if arrow.source is State.LEASED}
    assert ends == {Actor.CRAWLNODE, Actor.RECOVERY, Actor.OPERATOR}


def test_only_due_and_fetched_rows_are_claimed() -> None:
    """A row in any other state needs somebody to re-arm it first."""
    assert {arrow.source for arrow in TRANSITIONS if arrow.target is State.LEASED} == {State.DUE, State.FETCHED}


def test_the_diagram_shows_every_arrow() -> None:
    """One line for each, with its name and who takes it."""
    lines = mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    assert len(lines) == len(TRANSITIONS) + 1
    for arrow in TRANSITIONS:
        source = "[*]" if arrow.source is None else arrow.source.value
        assert f"    {source} --> {arrow.target.value}: {arrow.name} ({arrow.actor.value})" in lines
