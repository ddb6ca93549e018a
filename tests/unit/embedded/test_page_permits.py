from pathlib import Path

from limpet.embedded.quota import FileQuota, Unlimited


def test_permits_end_exactly_at_the_limit(tmp_path: Path) -> None:
    """Two workers together never take more than the limit, pages of earlier runs included."""
    path = tmp_path / "quota"
    first = FileQuota.create(path, 10, [3, 2])
    second = FileQuota(path, 1)
    taken = [quota.take() for _ in range(4) for quota in (first, second)]
    assert taken == [True] * 5 + [False] * 3
    assert first.left() == 0
    first.close()
    second.close()


def test_a_permit_given_back_can_be_taken_by_another(tmp_path: Path) -> None:
    """A redirect or a failure is no page: its permit goes round."""
    path = tmp_path / "quota"
    first = FileQuota.create(path, 1, [0, 0])
    second = FileQuota(path, 1)
    assert first.take()
    assert not second.take()
    first.give_back()
    assert second.take()
    first.close()
    second.close()


def test_permits_of_a_dead_worker_return_and_its_pages_stay_charged(tmp_path: Path) -> None:
    """A worker died with four permits out, of which recovery found three pages: one permit returns."""
    path = tmp_path / "quota"
    supervisor = FileQuota.create(path, 10, [2, 0])
    dead = FileQuota(path, 1)
    assert [dead.take() for _ in range(4)] == [True] * 4
    dead.close()
    assert supervisor.left() == 4
    supervisor.settle(1, 3)
    assert supervisor.left() == 5
    supervisor.close()


def test_a_limit_below_what_is_there_gives_nothing(tmp_path: Path) -> None:
    """A resume with a smaller limit sends no page, and the count of what is left is never negative."""
    quota = FileQuota.create(tmp_path / "quota", 5, [9])
    assert not quota.take()
    assert quota.left() == 0
    quota.close()


def test_no_limit_always_permits() -> None:
    """Without a limit nothing is counted."""
    quota = Unlimited()
    assert quota.take()
    quota.give_back()
