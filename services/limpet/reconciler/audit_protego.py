"""protego as a judge, and why it sometimes forbids alone what RFC 9309 allows.

Each reason has a name, a sentence, and a way to check it on the file at hand: without the lines that it speaks of,
protego agrees with the others.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from protego import Protego

RULES_MAX: Final = 1_000_000
"""Protego keeps every rule once for every agent of its group: a small file can be made to ask for gigabytes."""

AGENTS_MAX: Final = 2_000
"""It also looks for each agent among all others."""

UNEXPLAINED: Final = "unexplained"

_BOM: Final = b"\xef\xbb\xbf"
_LINE_ENDS: Final = re.compile(rb"\r\n|\n|\r")  # RFC 9309 §2.2: EOL
_AGENT_KEY: Final = re.compile(rb"[ \t]*user[- ]?agent[ \t]*:", re.IGNORECASE)
_HEX_DIGIT: Final = re.compile(rb"%(3[0-9]|[46][1-6])")
_OTHER_ENDS: Final = re.compile("[\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")

Keeps = Callable[[bytes, bytes], bool]
"""(line, our agent in lower case) -> whether the line stays when a reason is tried."""


class Reason(msgspec.Struct, frozen=True):
    """One known difference. `keeps` tells the lines that it does not speak of."""

    name: str
    sentence: str
    keeps: Keeps


def _value(line: bytes) -> bytes:
    return line.partition(b"#")[0].partition(b":")[2].strip()


def _other_group(line: bytes, agent: bytes) -> bool:
    return not _AGENT_KEY.match(line) or _value(line).lower() in {agent, b"*"}


def _one_line(line: bytes, _agent: bytes) -> bool:
    return not _OTHER_ENDS.search(line.decode("utf-8", "replace")) and (not line.strip() or b":" in line)


REASONS: Final = (
    Reason(
        "name_inside_name",
        "it looks for a group's name anywhere in ours, and drops the stars in it",
        _other_group,
    ),
    Reason(
        "literal_dollar",
        "it lets $ at the end of a rule also stand for a dollar sign",
        lambda line, _agent: b"$" not in _value(line),
    ),
    Reason(
        "escaped_length",
        "it compares the lengths of rules after escaping",
        lambda line, _agent: _value(line).isascii(),
    ),
    Reason("odd_lines", "it ends lines at form feeds, U+2028 and the like, and takes lines without a colon", _one_line),
    Reason(
        "inside_escape",
        "it looks for an escaped hex digit of a rule inside the escapes of a URL",
        lambda line, _agent: b"*" not in _value(line) or not _HEX_DIGIT.search(_value(line)),
    ),
    Reason(
        "reserved_escapes",
        "it takes a reserved character and its escape for the same",
        lambda line, _agent: b"%" not in _value(line) and not re.search(rb"[:;,=+&@!'()\[\]]", _value(line)),
    ),
)
_SENTENCES: Final = {reason.name: reason.sentence for reason in REASONS}


class ProtegoReader:
    """One copy of robots.txt, read for one agent. `is_readable` is False when it cannot be had at a bearable price."""

    def __init__(self, body: bytes, agent: str) -> None:
        self._body = body.removeprefix(_BOM)
        self._agent = agent
        self._protego = _parsed(self._body)
        self._trials: list[tuple[str, Protego]] | None = None

    @property
    def is_readable(self) -> bool:
        """Whether it judges at all."""
        return self._protego is not None

    def allows(self, url: str) -> bool | None:
        """Whether `url` may be fetched; None if this reader cannot say."""
        return None if self._protego is None else _ask(self._protego, url, self._agent)

    def reason(self, url: str) -> str:
        """The name of the difference for which it forbids `url`, which others allow."""
        if self._trials is None:
            self._trials = list(self._tried())
        return next((name for name, without in self._trials if _ask(without, url, self._agent)), UNEXPLAINED)

    def _tried(self) -> Iterator[tuple[str, Protego]]:
        lines, agent = _LINE_ENDS.split(self._body), self._agent.lower().encode("utf-8", "replace")
        for reason in REASONS:
            kept = [line if reason.keeps(line, agent) else _without(line) for line in lines]
            without = _parsed(b"\n".join(kept)) if kept != lines else None
            if without is not None:
                yield reason.name, without


def sentence_of(name: str) -> str:
    """What a difference is, in words."""
    return _SENTENCES.get(name, "none of the known reasons fits")


def _without(line: bytes) -> bytes:
    """A line taken out. A group stays one, under a name that is nobody's."""
    return b"User-agent: x-nobody-x" if _AGENT_KEY.match(line) else b""


def _parsed(body: bytes) -> Protego | None:
    """What protego reads, which wants text."""
    lines = [line.lstrip()[:4].lower() for line in _LINE_ENDS.split(body)]
    agents = sum(line == b"user" for line in lines)
    if agents > AGENTS_MAX or agents * len(lines) > RULES_MAX:
        return None
    try:
        return Protego.parse(body.decode("utf-8", "replace"))
    except Exception:  # noqa: BLE001 - whatever a stranger's bytes do to another library, the other readers still judge
        return None


def _ask(protego: Protego, url: str, agent: str) -> bool:
    try:
        return bool(protego.can_fetch(url, agent))
    except Exception:  # noqa: BLE001 - see _parsed
        return True
