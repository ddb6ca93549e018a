"""Values of WARC named fields: safe to write whatever they hold, tolerant to read."""

import base64
import functools
import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from limpet.warc.errors import WarcError

RECORD_ID_BYTES: Final = 16
"""Random bytes that make one record id."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_URI: Final = re.compile(
    r"[!#-;=?-~]*"
)  # printable ASCII without space, `"`, `<` and `>` (RFC 3986 delimits with them)
_UNSAFE: Final = re.compile(rb"[^!#-;=?-~]")
_USERINFO: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:/+)[^/?#@]*@(?:[^/?#@]*@)*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)


def safe_uri(uri: str) -> str:
    """`uri` as plain ASCII without space, quote, bracket or control character: those are percent-encoded.

    A canonical URL comes back as it is. Nothing that comes out can end a header line or a CDX column. A user name or
    password in front of the host reads `REDACTED`: an archive is published, and no canonical URL has one.
    """
    if "@" in uri:
        uri = _USERINFO.sub(r"\1REDACTED@", uri, count=1) if _USERINFO.match(uri) else uri
    if _URI.fullmatch(uri):
        return uri
    raw = uri.encode("utf-8", "surrogatepass")
    return _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], raw).decode("ascii")


def clean_uri(value: str) -> str:
    """The URI of a field as other writers wrote it: `<…>` removed (a mistake in the WARC 1.0 grammar), then safe."""
    value = value.strip()
    if value.startswith("<") and value.endswith(">"):
        value = value[1:-1].strip()
    return safe_uri(value)


def safe_value(text: str) -> str:
    """`text` on one line: each run of control characters and line separators is one space."""
    return _CONTROL.sub(" ", text).strip() if _CONTROL.search(text) else text


def encode(text: str) -> bytes:
    """UTF-8, as WARC 1.1 §4 has it; a lone surrogate becomes `?`, since it has no UTF-8 form."""
    return text.encode("utf-8", "replace")


@functools.lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def warc_date(at_us: int) -> str:
    """Wall-clock microseconds since the epoch as a WARC-Date, always with six decimals (WARC 1.1 allows up to nine)."""
    seconds, micros = divmod(at_us, 1_000_000)
    return f"{_second(seconds)}.{micros:06d}Z"


def date_us(text: str) -> int:
    """Microseconds since the epoch of a WARC-Date with or without decimals. Raises WarcError."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise WarcError(f"not a WARC-Date: {text[:40]!r}")
    try:
        moment = datetime(*map(int, match.group(1, 2, 3, 4, 5, 6)), tzinfo=UTC)  # type: ignore[misc, arg-type] # six of them
    except ValueError as error:
        raise WarcError(f"not a WARC-Date: {text[:40]!r}") from error
    micros = int(f"{match[7] or '0':0<6}"[:6])
    return (moment - _EPOCH) // timedelta(microseconds=1) + micros


def date14(at_us: int) -> str:
    """The same moment as `YYYYMMDDhhmmss`, the CDX timestamp."""
    return re.sub(r"\D", "", _second(at_us // 1_000_000))


def record_id(token: bytes) -> str:
    """A WARC-Record-ID from 16 random bytes: a version 4 UUID (RFC 9562 §5.4) without the price of `uuid.uuid4`."""
    if len(token) != RECORD_ID_BYTES:
        raise ValueError(f"a record id takes {RECORD_ID_BYTES} bytes, not {len(token)}")
    h = token.hex()
    variant = "89ab"[token[8] >> 6]
    return f"<urn:uuid:{h[:8]}-{h[8:12]}-4{h[13:16]}-{variant}{h[17:20]}-{h[20:]}>"


def sha1_b32(data: bytes) -> str:
    """SHA-1 in base32, the form of WARC digests that every replay tool indexes."""
    return b32(hashlib.sha1(data, usedforsecurity=False).digest())


def b32(digest: bytes) -> str:
    """A digest in base32."""
    return base64.b32encode(digest).decode("ascii")
