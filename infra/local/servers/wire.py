"""Just enough of a socket to ask a server whether it serves, without its client library."""

import socket
from typing import Final

Stream = socket.socket
SECONDS_MAX: Final = 2.0
BYTES_MAX: Final = 1 << 20


def connection(host: str, port: int, seconds_max: float = SECONDS_MAX) -> Stream:
    """Connected, every operation bounded in time. Raises OSError."""
    return socket.create_connection((host, port), timeout=seconds_max)


def exactly(stream: Stream, count: int) -> bytes:
    """So many bytes. Raises ConnectionError at an early end or a size that cannot be meant."""
    if not 0 <= count <= BYTES_MAX:
        raise ConnectionError(f"{count} bytes announced")
    found = b""
    while len(found) < count:
        piece = stream.recv(count - len(found))
        if not piece:
            raise ConnectionError(f"the answer ended after {len(found)} of {count} bytes")
        found += piece
    return found
