"""What is made of a conditional write whose answer was lost."""

import asyncio

import pytest

from limpet.model.errors import Indefinite
from limpet.testing.cassandra import Fate, LossySession, Row
from limpet.testing.chance import SeededRandom
from limpet.urlstore.cassandra.writes import ATTEMPTS_MAX, Ruling, Writes

FP = b"f" * 16


class OvertakenSession(LossySession):
    """Somebody claims the row between our write and our reading."""

    async def settled(self, name: str, /, **params: object) -> Row | None:
        """The row as they left it."""
        row = await super().settled(name, **params)
        return None if row is None else row | {"stamp": b"theirs", "state": "leased"}


def waits(row: Row, _: Row | None = None) -> bool:
    """The condition of the write, as Cassandra and as the guard see it."""
    return bool(row["state"] == "due")


def write(session: LossySession) -> Ruling:
    """Lease the row."""
    writes = Writes(session, SeededRandom(1))
    return asyncio.run(writes.guarded("url_claim", FP, waits, state="leased"))


def session(*fates: Fate, state: str = "due", silent_reads: int = 0) -> LossySession:
    """A row that waits, or is in another state."""
    return LossySession({"state": state, "stamp": b""}, waits, fates, silent_reads=silent_reads)


@pytest.mark.parametrize(
    "fates",
    [
        (Fate.ANSWERED,),
        (Fate.LOST_REPLY,),
        (Fate.DENIED,),
        (Fate.LOST_REQUEST,),
        (Fate.LATE,),
        (Fate.LOST_REQUEST, Fate.LOST_REPLY),
        (Fate.LATE, Fate.LOST_REPLY),
        (Fate.LOST_REQUEST, Fate.DENIED),
    ],
    ids=lambda fates: " ".join(fate.name for fate in fates),
)
def test_a_write_whose_condition_held_is_applied_once_and_known_to_be(fates: tuple[Fate, ...]) -> None:
    """Whatever was lost on the way, and although it may have been sent again."""
    store = session(*fates)
    assert write(store).applied is True
    assert store.applied == 1
    assert store.row is not None
    assert store.row["state"] == "leased"


@pytest.mark.parametrize("fate", [Fate.ANSWERED, Fate.LOST_REPLY, Fate.LOST_REQUEST, Fate.LATE])
def test_a_write_whose_condition_does_not_hold_is_known_not_to_be_applied(fate: Fate) -> None:
    """Silence is no reason to believe in it, nor to send it again."""
    store = session(fate, state="fetched")
    found = write(store)
    assert found.applied is False
    assert found.row is not None
    assert found.row["state"] == "fetched"
    assert (store.applied, store.sent) == (0, 1)


def test_a_row_that_is_not_there_is_not_written() -> None:
    """Neither when that was answered nor when it has to be read."""
    for fate in (Fate.ANSWERED, Fate.LOST_REPLY):
        store = LossySession(None, waits, [fate])
        assert write(store) == Ruling(applied=False, row=None)


def test_lasting_silence_leaves_the_fate_unknown() -> None:
    """The caller is told so, after a bounded number of attempts."""
    store = session(*[Fate.LOST_REQUEST] * 9)
    with pytest.raises(Indefinite, match="no answer"):
        write(store)
    assert store.sent == ATTEMPTS_MAX


def test_a_read_that_fails_leaves_the_fate_unknown() -> None:
    """A question without an answer says nothing about the write before it."""
    store = session(Fate.LOST_REPLY, silent_reads=1)
    with pytest.raises(Indefinite, match="without an answer"):
        write(store)
    assert store.applied == 1


@pytest.mark.parametrize("proven", [True, False])
def test_a_proof_elsewhere_counts_when_others_have_written_the_row_since(proven: bool) -> None:
    """An outcome with our stamp was written by us, although the row carries another one by now."""
    store = OvertakenSession({"state": "due", "stamp": b""}, waits, [Fate.LOST_REPLY])

    async def proof(_: bytes) -> bool:
        return proven

    writes = Writes(store, SeededRandom(1))
    ruling = asyncio.run(writes.guarded("url_complete", FP, waits, proof=proof, state="fetched"))
    assert ruling.applied is proven
