"""TLS over memory: what one client connection needs, with the socket left to the caller.

asyncio's and uvloop's own TLS transports are not used, because they cannot be held safely: uvloop 0.23 throws away what
it has received when the peer closes while reading is paused, so that a page held at its head would come out empty and
look complete. Here the socket is paused instead, and nothing between it and the parser drops bytes. Alerts keep their
names, too.
"""

import ssl
from typing import Final

_READ_BYTES: Final = 65_536


class TlsStream:
    """One TLS client session. Feed `receive`, send what `output` gives, and call `handshake` until it says True."""

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self.established = False
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)

    def receive(self, data: bytes) -> None:
        """Take encrypted bytes."""
        self._incoming.write(data)

    def end(self) -> None:
        """The peer's TCP stream ended."""
        self._incoming.write_eof()

    def output(self) -> bytes:
        """Encrypted bytes to send now; empty when there are none."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def handshake(self) -> bool:
        """Go as far as the bytes go; True once certificate and name are verified. Raises ssl.SSLError."""
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.established = True
        return True

    def write(self, data: bytes) -> None:
        """Encrypt `data` into `output`."""
        self._session.write(data)

    def read(self) -> bytes | None:
        """The next plain bytes; b"" at the end of the stream, None when more must come first. Raises ssl.SSLError.

        An end without close_notify counts as an end (RFC 9112 §9.8): what is missing shows in the framing.
        """
        try:
            return self._session.read(_READ_BYTES)
        except ssl.SSLWantReadError:
            return None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return b""

    def version(self) -> str:
        """For example "TLSv1.3"."""
        return self._session.version() or ""
