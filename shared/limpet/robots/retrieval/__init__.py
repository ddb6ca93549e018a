"""Getting hold of robots.txt as a state machine without I/O (RFC 9309 sections 2.3 to 2.5).

The caller fetches; this decides. For one authority (scheme, host and port, section 2.3):

1. `RobotsJudge.license(state, agent, url, now)` answers License, Wait or Fetch.
2. On Fetch: `gives_up(state, now)` first, then request /robots.txt and hand each answer to `next_step`, with the number
   of redirects followed so far; Follow means one request more, through the same gate.
3. Settled goes to `advance`, whose result is stored in the authority's row before anything is licensed from it.
"""

from limpet.robots.retrieval.answers import (
    Failing,
    FailureKind,
    Follow,
    HttpAnswer,
    NetworkFailure,
    RobotsAnswer,
    RobotsCopy,
    Settled,
    copy_of,
    next_step,
)
from limpet.robots.retrieval.delay import crawl_delay_of, stored_delay
from limpet.robots.retrieval.judge import Fetch, License, RobotsJudge, Wait
from limpet.robots.retrieval.oddity import ODDITIES, Oddity, oddity_of, stored_oddity
from limpet.robots.retrieval.state import RetryPolicy, RobotsState, advance, gives_up, usable_copy

__all__ = [
    "ODDITIES",
    "Failing",
    "FailureKind",
    "Fetch",
    "Follow",
    "HttpAnswer",
    "License",
    "NetworkFailure",
    "Oddity",
    "RetryPolicy",
    "RobotsAnswer",
    "RobotsCopy",
    "RobotsJudge",
    "RobotsState",
    "Settled",
    "Wait",
    "advance",
    "copy_of",
    "crawl_delay_of",
    "gives_up",
    "next_step",
    "oddity_of",
    "stored_delay",
    "stored_oddity",
    "usable_copy",
]
