"""While ceilings are each node's own, one node works."""

from limpet.cluster.sole import SoleWorker, hint_of
from limpet.config import Settings
from limpet.config.settings import Politeness, Rules
from limpet.membership import StaticShare


def test_one_has_all_and_the_others_none() -> None:
    """However many there are: the group gives its first partition to one of them."""
    shares = [SoleWorker(StaticShare(slot, 3, 32), 32).share() for slot in range(3)]
    assert shares == [frozenset(range(32)), frozenset(), frozenset()]


def test_a_crawl_of_own_hosts_is_divided() -> None:
    """No ceiling binds it, unless it has a budget."""
    group = StaticShare(0, 2, 32)
    own = Rules(owned_hosts_only=True)
    assert hint_of(Settings(rules=own), group, 32) is group
    assert isinstance(hint_of(Settings(), group, 32), SoleWorker)
    assert isinstance(hint_of(Settings(rules=own, politeness=Politeness(budget_per_day=9)), group, 32), SoleWorker)
