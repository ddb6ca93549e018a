"""How long the day's budget holds the next request back, for whoever looks on.

The budget is both a ceiling of the UTC day and, at one and a half times its average rate, a pace (`global_key`): what
was not sent in time is caught up with slowly. With a small budget the pace alone makes minutes or hours between two
requests, which has to be told apart from a crawl that hangs.
"""

from collections.abc import Mapping
from typing import Final

from limpet.clock import Clock
from limpet.config.settings import Politeness
from limpet.politeness.keys import global_key
from limpet.politeness.shares import Shares

BUDGET: Final = "budget"
"""The reason of what waits for the budget."""
_DAY_US: Final = 86_400_000_000


def take_up(shares: Shares, policy: Politeness, clock: Clock, sent_on: Mapping[int, int]) -> None:
    """Tell a ledger what was sent before it: `sent_on` has the counts of today and yesterday (UTC days), as durable.

    Where nothing was sent on either day, the pace has nothing to hold back: its longest interval, with a budget of one
    request, is 16 hours. Anything sent lately leaves the first request to the ledger: an interval after the last start
    that it knows, or after its birth.
    """
    today = clock.wall_us() // _DAY_US
    shares.restore(today, sent_on.get(today, 0))
    key = global_key(policy)
    if key is not None and not sent_on.get(today, 0) and not sent_on.get(today - 1, 0):
        shares.begin(key, clock.boot_us())


def budget_days(clock: Clock) -> tuple[int, int]:
    """The days whose counts `take_up` wants."""
    today = clock.wall_us() // _DAY_US
    return today - 1, today


def budget_wait_us(shares: Shares, policy: Politeness, clock: Clock) -> int:
    """Microseconds until the budget lets the next request go, 0 = now. Without a budget, 0."""
    key = global_key(policy)
    if key is None:
        return 0
    now_us = clock.wall_us()
    if shares.requests(now_us // _DAY_US) >= policy.budget_per_day:
        return _DAY_US - now_us % _DAY_US
    blocked = shares.blocked((key,), clock.boot_us())
    return 0 if blocked is None else blocked.us
