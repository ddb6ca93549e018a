"""Who is to blame for a page that was asked twice, tried on requests that never were."""

from dataclasses import replace

import pytest

from e2e.cluster.blame import Laid, blame, by_kind, repetitions, time_standstills
from e2e.cluster.evidence import Left
from e2e.cluster.siege import await_end
from origin.events import Requested
from origin.visits import Visit

SECOND = 10**9
HOST = "127.0.1.1:80"


def visit(second: float, path: str = "/a", status: int = 200) -> Visit:
    """A request that was answered within a second."""
    t_ns = int(second * SECOND)
    asked = Requested(t_ns, t_ns, 1, 1, "127.0.1.1", HOST, "GET", path, "", "limpet/1", False, False)
    return Visit(asked, t_ns, t_ns + SECOND, status, None, complete=True)


def fault(began: float, ended: float) -> Laid:
    """A fault between two seconds."""
    return Laid("kill -9 crawlnode", "crawlnode-1", int(began * SECOND), 0, int(ended * SECOND))


def test_a_fault_on_the_way_to_the_outcome_is_to_blame() -> None:
    """It came after the request and before its lease had run out; the repetition came after it."""
    killed = fault(100.5, 102)
    assert blame([killed], [visit(100), visit(130)], settle_seconds=20) == []
    assert killed.duplicates == {f"http://{HOST}/a": 1}
    assert by_kind([killed])["kill -9 crawlnode"]["duplicates_max"] == 1


def test_a_fault_long_before_or_after_explains_nothing() -> None:
    """Neither one whose traces are gone, nor one that came when the outcome had long been there."""
    found = blame([fault(10, 12), fault(160, 161)], [visit(100), visit(130)], settle_seconds=20)
    assert [line.split(":")[0] for line in found] == ["needless fetch"]
    assert blame([fault(140, 141)], [visit(100), visit(130)], settle_seconds=60) != []


def test_of_two_faults_the_likelier_is_to_blame() -> None:
    """A parser stands beside the way of a request; of those on it the nearest counts."""
    parser = Laid("kill -9 parser", "parser-1", int(100.1 * SECOND), 0, 101 * SECOND)
    near, far = fault(100.4, 101), fault(103, 104)
    assert blame([parser, far, near], [visit(100), visit(130)], settle_seconds=20) == []
    assert [one.duplicates.total() for one in (parser, far, near)] == [0, 0, 1]


def test_what_was_refused_is_asked_again_by_right() -> None:
    """503 and 429 are waits."""
    assert repetitions([visit(1, status=503), visit(9, status=429), visit(20), visit(30, "/b")]) == []


def test_a_standstill_is_the_longest_time_without_an_answer() -> None:
    """From a fault to the next, or to the last answer; not what came before it, or was never answered."""
    first, second = fault(100, 102), fault(130, 131)
    cut = replace(visit(115), complete=False)
    time_standstills([first, second], [visit(60), visit(105), cut, visit(128), visit(132), visit(140), visit(170)])
    assert (first.standstill_seconds, second.standstill_seconds) == (23.0, 30.0)
    assert by_kind([first, second])["kill -9 crawlnode"]["standstill_seconds_max"] == 30.0
    time_standstills([late := fault(180, 181)], [visit(1)])
    assert late.standstill_seconds == 0.0


def test_the_end_is_seen_twice() -> None:
    """One look that finds nothing left is not enough: a message may be between two places."""
    done, busy = Left(states={"fetched": 2}), Left(states={"fetched": 1}, due=1)
    looks = [busy, done, busy, done, Left(states={"fetched": 3}), Left(states={"fetched": 3})]
    left = iter(looks)
    await_end(lambda: next(left), seconds_max=60.0, poll_seconds=0.0)
    assert list(left) == []


def test_what_never_ends_is_told() -> None:
    """The message says what is left."""
    stuck = Left(states={"due": 3}, due=3, samples=("http://x.test/ is due",))
    with pytest.raises(AssertionError, match=r"3 due, 0 leased.*http://x.test/ is due"):
        await_end(lambda: stuck, seconds_max=0.0, poll_seconds=0.0)
