"""Licensing a URL from what is known of its authority's robots.txt."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from limpet.robots.retrieval.answers import RobotsCopy
from limpet.robots.retrieval.state import RobotsState, usable_copy
from limpet.robots.rules import Rules, parse

RULES_CACHED_MAX: Final = 1_024
BODIES_CACHED_BYTES_MAX: Final = 8 << 20
"""Compiled rules take about ten times the room of the body they came from."""

_ALLOW_ALL: Final = parse(b"")


class License(msgspec.Struct, frozen=True, tag=True):
    """A verdict from an unexpired copy: `digest` is the copy's, `rule` the line that decided, if one did."""

    allowed: bool
    digest: str
    rule: str | None


class Wait(msgspec.Struct, frozen=True, tag=True):
    """Complete disallow for now: robots.txt is unreachable; ask again at `until_us`."""

    until_us: int
    reason: str


class Fetch(msgspec.Struct, frozen=True, tag=True):
    """robots.txt must be fetched first."""


class RobotsJudge:
    """Answers from the stored state alone; keeps compiled rules, by digest, in a bounded least-recently-used cache."""

    def __init__(self, *, rules_max: int = RULES_CACHED_MAX, body_bytes_max: int = BODIES_CACHED_BYTES_MAX) -> None:
        self._rules_max = rules_max
        self._body_bytes_max = body_bytes_max
        self._body_bytes = 0
        self._cache: OrderedDict[str, tuple[Rules, int]] = OrderedDict()

    def license(self, state: RobotsState, agent: str, url: str, now_us: int) -> License | Wait | Fetch:
        """May the agent fetch the URL now? Fails closed: allowed only by an unexpired copy.

        Whether it is time to give up is for `gives_up` to say, before a Fetch is acted on.
        """
        copy = usable_copy(state, now_us)
        if copy is not None:
            decision = self._rules(copy).decide(agent, url)
            return License(decision.allowed, copy.digest, decision.rule)
        if now_us < state.retry_at_us:
            return Wait(state.retry_at_us, state.reason)
        return Fetch()

    def rules(self, state: RobotsState, now_us: int) -> Rules | None:
        """The rules that count now, for crawl-delay, sitemaps and names; None if no copy is usable."""
        copy = usable_copy(state, now_us)
        return None if copy is None else self._rules(copy)

    def __len__(self) -> int:
        """How many compiled robots.txt are kept."""
        return len(self._cache)

    def _rules(self, copy: RobotsCopy) -> Rules:
        if copy.status == "allow_all":
            return _ALLOW_ALL
        kept = self._cache.get(copy.digest)
        if kept is not None:
            self._cache.move_to_end(copy.digest)
            return kept[0]
        rules = parse(copy.body)
        self._cache[copy.digest] = (rules, len(copy.body))
        self._body_bytes += len(copy.body)
        while len(self._cache) > self._rules_max or self._body_bytes > self._body_bytes_max:
            _, (_, dropped_bytes) = self._cache.popitem(last=False)
            self._body_bytes -= dropped_bytes
        return rules
