"""What a page asks of those who keep or use it: recorded with each output, and nofollow obeyed.

Read are robots directives, of ``<meta name=robots>``, of ``X-Robots-Tag`` and of their forms for our own token, the
TDM reservation (https://www.w3.org/community/reports/tdmrep/), and the preference headers ``Content-Usage`` and
``Content-Signal``. A signal becomes a flag ``signal:NAME`` or ``signal:NAME=VALUE``.
"""

from collections.abc import Iterable, Sequence
from typing import Final

PREFIX: Final = "signal:"
DIRECTIVES: Final = ("noindex", "nofollow", "noarchive", "nosnippet", "noai", "noimageai")
TDM_RESERVATION: Final = b"tdm-reservation"
PREFERENCES: Final = (b"content-usage", b"content-signal")
ROBOTS: Final = b"robots"
VALUE_BYTES_MAX: Final = 1_024
_SHOWN_CHARS_MAX: Final = 200
_FIELDS_MAX: Final = 20
_NO_SIGNALS: Final[frozenset[str]] = frozenset()
_KNOWN: Final = {
    b"none": frozenset({"noindex", "nofollow"}),
    **{name.encode(): frozenset({name}) for name in DIRECTIVES},
}
_WITH_VALUE: Final = frozenset(
    {b"unavailable_after", b"max-snippet", b"max-image-preview", b"max-video-preview"}
)  # their colon does not end the name of a robot


def of_directives(content: bytes) -> frozenset[str]:
    """The signals among robots directives, separated by commas or blanks."""
    words = content[:VALUE_BYTES_MAX].lower().replace(b",", b" ").split()
    return _NO_SIGNALS.union(*(_KNOWN.get(word, _NO_SIGNALS) for word in words))


def of_meta(name: bytes, content: bytes, agent: bytes) -> frozenset[str]:
    """The signals of one ``meta`` tag; `name` in lower case, as `agent` is."""
    if name in (ROBOTS, agent):
        return of_directives(content)
    return _tdm(content) if name == TDM_RESERVATION else _NO_SIGNALS


def of_headers(headers: Sequence[tuple[bytes, bytes]], agent: bytes) -> frozenset[str]:
    """The signals of a response's fields. Never raises; bounded."""
    found: set[str] = set()
    seen = 0
    for field, value in headers:
        name = field.lower()
        if name not in _READ:
            continue
        seen += 1
        if seen > _FIELDS_MAX:
            break
        if name == b"x-robots-tag":
            found |= _of_tag(value, agent)
        elif name == TDM_RESERVATION:
            found |= _tdm(value)
        else:
            found.add(f"{name.decode()}={_shown(value)}")
    return frozenset(found)


_READ: Final = frozenset({b"x-robots-tag", TDM_RESERVATION, *PREFERENCES})


def flags_of(signals: Iterable[str]) -> set[str]:
    """How signals stand among the flags of an output."""
    return {PREFIX + signal for signal in signals}


def _of_tag(value: bytes, agent: bytes) -> frozenset[str]:
    """``X-Robots-Tag``: directives for everybody, or after ``TOKEN:`` for one robot, up to the next such name."""
    found = _NO_SIGNALS
    ours = True
    for part in value[:VALUE_BYTES_MAX].lower().split(b","):
        name, colon, rest = part.partition(b":")
        if colon and name.strip() not in _WITH_VALUE:
            ours = name.strip() in (agent, b"*")
            part = rest  # noqa: PLW2901 - the name is read; what follows it are its directives
        if ours:
            found |= of_directives(part)
    return found


def _tdm(value: bytes) -> frozenset[str]:
    return frozenset({"tdm-reservation"}) if value.strip() == b"1" else _NO_SIGNALS


def _shown(value: bytes) -> str:
    text = value[:_SHOWN_CHARS_MAX].decode("ascii", "replace")
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
