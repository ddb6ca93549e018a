"""May this URL be fetched, says who? Three readers of robots.txt that share nothing with `limpet.robots`.

`PlainRules` is the text of RFC 9309 written down as plainly as it goes. *Google's parser* (`audit_google`) and
*protego* (`audit_protego`) are other people's. What the plain reader or Google's parser forbids is a violation. protego
is known to differ from the RFC both ways: what it alone forbids is noted, named and counted.
"""

import functools
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from limpet.reconciler.audit_google import COST_MAX, Google, is_installed
from limpet.reconciler.audit_protego import ProtegoReader

COPIES_KEPT_MAX: Final = 64
BODY_BYTES_MAX: Final = 512_000
"""RFC 9309 §2.5: at least 500 KiB are parsed. What lies behind them nobody here reads."""

DELAY_SECONDS_MAX: Final = 10 * 366 * 86_400.0

_LINE_ENDS: Final = re.compile(rb"\r\n|\n|\r")  # RFC 9309 §2.2: EOL
_TOKEN: Final = re.compile(rb"\*|[A-Za-z_-]+")  # §2.2.1: product-token
_ESCAPES: Final = re.compile(rb"%[0-9A-Fa-f]{2}|[^!-~]|[\"%<>\\^`{|}]")  # and what RFC 3986 lets no URI hold
_ESCAPED: Final = re.compile("%([0-9A-F]{2})")
_ESCAPED_OFFSET: Final = 0x100
_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")  # RFC 3986 §2.3
_SPELLINGS: Final = (
    (b"user-agent", (b"user-agent", b"useragent", b"user agent")),
    (b"allow", (b"allow",)),
    (b"disallow", (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")),
    (b"crawl-delay", (b"crawl-delay", b"crawldelay", b"crawl delay")),
)
"""Beginnings of a key that https://github.com/google/robotstxt takes for it. They count because they end groups too."""

_STARS: Final = re.compile(rb"\*+")
_BOM: Final = b"\xef\xbb\xbf"


class Opinion(msgspec.Struct, frozen=True):
    """What the readers say; None: it could not judge. `rule` is the line that decided for the plain one, if one did.

    `reason` names why protego forbids what both others allow.
    """

    plain: bool
    google: bool | None
    protego: bool | None
    rule: str
    reason: str = ""

    @property
    def forbids(self) -> bool:
        """Whether a reader that goes by the RFC forbids it."""
        return not self.plain or self.google is False

    def shown(self) -> str:
        """Who says what."""
        words = {True: "allows", False: "forbids", None: "cannot say"}
        says = (("RFC 9309", self.plain), ("Google's parser", self.google), ("protego", self.protego))
        return ", ".join(f"{name} {words[verdict]}" for name, verdict in says)


class _Rule(msgspec.Struct, frozen=True):
    allow: bool
    octets: int
    text: str
    matches: Callable[[str], bool]


class _Group(msgspec.Struct):
    """Consecutive User-agent lines and what follows them."""

    agents: list[bytes] = []
    rules: list[tuple[bool, bytes]] = []
    delays: list[tuple[float, int]] = []  # seconds, and how many agents stand above the line

    def delay_seconds(self, name: bytes) -> float:
        """The longest crawl-delay for an agent of the group, 0 = none."""
        place = self.agents.index(name)
        return max((seconds for seconds, above in self.delays if above > place), default=0.0)


class PlainRules:
    """A robots.txt as one agent is to read it, after RFC 9309 §2.2 to the letter and no further."""

    def __init__(self, body: bytes, agent: str) -> None:
        groups = list(_groups(body))
        name = _token(agent.encode("utf-8", "replace"))
        self.names_agent = any(name in group.agents for group in groups)
        name = name if self.names_agent else b"*"
        mine = [group for group in groups if name in group.agents]
        rules = [_rule(allow, value) for group in mine for allow, value in group.rules]
        # §2.2.2: the most octets decide, and of two that are equally long the one that allows.
        self._rules = sorted(rules, key=lambda rule: (-rule.octets, not rule.allow))
        # No RFC knows crawl-delay. A line can only speak for the agents named above it; the longest one is meant.
        self.delay_seconds = max((group.delay_seconds(name) for group in mine), default=0.0)

    def decide(self, target: bytes) -> tuple[bool, str]:
        """Whether the path and query `target` may be fetched, and the rule that says so."""
        if target == b"/robots.txt":
            return True, ""
        path = _units(_octets(target).replace(b"*", b"%2A").replace(b"$", b"%24"))
        rule = next((rule for rule in self._rules if rule.matches(path)), None)
        return (True, "") if rule is None else (rule.allow, rule.text)


def _groups(body: bytes) -> Iterator[_Group]:
    """Groups in order. Lines that mean nothing here, crawl-delay among them, end no group (§2.2.4)."""
    group: _Group | None = None
    ruled = False
    for line in _LINE_ENDS.split(body.removeprefix(_BOM)):
        key, value = _statement(line.partition(b"#")[0].strip())
        if key == b"user-agent":
            if group is None or ruled:
                group, ruled = _Group(), False
                yield group
            group.agents.append(_token(value))
        elif key in {b"allow", b"disallow"} and group is not None:
            ruled = True
            if value:
                group.rules.append((key == b"allow", value))
        elif key == b"crawl-delay" and group is not None:
            group.delays.append((_seconds(value), len(group.agents)))


def _statement(text: bytes) -> tuple[bytes, bytes]:
    """Key and value of a line, (b"", b"") if it says nothing here. Two words count without a colon between them."""
    key, colon, value = text.partition(b":")
    if not colon:
        words = text.split()
        key, value = words if len(words) == 2 else (b"", b"")
    key = key.strip().lower()
    known = next((name for name, beginnings in _SPELLINGS if key.startswith(beginnings)), b"")
    return known, value.strip()


def _token(value: bytes) -> bytes:
    match = _TOKEN.match(value)
    return match[0].lower() if match is not None else b""


def _seconds(value: bytes) -> float:
    """A crawl-delay; 0 if it is no number or beyond all reason."""
    try:
        seconds = float(value.replace(b"_", b"?"))  # "1_0" is a number to Python alone
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds <= DELAY_SECONDS_MAX else 0.0


def _rule(allow: bool, value: bytes) -> _Rule:
    octets = _octets(value)
    text = f"{'Allow' if allow else 'Disallow'}: {value[:200].decode('utf-8', 'replace')}"
    return _Rule(allow, len(octets), text, _matcher(octets))


def _matcher(pattern: bytes) -> Callable[[str], bool]:
    """§2.2.3: `*` is any octets, `$` at the end is the end. In linear time for each star."""
    ends = pattern.endswith(b"$")
    pieces = _STARS.sub(b"*", pattern[: -1 if ends else None]).split(b"*")
    first, *rest = [_units(piece.replace(b"$", b"%24")) for piece in pieces]
    if not rest:
        return (lambda path: path == first) if ends else (lambda path: path.startswith(first))
    return functools.partial(_match_parts, first, tuple(rest), ends)


def _match_parts(first: str, rest: tuple[str, ...], ends: bool, path: str) -> bool:
    if not path.startswith(first):
        return False
    position = len(first)
    for part in rest[:-1]:
        found = path.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    last = rest[-1]
    if ends:
        return path.endswith(last) and len(path) - len(last) >= position
    return path.find(last, position) >= 0


def _units(octets: bytes) -> str:
    """One character for each octet that is meant, an escaped one apart from the bare one.

    §2.2.2 compares octets: the A of a rule is none of the digits of `%2A`.
    """
    return _ESCAPED.sub(lambda match: chr(_ESCAPED_OFFSET + int(match[1], 16)), octets.decode("latin-1"))


def _octets(text: bytes) -> bytes:
    """§2.2.2: escapes of unreserved characters are undone, what no URI may hold is escaped, hex in upper case."""
    return _ESCAPES.sub(_escape, text)


def _escape(match: re.Match[bytes]) -> bytes:
    found = match[0]
    octet = int(found[1:], 16) if len(found) == 3 else found[0]
    return bytes([octet]) if octet in _UNRESERVED else b"%%%02X" % octet


class _Copy(msgspec.Struct, frozen=True):
    """One copy, read by all."""

    plain: PlainRules
    google: Google
    protego: ProtegoReader


class Readers:
    """The readers over archived copies; keeps the last few, since a host's fetches come together.

    `unread` counts, by reader and reason, the fetches that a reader could not judge.
    """

    def __init__(self, agent: str, body_of: Callable[[str], bytes], google_cost_max: int = COST_MAX) -> None:
        self._agent = agent
        self._google_cost_max = google_cost_max
        self._body_of = body_of
        self._kept: OrderedDict[str, _Copy] = OrderedDict()
        self.unread: Counter[str] = Counter()

    def opinion(self, digest: str, url: str) -> Opinion:
        """What they say of the absolute `url` after the copy with this digest."""
        copy = self._copy(digest)
        target = url[url.index("/", url.index("://") + 3) :].encode("ascii", "replace")
        plain, rule = copy.plain.decide(target)
        google, protego = copy.google.allows(url), copy.protego.allows(url)
        if google is None:
            self.unread["Google's parser, a hostile copy" if is_installed() else "Google's parser, not installed"] += 1
        if protego is None:
            self.unread["protego, a hostile copy"] += 1
        alone = protego is False and plain and google is not False
        return Opinion(plain, google, protego, rule, copy.protego.reason(url) if alone else "")

    def delay_us(self, digest: str) -> int:
        """The crawl-delay of the copy with this digest, 0 = none."""
        return int(self._copy(digest).plain.delay_seconds * 1e6)

    def names_agent(self, digest: str) -> bool:
        """Whether a group of the copy names our token."""
        return self._copy(digest).plain.names_agent

    def _copy(self, digest: str) -> _Copy:
        kept = self._kept.get(digest)
        if kept is None:
            body = read_part(self._body_of(digest))
            google = Google(body, self._agent, self._google_cost_max)
            kept = _Copy(PlainRules(body, self._agent), google, ProtegoReader(body, self._agent))
            self._kept[digest] = kept
            if len(self._kept) > COPIES_KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(digest)
        return kept


def read_part(body: bytes) -> bytes:
    """What is read of a body: its whole lines within the bound."""
    if len(body) <= BODY_BYTES_MAX or body[BODY_BYTES_MAX : BODY_BYTES_MAX + 1] in {b"\r", b"\n"}:
        return body[:BODY_BYTES_MAX]
    return body[: 1 + max(body.rfind(end, 0, BODY_BYTES_MAX) for end in (b"\r", b"\n"))]
