"""Crawl-delay of what is stored of an authority's robots.txt."""

from __future__ import annotations

import msgspec

from limpet.robots.retrieval.state import RobotsState
from limpet.robots.rules import parse


def crawl_delay_of(state: RobotsState, agent: str) -> float | None:
    """Seconds that the stored copy asks for between requests, though the copy may have expired; None = nothing.

    An expired copy licenses nothing. But it is the best that is known of the pace a site wants, for the very request
    that will replace it too.
    """
    copy = state.copy
    return parse(copy.body).crawl_delay(agent) if copy is not None and copy.status == "rules" else None


def stored_delay(robots: bytes, agent: str) -> float | None:
    """`crawl_delay_of` for what an authority's row remembers; b"" = its robots.txt was never asked for."""
    return crawl_delay_of(msgspec.msgpack.decode(robots, type=RobotsState), agent) if robots else None
