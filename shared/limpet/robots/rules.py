"""Parsing a robots.txt into groups and asking it (RFC 9309 section 2.2)."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from limpet.robots import lines
from limpet.robots.lines import Kind
from limpet.robots.octets import AS_WRITTEN, DECODED, UNRESERVED_DECODED, is_plain, printable, target
from limpet.robots.patterns import TOO_MUCH_WORK, Match, PatternTable, Rule

SITEMAPS_MAX: Final = 1_000
SITEMAP_BYTES_MAX: Final = 8_192
RULE_TEXT_CHARS_MAX: Final = 512
AGENTS_CACHED_MAX: Final = 16
_DELAY_BYTES_MAX: Final = 64
_DELAY_NUMBER: Final = frozenset(b"0123456789.eE+-")
_EVERYONE: Final = b"*"


class Decision(msgspec.Struct, frozen=True):
    """Whether a URL may be fetched, and the rule that decided, as one printable line (None: no rule matches)."""

    allowed: bool
    rule: str | None


class _Block:
    """Consecutive User-agent lines and the rules below them."""

    __slots__ = ("agents", "delays", "loose", "rules")

    def __init__(self, agents: dict[bytes, int]) -> None:
        self.agents = agents  # token → its place among the User-agent lines
        self.loose: set[bytes] = set()
        self.rules: list[Rule] = []
        self.delays: list[tuple[float, int]] = []  # seconds, and how many agents stood above the line


class _Group:
    """The rules of some blocks, merged (section 2.2.1) and compiled."""

    __slots__ = ("_allows", "_freeing", "as_written", "decoded")

    def __init__(self, blocks: list[_Block]) -> None:
        rules = [rule for block in blocks for rule in block.rules]
        self._allows = [rule for rule in rules if rule.allow]
        self._freeing: PatternTable | None = None
        self.decoded = PatternTable(rules, DECODED)
        as_written = PatternTable(rules, AS_WRITTEN)
        self.as_written = self.decoded if as_written.patterns == self.decoded.patterns else as_written

    def best(self, path: bytes) -> Match:
        """The stricter of the two readings of escapes, an Allow being the same however its letters are spelt."""
        plain = is_plain(path)
        decoded = path if plain else DECODED(path)
        found = self.decoded.best(decoded)
        if not found.allowed:
            return found
        as_written = path if plain else AS_WRITTEN(path)
        if self.as_written is self.decoded and as_written == decoded:
            return found
        other = self.as_written.best(as_written)
        if other.allowed or self._frees(path, other):
            return found
        return other

    def _frees(self, path: bytes, forbidding: Match) -> bool:
        """Whether an Allow that needless escapes alone keep apart from the path is as long as the rule that forbids."""
        if forbidding is TOO_MUCH_WORK or not self._allows:
            return False
        if self._freeing is None:  # seldom needed
            self._freeing = PatternTable(self._allows, UNRESERVED_DECODED)
        return self._freeing.best(UNRESERVED_DECODED(path)).rank > forbidding.rank


class Rules:
    """A parsed robots.txt. Immutable but for a bounded cache of compiled groups; build it with `parse`.

    An agent is a product token (section 2.2.1: letters, '_' and '-'); case does not matter, and of any other text
    only the token that it begins with counts. Groups that name it are merged; if none does, those for '*' count.
    """

    __slots__ = ("_blocks", "_groups", "sitemaps")

    def __init__(self, blocks: list[_Block], sitemaps: tuple[str, ...]) -> None:
        self._blocks = blocks
        self._groups: dict[str, tuple[_Group, ...]] = {}
        self.sitemaps = sitemaps

    def allows(self, agent: str, url: str) -> bool:
        """Whether the agent may fetch the absolute URL, given as it will be sent."""
        path = target(url)
        return path == b"/robots.txt" or self._best(agent, path).allowed

    def decide(self, agent: str, url: str) -> Decision:
        """`allows`, with the text of the rule that won, for the record of the licence."""
        path = target(url)
        if path == b"/robots.txt":  # section 2.2.2: implicitly allowed
            return Decision(allowed=True, rule=None)
        match = self._best(agent, path)
        return Decision(match.allowed, _text(match))

    def names(self, agent: str) -> bool:
        """Whether a group names this very agent; '*' and loosely written names do not count."""
        name = _name(agent)
        return any(name in block.agents for block in self._blocks)

    def crawl_delay(self, agent: str) -> float | None:
        """The longest Crawl-delay, in seconds, of the groups that apply; any finite size; None if there is none.

        No RFC defines it: a line speaks for the User-agent lines of its block that stand above it.
        """
        chosen, name = self._chosen(_name(agent))
        delays = [delay for block in chosen for delay, above in block.delays if block.agents[name] < above]
        return max(delays, default=None)

    def _best(self, agent: str, path: bytes) -> Match:
        """The rule of the agent's group, unless a group that names it loosely is stricter."""
        groups = self._groups.get(agent) or self._compile(agent)
        found = groups[0].best(path)
        for group in groups[1:]:
            if found.allowed:
                found = min(found, group.best(path), key=_allowed)
        return found

    def _compile(self, agent: str) -> tuple[_Group, ...]:
        chosen, key = self._chosen(_name(agent))
        loose = [block for block in self._blocks if block.loose and not block.loose.isdisjoint((_name(agent), key))]
        groups = (_Group(chosen), _Group(loose)) if loose else (_Group(chosen),)
        if len(self._groups) >= AGENTS_CACHED_MAX:
            self._groups.clear()
        self._groups[agent] = groups
        return groups

    def _chosen(self, name: bytes) -> tuple[list[_Block], bytes]:
        named = [block for block in self._blocks if name in block.agents]
        if named:
            return named, name
        return [block for block in self._blocks if _EVERYONE in block.agents], _EVERYONE


