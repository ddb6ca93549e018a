"""Google's own parser of robots.txt as a judge: https://github.com/google/robotstxt, by way of `jwm.robotstxt`.

It reads a file anew for every question. So that hostile files cannot stop an audit, what one copy may cost is bounded;
what is left unjudged by it is counted. Two things are known of it (docs/audit.md): it compares escapes as they are
spelt, with upper-case digits in its rules, so it is asked with upper-case digits; and it takes `/robots.txt` for a path
like any other, where RFC 9309 §2.2.2 allows it always.
"""

import re
from typing import Final

try:
    from jwm.robotstxt.googlebot import RobotsMatcher
except ImportError:  # no wheel for this machine
    RobotsMatcher = None

COST_MAX: Final = 1_000_000_000
"""Octets of rules read, and stars times octets of path, for one copy: about a minute."""

_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")


class Google:
    """One copy of robots.txt, read for one agent."""

    def __init__(self, body: bytes, agent: str, cost_max: int = COST_MAX) -> None:
        self._body = body
        self._agent = agent
        self._stars = body.count(b"*")
        self._left = cost_max
        self._matcher = RobotsMatcher() if RobotsMatcher is not None else None

    def allows(self, url: str) -> bool | None:
        """Whether `url` may be fetched; None if this reader cannot say."""
        target = url[url.index("/", url.index("://") + 3) :]
        if target == "/robots.txt":
            return True
        if self._matcher is None:
            return None
        self._left -= len(self._body) + self._stars * len(target)
        if self._left < 0:
            return None
        asked = _ESCAPE.sub(lambda match: match[0].upper(), url)
        return bool(self._matcher.OneAgentAllowedByRobots(self._body, self._agent, asked))


def is_installed() -> bool:
    """Whether the parser is here at all."""
    return RobotsMatcher is not None
