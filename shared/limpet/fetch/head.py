"""Status line, header fields and message framing of an HTTP/1 response, read as tolerantly as browsers do."""

import re
from typing import Final, Literal

from limpet.fetch.port import Head

FIELDS_MAX: Final = 5_000
"""Header lines of one response. The byte limit alone would let 80,000 two-byte fields through."""

NOT_HTTP: Final = "not HTTP"
"""What is wrong with an answer that does not begin with a status line."""

STATUS_LINE: Final = re.compile(rb"HTTP(?:/\d{1,3}(?:\.\d{1,3})?)?[ \t]+([1-9]\d\d)(?!\d)", re.IGNORECASE)
"""Protocol in any case, version optional (NCSA 1.5 sends `HTTP 200 Document follows`), reason optional."""

_LENGTH: Final = re.compile(rb"[0-9]+")
_LENGTH_DIGITS_MAX: Final = 18
_BODYLESS: Final = frozenset({204, 304})  # RFC 9112 §6.3; 1xx never come as a final response
# RFC 9110 §5.5 lets a recipient put a space for NUL, CR and LF inside a value; the block keeps the bytes as sent.
_NEUTRAL: Final = bytes(0x20 if byte in b"\0\r" else byte for byte in range(256))

Framing = int | Literal["chunked", "close", "conflict"]


def find_head_end(buffer: bytearray, start: int, end_max: int) -> int:
    """Index after the empty line that ends a head, looking from `start` up to `end_max`; -1 if there is none yet.

    Lines end with LF, with or without CR.
    """
    crlf = buffer.find(b"\n\r\n", start, end_max)
    # An LF may end this pair and begin the other: whichever is whole first ends the head, however the bytes arrive.
    bare = buffer.find(b"\n\n", start, end_max if crlf < 0 else crlf + 1)
    if bare >= 0:
        return bare + 2
    return crlf + 3 if crlf >= 0 else -1


def parse_head(block: bytes) -> Head | str:
    """The head in `block` (status line to the empty line), or what is wrong with it.

    Lines without a colon are dropped, a fold (leading blank) continues the line before it or, on the first header
    line, starts a field; NUL and stray CR count as blanks (RFC 9110 §5.5).
    """
    match = STATUS_LINE.match(block)
    if match is None:
        return NOT_HTTP
    lines = block.translate(_NEUTRAL).split(b"\n")[1:]
    if len(lines) > FIELDS_MAX:
        return "header too large"
    fields: list[list[bytes]] = []  # each a field's first line and its folds
    for line in lines:
        if line[:1] in {b" ", b"\t"} and fields:
            fields[-1].append(line.strip(b" \t"))
        elif b":" in line:
            fields.append([line])
    return Head(status=int(match[1]), headers=tuple(_field(lines) for lines in fields))


def _field(lines: list[bytes]) -> tuple[bytes, bytes]:
    name, _, value = lines[0].partition(b":")
    if len(lines) > 1:
        value = b" ".join([value.strip(b" \t"), *filter(None, lines[1:])])
    return name.strip(b" \t"), value.strip(b" \t")


def framing_of(head: Head) -> Framing:
    """How the body's end is found (RFC 9112 §6.3).

    A number of bytes; "chunked"; "close" (until the connection ends); or "conflict": two different lengths, which the
    RFC calls unrecoverable. Transfer-Encoding wins over Content-Length; "identity" means none. A length that is no
    number counts as absent, as browsers do: the connection is not reused, so nothing can be smuggled through it.
    """
    if head.status in _BODYLESS:
        return 0
    codings: list[bytes] = []
    lengths: set[bytes] = set()
    for name, value in head.headers:
        match name.lower():
            case b"transfer-encoding":
                codings += [c for part in value.split(b",") if (c := part.strip().lower()) not in {b"", b"identity"}]
            case b"content-length":
                lengths.update(part.strip() for part in value.split(b","))
            case _:
                pass
    if codings:
        return "chunked" if codings[-1].partition(b";")[0].rstrip() == b"chunked" else "close"
    return _length_of(lengths)


def _length_of(texts: set[bytes]) -> Framing:
    numbers = {text.lstrip(b"0") or b"0" for text in texts if _LENGTH.fullmatch(text)}
    if len(numbers) > 1:
        return "conflict"
    if not numbers or not all(map(_LENGTH.fullmatch, texts)):
        return "close"
    digits = numbers.pop()
    return int(digits) if len(digits) <= _LENGTH_DIGITS_MAX else 10**_LENGTH_DIGITS_MAX
