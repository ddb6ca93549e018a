"""Lines of a robots.txt: where they end, what they say, and which mistakes still count.

Structure (where a group begins and ends) follows RFC 9309 and Google's parser to the letter, typos included, because
two parsers that cut groups differently license different URLs. Mistakes that only a person would understand are
*loose*: they may add a Disallow, never an Allow, and never end a group.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Final, NamedTuple

BODY_BYTES_MAX: Final = 512_000
"""500 KiB, the least that RFC 9309 section 2.5 lets a parser stop at."""

LINE_BYTES_MAX: Final = 16_663
"""Google's parser keeps so much of a line; a longer Disallow is read as cut there, which blocks more, not less."""

_BOM: Final = b"\xef\xbb\xbf"
_TOKEN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-"  # RFC 9309 section 2.2.1
_LINE_END: Final = (b"\n", b"\r")
_VISIBLE: Final = frozenset(range(0x21, 0x7F))
# What looks like nothing, beyond what `str.isspace` knows: controls, marks without width, the Latin-1 NEL and NBSP.
_UNSEEN: Final = frozenset((*map(chr, range(0x20)), *"\x7f\xad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\udc85\udca0"))

EVERYONE: Final = b"*"
PERHAPS_EVERYONE: Final = b"*?"
"""A star with more behind it, as in ``*;``. RFC 9309 has no such token: some read the star, some read nothing."""


class Kind(enum.Enum):
    """What a line is."""

    AGENT = enum.auto()
    ALLOW = enum.auto()
    DISALLOW = enum.auto()
    SITEMAP = enum.auto()
    DELAY = enum.auto()
    LOOSE_AGENT = enum.auto()
    LOOSE_DISALLOW = enum.auto()


_FORBIDDING: Final = (Kind.DISALLOW, Kind.LOOSE_DISALLOW)


class Record(NamedTuple):
    """One statement of a line, its value trimmed."""

    kind: Kind
    value: bytes


class Named(NamedTuple):
    """Whom a User-agent line names.

    `name` is its token, EVERYONE, PERHAPS_EVERYONE or empty; `listed` are members of a comma list; `veiled` are those
    that only show once unseen bytes around them, or odd ones behind a star in a list, are left out.
    """

    name: bytes
    listed: frozenset[bytes]
    veiled: frozenset[bytes]


