"""Records of the port as one cell each."""

import hashlib
from typing import Final

import msgspec

from limpet.urlstore.types import AuthorityRow, HostRow, ParseOutput, RobotsFetch

KEY_BYTES_MAX: Final = 4_096
"""Of one text in a key; Cassandra takes 65,535 bytes for all of them together."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_OUTPUT: Final = msgspec.msgpack.Decoder(ParseOutput)
_HOST: Final = msgspec.msgpack.Decoder(HostRow)
_AUTHORITY: Final = msgspec.msgpack.Decoder(AuthorityRow)
_ROBOTS_FETCH: Final = msgspec.msgpack.Decoder(RobotsFetch)
_TEXTS: Final = msgspec.msgpack.Decoder(list[str])
_NUMBERS: Final = msgspec.msgpack.Decoder(dict[str, int])
_BY_SHARD: Final = msgspec.msgpack.Decoder(dict[int, dict[str, int]])


Record = ParseOutput | HostRow | AuthorityRow | RobotsFetch | list[str] | dict[str, int] | dict[int, dict[str, int]]


def encode(record: Record) -> bytes:
    """One value."""
    return _ENCODER.encode(record)


def clipped(text: str) -> str:
    """Text that may stand in a key: the servers refuse longer ones, and what is told of a page may be of any length.

    The same text is always clipped to the same, and another one to another. What is no text is replaced.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= KEY_BYTES_MAX:
        return data.decode()
    digest = hashlib.blake2b(data, digest_size=8).hexdigest()
    return f"{data[: KEY_BYTES_MAX - 32].decode('utf-8', 'ignore')}… {digest}"


def output(data: bytes) -> ParseOutput:
    """A parse output."""
    return _OUTPUT.decode(data)


def host(data: bytes) -> HostRow:
    """What politeness remembers of a host."""
    return _HOST.decode(data)


def authority(data: bytes) -> AuthorityRow:
    """What robots remembers of an authority."""
    return _AUTHORITY.decode(data)


def robots_fetch(data: bytes) -> RobotsFetch:
    """A request for a robots.txt."""
    return _ROBOTS_FETCH.decode(data)


def texts(data: bytes) -> list[str]:
    """Samples."""
    return _TEXTS.decode(data)


def numbers(data: bytes) -> dict[str, int]:
    """Counts by name."""
    return _NUMBERS.decode(data)


def by_shard(data: bytes) -> dict[int, dict[str, int]]:
    """Counts by shard and name."""
    return _BY_SHARD.decode(data)
