"""Writing the witness's log: appended, handed to the kernel in the next turn of the loop, lost by no one's kill."""

import asyncio
import os
from json.encoder import encode_basestring_ascii as quote
from pathlib import Path
from time import monotonic_ns, time_ns

from origin.events import Event, encode
from origin.wire import Request


class Log:
    """Appends events to a file; without a path every method does nothing.

    The three events of the hot path are formatted by hand: `json.dumps` on each would double an answer's cost.
    """

    def __init__(self, path: Path | None, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: list[str] = []
        self._fd = -1
        if path is not None:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._end_torn_line()

    def _end_torn_line(self) -> None:
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")

    def event(self, event: Event) -> None:
        """Append any event."""
        self._append(encode(event) + "\n")

    def opened(self, connection: int, local: str, peer: str) -> None:
        """Append an `Opened` of now."""
        if self._fd >= 0:
            self._append(
                f'{{"event":"opened","t_ns":{monotonic_ns()},"wall_ns":{time_ns()},"connection":{connection},'
                f'"local":{quote(local)},"peer":{quote(peer)}}}\n'
            )

    def requested(self, t_ns: int, connection: int, number: int, request: Request) -> None:
        """Append a `Requested`."""
        if self._fd < 0:
            return
        path, _, query = request.target.partition("?")
        agent = request.text(b"user-agent")
        self._append(
            f'{{"event":"requested","t_ns":{t_ns},"wall_ns":{time_ns()},"connection":{connection},'
            f'"request":{number},"host":{quote(request.host)},"authority":{quote(request.authority)},'
            f'"method":{quote(request.method)},"path":{quote(path)},"query":{quote(query)},'
            f'"user_agent":{"null" if agent is None else quote(agent)},'
            f'"referer":{_flag(b"referer" in request.headers)},"cookie":{_flag(b"cookie" in request.headers)}}}\n'
        )

    def responded(
        self,
        t_ns: int,
        connection: int,
        number: int,
        *,
        head_ns: int | None,
        status: int,
        size_bytes: int,
        retry_after_seconds: float | None,
        complete: bool,
    ) -> None:
        """Append a `Responded`."""
        if self._fd >= 0:
            self._append(
                f'{{"event":"responded","t_ns":{t_ns},"wall_ns":{time_ns()},"connection":{connection},'
                f'"request":{number},"head_ns":{_or_null(head_ns)},"status":{status},"bytes":{size_bytes},'
                f'"retry_after_seconds":{_or_null(retry_after_seconds)},"complete":{_flag(complete)}}}\n'
            )

    def closed(self, connection: int, by: str) -> None:
        """Append a `Closed` of now."""
        if self._fd >= 0:
            self._append(
                f'{{"event":"closed","t_ns":{monotonic_ns()},"wall_ns":{time_ns()},'
                f'"connection":{connection},"by":"{by}"}}\n'
            )

    def _append(self, line: str) -> None:
        if self._fd >= 0:
            if not self._lines:
                self._loop.call_soon(self.flush)
            self._lines.append(line)

    def flush(self) -> None:
        """Hand everything to the kernel."""
        data = "".join(self._lines).encode()
        self._lines.clear()
        while data:
            data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        """Flush and close."""
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _or_null(value: float | None) -> str:
    return "null" if value is None else str(value)
