"""Parsing a robots.txt into groups and asking it (RFC 9309 section 2.2)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import msgspec

from limpet.robots import lines
from limpet.robots.lines import EVERYONE, PERHAPS_EVERYONE, Kind
from limpet.robots.octets import AS_WRITTEN, DECODED, UNRESERVED_DECODED, is_plain, printable, target
from limpet.robots.patterns import TOO_MUCH_WORK, Match, PatternTable, Rule

SITEMAPS_MAX: Final = 1_000
SITEMAP_BYTES_MAX: Final = 8_192
RULE_TEXT_CHARS_MAX: Final = 512
AGENTS_CACHED_MAX: Final = 16
DELAY_SECONDS_MAX: Final = 3_650 * 86_400.0
_DELAY_BYTES_MAX: Final = 64
_DELAY_NUMBER: Final = frozenset(b"0123456789.eE+-")
_NUL: Final = b"\0"
_BOTH: Final = frozenset((EVERYONE, PERHAPS_EVERYONE))


class Decision(msgspec.Struct, frozen=True):
    """Whether a URL may be fetched, and the rule that decided, as one printable line (None: no rule matches)."""

    allowed: bool
    rule: str | None


class _Block:
    """Consecutive User-agent lines and the rules below them."""

    __slots__ = ("agents", "delays", "loose", "rules", "veiled")

    def __init__(self, agents: dict[bytes, int]) -> None:
        self.agents = agents  # token → its place among the User-agent lines
        self.loose: set[bytes] = set()
        self.veiled: set[bytes] = set()  # as loose, and less certain
        self.rules: list[Rule] = []
        self.delays: list[tuple[float, int]] = []  # seconds, and how many agents stood above the line

    def delay_seconds(self, names: Collection[bytes]) -> float | None:
        """The longest delay for any of the names; None if there is none."""
        place = min((self.agents[name] for name in names if name in self.agents), default=len(self.agents))
        return max((delay for delay, above in self.delays if place < above), default=None)


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

    __slots__ = ("_groups", "_readings", "sitemaps")

    def __init__(self, readings: list[list[_Block]], sitemaps: tuple[str, ...]) -> None:
        self._readings = readings  # the blocks of the file, in each way to read it; what one forbids is forbidden
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
        return all(any(name in block.agents for block in blocks) for blocks in self._readings)

    def crawl_delay(self, agent: str) -> float | None:
        """The longest Crawl-delay, in seconds, of the groups that apply; at most ten years; None if there is none.

        No RFC defines it: a line speaks for the User-agent lines of its block that stand above it.
        """
        delays = [_delay_seconds(blocks, _name(agent)) for blocks in self._readings]
        return max((delay for delay in delays if delay is not None), default=None)

    def _best(self, agent: str, path: bytes) -> Match:
        """The rule of the agent's group, unless a group that another reading gives it is stricter."""
        groups = self._groups.get(agent) or self._compile(agent)
        found = groups[0].best(path)
        for group in groups[1:]:
            if found.allowed:
                found = min(found, group.best(path), key=_allowed)
        return found

    def _compile(self, agent: str) -> tuple[_Group, ...]:
        name = _name(agent)
        groups = tuple([_Group(chosen) for blocks in self._readings for chosen in _choices(blocks, name)])
        if len(self._groups) >= AGENTS_CACHED_MAX:
            self._groups.clear()
        self._groups[agent] = groups
        return groups


def _choices(blocks: list[_Block], name: bytes) -> list[list[_Block]]:
    """The blocks that apply to a name; then, where they differ, those that other readings of agent lines apply.

    Who reads ``*;`` as a star merges its rules with those for ``*``, Allow lines too, so that such a group counts
    beside the one without them and never instead of it.
    """
    named = [block for block in blocks if name in block.agents]
    chosen = named or [block for block in blocks if EVERYONE in block.agents]
    key = name if named else EVERYONE
    wide = [] if named else [block for block in blocks if not _BOTH.isdisjoint(block.agents)]
    loose = [block for block in blocks if block.loose and not block.loose.isdisjoint((name, key))]
    veiled = [block for block in blocks if block.veiled and not (block.loose | block.veiled).isdisjoint((name, key))]
    return [chosen, *(others for others in (wide, loose, veiled) if others and others != chosen)]


def _delay_seconds(blocks: list[_Block], name: bytes) -> float | None:
    """The longest delay for a name, or else for everyone, in whatever way a star is written."""
    names = {name} if any(name in block.agents for block in blocks) else _BOTH
    delays = [block.delay_seconds(names) for block in blocks]
    return max((delay for delay in delays if delay is not None), default=None)


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
        named = lines.agents(value)
        if named.name:
            block.agents.setdefault(named.name, len(block.agents))
        block.loose |= named.listed
        block.veiled |= named.veiled

    def _loose_agent(self, value: bytes) -> None:
        """Add a name without ending the group: what follows still binds whom it bound before."""
        named = lines.agents(value)
        if not self.blocks or self.blocks[-1].rules:
            self.blocks.append(_Block(self.blocks[-1].agents if self.blocks else {}))
        block = self.blocks[-1]
        block.loose |= named.listed | ({named.name} - {b"", PERHAPS_EVERYONE})
        block.veiled |= named.veiled | ({EVERYONE} if named.name == PERHAPS_EVERYONE else set())

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
    """A delay as people write it: "10", "0.5", "1,5", "1e3", "10s". None if no finite number >= 0 is there.

    One beyond ten years is cut to that, so that every instant that follows from it fits 64 bits.
    """
    text = value[:_DELAY_BYTES_MAX].replace(b",", b".")
    number = text if _DELAY_NUMBER.issuperset(text) else text[: len(text) - len(text.lstrip(b"0123456789."))]
    try:
        seconds = float(number)
    except ValueError:
        return None
    return min(seconds, DELAY_SECONDS_MAX) if math.isfinite(seconds) and seconds >= 0 else None


def parse(body: bytes) -> Rules:
    """Parse a robots.txt; any bytes will do.

    Reads 500 KiB at most (section 2.5), in linear time, and takes every line it understands whatever the others are
    (section 2.3.1.5). Expects the body with its content coding removed; UTF-16 yields no rules.
    """
    texts = lines.split(body)
    found = _read(texts)
    readings = [found.blocks]
    if any(_NUL in text for text in texts):  # Google's parser reads no line past a NUL, others do
        readings.append(_read([text.partition(_NUL)[0] for text in texts]).blocks)
    return Rules(readings, tuple(found.sitemaps))


def _read(texts: list[bytes]) -> _Builder:
    builder = _Builder()
    for text in texts:
        for record in lines.records(text):
            builder.take(*record)
    return builder