def _allowed(match: Match) -> bool:
    return match.allowed


def _name(agent: str) -> bytes:
    return lines.token(agent.encode("utf-8", "surrogatepass"))


def _text(match: Match) -> str | None:
    if match.rule is None:
        return "Disallow: (too many wildcards to search)" if match is TOO_MUCH_WORK else None
    words = "Allow: " if match.rule.allow else "Disallow: "
    return (words + printable(match.rule.value[:RULE_TEXT_CHARS_MAX]))[:RULE_TEXT_CHARS_MAX]


class _Builder:
    """Takes records in order and keeps track of where groups begin and end."""

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.sitemaps: dict[str, None] = {}
        self._ruled = False  # the present group has rules: the next User-agent line begins another

    def take(self, kind: Kind, value: bytes) -> None:
        if kind is Kind.AGENT:
            self._agent(value)
        elif kind is Kind.LOOSE_AGENT:
            self._loose_agent(value)
        elif kind is Kind.SITEMAP:
            self._sitemap(value)
        elif not self.blocks:
            return  # section 2.2.1: rules before the first User-agent line belong to nobody
        elif kind is Kind.DELAY:
            self._delay(value)
        else:
            self._rule(kind, value)

    def _agent(self, value: bytes) -> None:
        if self._ruled or not self.blocks:
            self.blocks.append(_Block({}))
            self._ruled = False
        block = self.blocks[-1]
        name, listed = lines.agents(value)
        if name:
            block.agents.setdefault(name, len(block.agents))
        block.loose.update(listed)

    def _loose_agent(self, value: bytes) -> None:
        """Add a name without ending the group: what follows still binds whom it bound before."""
        name, listed = lines.agents(value)
        if not self.blocks or self.blocks[-1].rules:
            self.blocks.append(_Block(self.blocks[-1].agents if self.blocks else {}))
        self.blocks[-1].loose.update(found for found in (name, *listed) if found)

    def _rule(self, kind: Kind, value: bytes) -> None:
        self._ruled = self._ruled or kind is not Kind.LOOSE_DISALLOW
        if value:
            self.blocks[-1].rules.append(Rule(kind is Kind.ALLOW, value))

    def _delay(self, value: bytes) -> None:
        seconds = _seconds(value)
        if seconds is not None:
            self.blocks[-1].delays.append((seconds, len(self.blocks[-1].agents)))

    def _sitemap(self, value: bytes) -> None:
        if value and len(value) <= SITEMAP_BYTES_MAX and len(self.sitemaps) < SITEMAPS_MAX:
            self.sitemaps.setdefault(value.decode("utf-8", "replace"))


def _seconds(value: bytes) -> float | None:
    """A delay as people write it: "10", "0.5", "1,5", "1e3", "10s". None if no finite number >= 0 is there."""
    text = value[:_DELAY_BYTES_MAX].replace(b",", b".")
    number = text if _DELAY_NUMBER.issuperset(text) else text[: len(text) - len(text.lstrip(b"0123456789."))]
    try:
        seconds = float(number)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def parse(body: bytes) -> Rules:
    """Parse a robots.txt; any bytes will do.

    Reads 500 KiB at most (section 2.5), in linear time, and takes every line it understands whatever the others are
    (section 2.3.1.5). Expects the body with its content coding removed; UTF-16 yields no rules.
    """
    builder = _Builder()
    for line in lines.split(body):
        for record in lines.records(line):
            builder.take(*record)
    return Rules(builder.blocks, tuple(builder.sitemaps))
