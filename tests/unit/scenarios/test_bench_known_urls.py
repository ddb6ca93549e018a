"""The large crawl that a resume is measured with."""

from collections import Counter

import pytest

from limpet.embedded.folder import Folder
from limpet.embedded.views import ShardViews, was_left_unclean
from limpet.model.lifecycle import State
from limpet.urlstore import counters
from origin import make_web
from scenarios.known_urls import MIX, build, fate

HOSTS, PER_HOST = 6, 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A small one."""
    web = make_web("bench", seed=7, port=8080, hosts=HOSTS, pages=PER_HOST)
    path = tmp_path_factory.mktemp("known") / "crawl"
    build(path, web.seeds(), HOSTS * PER_HOST, "127.0.0.0/8", web.rules("").robots_text().encode())
    return Folder.open(path)


def test_the_mix_of_states_is_that_of_a_thousand() -> None:
    """Every state has its share, whatever the number of URLs."""
    assert sum(MIX.values()) == 1000
    assert Counter(fate(number, 1000) for number in range(1000)) == MIX
    assert Counter(fate(number, 2000) for number in range(2000)) == {state: 2 * count for state, count in MIX.items()}


def test_every_url_is_a_row_in_its_state(folder: Folder) -> None:
    """Rows, outcomes, outputs and counters agree with the mix."""
    totals: Counter[str] = Counter()
    with ShardViews(folder) as views:
        for _, view in views:
            totals.update(view.counters())
    states = {state: totals[counters.of_state(state)] for state in MIX}
    assert states == {state: HOSTS * PER_HOST * count // 1000 for state, count in MIX.items()}
    assert totals[counters.ADMITTED] == HOSTS * PER_HOST
    assert totals[counters.OUTPUTS] == states[State.FETCHED] == totals[counters.PAGES]
    assert totals[counters.OUTCOMES] == sum(states[state] for state in (State.FETCHED, State.GONE, State.FAILED))


def test_the_crawl_was_left_in_good_order(folder: Folder) -> None:
    """A resume of it measures a resume, not a recovery."""
    assert not was_left_unclean(folder)
    settings = folder.load_settings()
    assert settings is not None
    assert settings.owned == ("127.0.0.0/8",)
