"""Receipts of groups of writes."""

import asyncio
from pathlib import Path

import pytest

from limpet.clock import SystemClock
from limpet.model.errors import CannotGoOn, Definite, Indefinite
from limpet.receipts import Action, Ambiguous, Recorder, Transport, Verdict
from limpet.testing.memory_receipts import MemoryReceiptLog
from limpet.urlstore.cassandra.batches import ACCEPT, TRADES, UNRECORDED, Batches
from limpet.urlstore.cassandra.guarded import AT_ONCE_MAX


def batches(recorder: Recorder) -> Batches:
    return Batches(recorder, SystemClock(), crawl="c", incarnation="i", target="urlstore/7")


async def twice(number: int) -> int:
    return 2 * number


def test_a_group_is_cut_into_chunks_and_each_leaves_a_receipt() -> None:
    """Bounded; clean ones are kept in the ring, and the answers come in order."""
    recorder = Recorder(MemoryReceiptLog())
    count = AT_ONCE_MAX + 3
    assert asyncio.run(batches(recorder).each(ACCEPT, range(count), twice)) == [2 * n for n in range(count)]
    first, second = recorder.recent
    assert (first.commands, first.chunk, first.chunks, second.commands, second.chunk) == (AT_ONCE_MAX, 1, 2, 3, 2)
    assert first.clean
    assert second.classes == {"INSERT parse IF": 3}
    assert first.job == second.job
    assert asyncio.run(batches(recorder).each(ACCEPT, [], twice)) == []
    assert len(recorder.recent) == 2


def test_a_group_that_is_done_in_part_says_which_part() -> None:
    """The first failure is raised after all have ended; the receipt is durable and names no key."""

    async def act(number: int) -> int:
        if number == 2:
            raise Definite("row secret: unavailable")
        if number in {3, 5}:
            raise Indefinite("row secret: timed out")
        return number

    log = MemoryReceiptLog()
    with pytest.raises(Definite):
        asyncio.run(batches(Recorder(log)).each(ACCEPT, range(6), act))
    (receipt,) = log.receipts
    assert (receipt.succeeded, receipt.failed, receipt.transport) == (3, 3, Transport.TIMED_OUT)
    assert [(one.index, one.code) for one in receipt.failures] == [
        (2, "DEFINITE"),
        (3, "INDEFINITE"),
        (5, "INDEFINITE"),
    ]
    assert receipt.ambiguous == Ambiguous(begin=3, end=6)
    assert (receipt.action, receipt.verdict) == (Action.RETRY, Verdict.UNKNOWN)
    assert "secret" not in repr(receipt)


def test_a_refused_statement_is_told_from_an_unanswered_one() -> None:
    """What the servers will refuse again is no matter of transport."""

    async def act(_: int) -> None:
        raise CannotGoOn("refused")

    log = MemoryReceiptLog()
    with pytest.raises(CannotGoOn):
        asyncio.run(batches(Recorder(log)).each(ACCEPT, [1], act))
    assert [(one.transport, one.failures[0].code, one.ambiguous) for one in log.receipts] == [
        (Transport.COMPLETE, "REFUSED", None)
    ]


def test_without_a_recorder_the_same_is_done() -> None:
    """A reader leaves no receipts."""
    assert asyncio.run(UNRECORDED.each(ACCEPT, range(70), twice)) == [2 * n for n in range(70)]


def test_every_kind_of_group_has_a_name_of_its_own() -> None:
    """Receipts are counted by it, and the page says of each what follows."""
    assert len({trade.operation for trade in TRADES}) == len(TRADES)
    page = (Path(__file__).parents[3] / "docs" / "urlstore-cassandra.md").read_text()
    assert [trade.operation for trade in TRADES if f"`{trade.operation}`" not in page] == []
