"""Google's own parser of robots.txt as a judge: https://github.com/google/robotstxt, by way of `jwm.robotstxt`.

It reads a file anew for every question. So that hostile files cannot stop an audit, what one copy may cost is bounded;
what is left unjudged by it is counted. Two things are known of it (docs/audit.md): it compares escapes as they are
spelt, with upper-case digits in its rules, so it is asked with upper-case digits, and asked once more without needless
escapes in an Allow and the URL, which RFC 9309 §2.2.2 compares decoded; and it takes `/robots.txt` for a path like any
other, where §2.2.2 allows it always.
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
_UNRESERVED_HEX: Final = r"%(2[DdEe]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])"  # RFC 3986 section 2.3
_NEEDLESS_IN_URL: Final = re.compile(_UNRESERVED_HEX)
_NEEDLESS: Final = re.compile(_UNRESERVED_HEX.encode())
_ALLOW: Final = re.compile(rb"(?<![^\r\n])[ \t]*allow[^\r\n]*", re.IGNORECASE)


class Google:
    """One copy of robots.txt, read for one agent."""

    def __init__(self, body: bytes, agent: str, cost_max: int = COST_MAX) -> None:
        self._body = body
        self._agent = agent
        self._stars = body.count(b"*")
        self._left = cost_max
        self._plain: bytes | None = None
        self._matcher = RobotsMatcher() if RobotsMatcher is not None else None

    def allows(self, url: str) -> bool | None:
        """Whether `url` may be fetched; None if this reader cannot say."""
        target = url[url.index("/", url.index("://") + 3) :]
        if target == "/robots.txt":
            return True
        if self._matcher is None:
            return None
        asked = _ESCAPE.sub(lambda match: match[0].upper(), url)
        verdict = self._ask(self._body, asked, len(target))
        if verdict is not False:
            return verdict
        body, plain = self._plainly_allowed(), _NEEDLESS_IN_URL.sub(lambda match: chr(int(match[1], 16)), asked)
        if body == self._body and plain == asked:
            return False
        return self._ask(body, plain, len(target))

    def _ask(self, body: bytes, url: str, target_octets: int) -> bool | None:
        self._left -= len(body) + self._stars * target_octets
        if self._left < 0 or self._matcher is None:
            return None
        return bool(self._matcher.OneAgentAllowedByRobots(body, self._agent, url))

    def _plainly_allowed(self) -> bytes:
        """The copy with each Allow that has needless escapes followed by itself without them."""
        if self._plain is None:
            self._plain = _ALLOW.sub(_with_plain, self._body)
        return self._plain


def _with_plain(match: re.Match[bytes]) -> bytes:
    line = match[0]
    plain = _NEEDLESS.sub(lambda escape: bytes((int(escape[1], 16),)), line)
    return line if plain == line else line + b"\n" + plain


def is_installed() -> bool:
    """Whether the parser is here at all."""
    return RobotsMatcher is not None
