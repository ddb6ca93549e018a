"""robots.txt after RFC 9309: the matcher that decides, and the rules of getting hold of the file.

Reads bytes, never raises on any of them, in linear time; where two readings of a file differ, the stricter one counts.
No I/O and no clock: `limpet.robots.retrieval` is a state machine that its caller drives.
"""

from limpet.robots.lines import BODY_BYTES_MAX, digest
from limpet.robots.retrieval import (
    ODDITIES,
    Fetch,
    Follow,
    HttpAnswer,
    License,
    NetworkFailure,
    Oddity,
    RetryPolicy,
    RobotsAnswer,
    RobotsCopy,
    RobotsJudge,
    RobotsState,
    Settled,
    Wait,
    advance,
    copy_of,
    crawl_delay_of,
    gives_up,
    next_step,
    oddity_of,
    stored_delay,
    stored_oddity,
    usable_copy,
)
from limpet.robots.rules import Decision, Rules, parse

__all__ = [
    "BODY_BYTES_MAX",
    "ODDITIES",
    "Decision",
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
    "Rules",
    "Settled",
    "Wait",
    "advance",
    "copy_of",
    "crawl_delay_of",
    "digest",
    "gives_up",
    "next_step",
    "oddity_of",
    "parse",
    "stored_delay",
    "stored_oddity",
    "usable_copy",
]
