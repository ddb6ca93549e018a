"""From the bytes of a reference to the text of a URL: the page's encoding, character references, refresh syntax."""

import re
from typing import Final, NamedTuple

from limpet.parser.entities import unescape_attribute
from limpet.parser.labels import UTF_8, UTF_16

_REFRESH: Final = re.compile(
    r"""[\t\n\f\r ]*+(?:[0-9][0-9.]*+|\.[0-9.]*+)(?=[;,\t\n\f\r ])[\t\n\f\r ]*+[;,]?+[\t\n\f\r ]*+"""
    r"""(?>(?:[uU][rR][lL][\t\n\f\r ]*+=[\t\n\f\r ]*+)?)(?:"([^"]*+)|'([^']*+)|(.++))""",
    re.DOTALL,
)
_WIDE: Final = re.compile(r"[^\x00-\x7f]++")
_BYTE_AS_URL: Final = tuple(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in range(256))


class Encoding(NamedTuple):
    """How the bytes at hand are read, and how the page's own encoding writes queries. Differs after transcoding."""

    text: str
    page: str


def text_of(raw: bytes, encoding: Encoding) -> str:
    """An attribute's value as text. Total: what does not decode becomes U+FFFD."""
    text = raw.decode() if raw.isascii() else raw.decode(encoding.text, "replace")
    return unescape_attribute(text).replace("\0", "\ufffd")


def percent_encoded(data: bytes) -> str:
    """`data` with bytes beyond ASCII percent-encoded as they are, in no assumed encoding."""
    return "".join(map(_BYTE_AS_URL.__getitem__, data))


def refresh_url(content: str) -> str:
    """The reference in the content of a meta refresh; "" when it only reloads, or is none.

    Source: https://html.spec.whatwg.org/#shared-declarative-refresh-steps
    """
    found = _REFRESH.match(content)
    return next(filter(None, found.groups()), "") if found else ""


def with_encoded_query(text: str, codec: str) -> str:
    """`text` with its query in the page's encoding, as a browser sends it: the path is UTF-8 everywhere, a query not.

    Source: https://url.spec.whatwg.org/#query-state
    """
    if text.isascii() or codec == UTF_8 or codec in UTF_16:
        return text
    resource, mark, query = text.partition("#")[0].partition("?")
    return f"{resource}{mark}{_WIDE.sub(lambda run: _encoded(run[0], codec), query)}"


def _encoded(run: str, codec: str) -> str:
    try:
        encoded = run.encode(codec)
    except UnicodeEncodeError:
        return "".join(_encoded_character(character, codec) for character in run)
    return percent_encoded(encoded)


def _encoded_character(character: str, codec: str) -> str:
    """One character, or the decimal reference that a form would send in its place."""
    try:
        return percent_encoded(character.encode(codec))
    except UnicodeEncodeError:
        return f"%26%23{ord(character)}%3B"
