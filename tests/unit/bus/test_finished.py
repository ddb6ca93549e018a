"""How far a committed offset may move."""

from hypothesis import given
from hypothesis import strategies as st

from limpet.bus.finished import Finished


def test_contiguous_work_moves_the_offset() -> None:
    """Past the last message before which everything is finished."""
    work = Finished(10)
    work.receive([10, 11, 12])
    assert work.target() == 10
    work.finish(11)
    assert work.target() == 10
    work.finish(10)
    assert work.target() == 12
    assert work.moved(12) == 2
    assert work.committed == 12


def test_an_offset_never_moves_back() -> None:
    """What is finished a second time, or late, changes nothing."""
    work = Finished(10)
    work.receive([10, 11])
    work.finish(10)
    assert work.moved(work.target()) == 1
    work.finish(3)
    work.finish(10)
    assert work.target() == 11
    assert work.moved(5) == 0
    assert work.committed == 11


def test_a_failed_commit_changes_nothing() -> None:
    """`target` may be asked again; only `moved` moves."""
    work = Finished(0)
    work.receive([0, 4])
    work.finish(0)
    assert work.target() == work.target() == 1
    assert work.covers(1) == 1
    assert work.committed == 0


@given(st.permutations(range(12)), st.integers(1, 12))
def test_whatever_the_order_nothing_unfinished_is_passed(order: list[int], every: int) -> None:
    """After each commit all offsets below it are finished; at the end everything is committed."""
    work = Finished(0)
    work.receive([2 * n for n in range(12)])
    finished: set[int] = set()
    for count, index in enumerate(order, 1):
        work.finish(2 * index)
        finished.add(2 * index)
        assert all(offset in finished for offset in range(0, work.target(), 2))
        if count % every == 0:
            work.moved(work.target())
    work.moved(work.target())
    assert work.committed == 23