_EXACT: Final = {
    b"user-agent": Kind.AGENT,
    b"disallow": Kind.DISALLOW,
    b"allow": Kind.ALLOW,
    b"sitemap": Kind.SITEMAP,
    b"crawl-delay": Kind.DELAY,
}
# Accepted by Google's parser as the beginning of a key, in this order.
_PREFIXES: Final = (
    ((b"user-agent", b"useragent", b"user agent"), Kind.AGENT),
    ((b"allow",), Kind.ALLOW),
    ((b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"), Kind.DISALLOW),
    ((b"sitemap", b"site-map"), Kind.SITEMAP),
    ((b"crawl-delay", b"crawldelay", b"crawl delay"), Kind.DELAY),
)
_LOOSE_AGENT_KEYS: Final = frozenset(
    (b"user_agent", b"useg-agent", b"user-agnet", b"ser-agent", b"uer-agent", b"users-agent", b"usr-agent")
)


def capped(body: bytes) -> bytes:
    """The part of a body that is parsed: 500 KiB, less a line that the cap cuts in two.

    Half a line must not be read ("Disallow: /zoo" cut to "Disallow: /" would forbid a whole site). Idempotent. Hand
    over at least one byte more than BODY_BYTES_MAX when there is more, or the cut cannot be seen.
    """
    if len(body) <= BODY_BYTES_MAX:
        return body
    kept = body[:BODY_BYTES_MAX]
    if body.startswith(_LINE_END, BODY_BYTES_MAX):
        return kept
    return kept[: max(kept.rfind(end) for end in _LINE_END) + 1]


def digest(body: bytes) -> str:
    """SHA-256, in hex, of the bytes that `parse` would read of this body."""
    return hashlib.sha256(capped(body)).hexdigest()


def split(body: bytes) -> list[bytes]:
    """The lines of a body. Only CR, LF and CR LF end one (RFC 9309 section 2.2), not VT, FF, NEL or U+2028."""
    text = capped(body)
    start = 0
    while text.startswith(_BOM, start):  # some editors write one mark before another
        start += len(_BOM)
    for cut in (_BOM[:2], _BOM[:1]):  # Google's parser also skips a mark that was cut short
        if text.startswith(cut, start):
            start += len(cut)
            break
    return text[start:].splitlines()


def token(value: bytes) -> bytes:
    """The product token that a value begins with, in lower case; empty if it begins with none."""
    return value[: len(value) - len(value.lstrip(_TOKEN))].lower()


def bare(value: bytes) -> bytes:
    """A value without what nobody sees at its ends: controls, spaces beyond ASCII, marks without width."""
    if not value or (value[0] in _VISIBLE and value[-1] in _VISIBLE):
        return value
    text = value.decode("utf-8", "surrogateescape")
    seen = [at for at, letter in enumerate(text) if not (letter.isspace() or letter in _UNSEEN)]
    return text[seen[0] : seen[-1] + 1].encode("utf-8", "surrogateescape") if seen else b""


def agents(value: bytes) -> Named:
    """Whom a User-agent line names, surely, loosely and perhaps."""
    if value[:1] == EVERYONE and not value[1:2].strip():  # what follows "* " is ignored, as in Google's parser
        return Named(EVERYONE, frozenset(), frozenset())
    name = PERHAPS_EVERYONE if value[:1] == EVERYONE else token(value)
    pieces = [piece.strip() for piece in value.split(b",")]
    listed = {_listed(piece) for piece in pieces} if len(pieces) > 1 else set()
    veiled = {_first(bare(piece)) for piece in pieces} - listed - {name, EVERYONE if name == PERHAPS_EVERYONE else b""}
    return Named(name, frozenset(listed - {b""}), frozenset(veiled - {b""}))


def _listed(piece: bytes) -> bytes:
    """A list member that is a token, perhaps with a version, and nothing else; else empty."""
    name = token(piece)
    rest = piece[len(name) :]
    return piece if piece == EVERYONE else name if not rest or (rest[:1] == b"/" and len(rest.split()) == 1) else b""


def _first(piece: bytes) -> bytes:
    """EVERYONE for a star, whatever follows it; else as `_listed`."""
    return EVERYONE if piece[:1] == EVERYONE else _listed(piece)


def records(line: bytes) -> list[Record]:
    """What one line says: nothing, one statement, or one statement and a loose reading of the same words.

    A line that is too long is read as cut, since a shorter Disallow forbids more; an Allow is read to its end.
    """
    found = _statements(line[:LINE_BYTES_MAX])
    if len(line) > LINE_BYTES_MAX and found and found[0].kind is Kind.ALLOW:
        return _statements(line)
    return found + [_bared(record) for record in found if _is_veiled(record)]


def _is_veiled(record: Record) -> bool:
    return record.kind in _FORBIDDING and bare(record.value) != record.value


def _bared(record: Record) -> Record:
    """The same Disallow without unseen bytes at its ends: a second one, so that it only adds."""
    return Record(Kind.LOOSE_DISALLOW, bare(record.value))


def _statements(line: bytes) -> list[Record]:
    text = line.partition(b"#")[0].strip()
    if not text:
        return []
    key, colon, value = text.partition(b":")
    key, value = key.strip().lower(), value.strip()
    kind = _EXACT.get(key) if colon else None
    return [Record(kind, value)] if kind else _unusual(text, key, value, colon)


def _unusual(text: bytes, key: bytes, value: bytes, colon: bytes) -> list[Record]:
    word, *rest = text.split(None, 1)
    word = word.lower()
    if not colon:
        return _without_colon(word, rest[0]) if rest else []
    kind = _kind(key)
    if kind is None:
        return _loose(key, value)
    if kind is Kind.AGENT or len(key.split(None, 1)) < 2:
        return [Record(kind, value)]
    # The colon was part of the value: "Sitemap https://…", "Disallow /a:b".
    if kind is Kind.SITEMAP:
        return [Record(kind, rest[0])]
    return [Record(kind, value), *_loose(word, rest[0])]


def _without_colon(word: bytes, rest: bytes) -> list[Record]:
    """Some forget the colon: that counts in full when exactly two words are there."""
    kind = _kind(word) if len(rest.split(None, 1)) == 1 else None
    return [Record(kind, rest)] if kind else _loose(word, rest)


def _kind(key: bytes) -> Kind | None:
    return next((kind for beginnings, kind in _PREFIXES if key.startswith(beginnings)), None)


def _loose(key: bytes, value: bytes) -> list[Record]:
    """Mistakes outside every parser's list that still tell what the owner forbids, and to whom."""
    if key == b"user" and value[:6].lower() == b"agent ":
        return [Record(Kind.LOOSE_AGENT, value[6:].strip())]
    if key in _LOOSE_AGENT_KEYS or key.startswith((b"user-agent", b"useragent")):
        return [Record(Kind.LOOSE_AGENT, value)]
    if key.startswith(b"disallow") or (key[:1] == b"d" and key.endswith((b"low", b"law"))):
        return [Record(Kind.LOOSE_DISALLOW, value)]
    return []
