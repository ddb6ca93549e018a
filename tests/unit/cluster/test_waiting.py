"""Waiting for servers: it says so, never hammers, and ends nothing."""

import logging

import pytest

from limpet.cluster.waiting import PAUSE_SECONDS_MAX, Patience, PatientCalls, Waits
from limpet.model.errors import CannotGoOn, UsageError
from limpet.testing.chance import SeededRandom
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual
from unit.cluster.doubles import Flaky


class Rig:
    """Patience on virtual time."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.clock = SimClock(self.loop)
        self.waits = Waits(self.clock)
        self.patience = Patience(self.clock, SeededRandom(1), self.waits)


def test_an_outage_is_waited_out_with_growing_pauses() -> None:
    """A thousand tries take hours, not seconds: a server that comes back is not met by a storm."""
    rig, step = Rig(), Flaky(1000)
    assert run_virtual(rig.patience.insist("cassandra", step), rig.loop) == "held"
    assert step.calls == 1001
    assert rig.clock.monotonic() > 990 * PAUSE_SECONDS_MAX / 2
    assert rig.waits.now() == {}


def test_a_wait_is_told_while_it_lasts_and_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """The log of an outage is short."""
    rig, step = Rig(), Flaky(100)
    with caplog.at_level(logging.INFO, "limpet.cluster"):
        run_virtual(rig.patience.insist("kafka", step), rig.loop)
    said = [record.message for record in caplog.records]
    assert said.count("waiting") <= rig.clock.monotonic() / 60 + 1
    assert said[-1] == "goes on"


@pytest.mark.parametrize("error", [CannotGoOn("refused"), UsageError("wrong key")])
def test_a_refusal_is_not_waited_for(error: Exception) -> None:
    """Another try would not help."""
    rig, step = Rig(), Flaky(9, error)
    with pytest.raises(type(error)):
        run_virtual(rig.patience.insist("kafka", step), rig.loop)
    assert step.calls == 1


class Target:
    """Something with a verb that fails twice."""

    shard = 3

    def __init__(self) -> None:
        self.flaky = Flaky(2)

    async def verb(self, word: str, *, again: bool) -> str:
        """The verb."""
        return f"{await self.flaky()} {word} {again}"


def test_calls_become_patient_one_by_one() -> None:
    """Named verbs are tried until they hold; everything else is the target's own."""
    rig, target = Rig(), Target()
    patient = PatientCalls(target, "store 3", rig.patience, frozenset({"verb"}))
    assert patient.shard == 3
    assert patient.flaky is target.flaky
    assert run_virtual(patient.verb("on", again=True), rig.loop) == "held on True"
