"""Decoded bodies on their way through one process: the crawl node inflates to see whether a body is whole, the parser
to read it, moments later. Bodies that are not at hand any more are inflated again; nothing depends on the keeping.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

from limpet.parser.decode import CODING_INCOMPLETE, Decoded, DecodeLimits, coding_is_cut, decode_body

KEPT_BYTES_MAX: Final = 8_000_000
"""Decoded bytes kept at once; the oldest go first."""
BODY_BYTES_MAX: Final = 1_000_000
"""A longer body is not kept."""

_Key = tuple[str, bytes]
"""SHA-256 of the payload in hex, and its ``Content-Encoding``."""


class KeptBodies:
    """Each kept body is taken once. Not for two threads."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept: dict[_Key, Decoded] = {}
        self._kept_bytes = 0
        self._kept_bytes_max = kept_bytes_max

    def coding_is_cut(self, payload: bytes | Iterable[bytes], content_encoding: bytes | None) -> bool:
        """See `limpet.parser.decode.coding_is_cut`. A payload in pieces is kept nowhere, and may be on any thread."""
        if not content_encoding:
            return False
        if not isinstance(payload, bytes):
            return coding_is_cut(payload, content_encoding)
        decoded = decode_body(payload, content_encoding, DecodeLimits())
        if len(decoded.data) <= BODY_BYTES_MAX:
            self._keep((hashlib.sha256(payload).hexdigest(), content_encoding), decoded)
        return CODING_INCOMPLETE in decoded.flags

    def take(self, payload_sha256: str, content_encoding: bytes | None) -> Decoded | None:
        """The content of a payload whose digest was verified, decoded under default limits, if it is still at hand."""
        if not content_encoding:
            return None
        found = self._kept.pop((payload_sha256, content_encoding), None)
        if found is not None:
            self._kept_bytes -= len(found.data)
        return found

    def _keep(self, key: _Key, decoded: Decoded) -> None:
        old = self._kept.pop(key, None)
        self._kept[key] = decoded
        self._kept_bytes += len(decoded.data) - (len(old.data) if old is not None else 0)
        while self._kept_bytes > self._kept_bytes_max:
            self._kept_bytes -= len(self._kept.pop(next(iter(self._kept))).data)
