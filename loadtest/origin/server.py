"""The server: one protocol per connection, every step of it told to the log.

Stamps are taken so that the witness can only err in the crawler's favour: a request's after it was read, an
answer's end before its last write. An apparent violation is therefore a real one.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Iterator
from email.utils import formatdate
from time import monotonic_ns, time_ns
from typing import cast

from origin.log import Log
from origin.web import Web
from origin.wire import HEAD_BYTES_MAX, Answer, Request, parse_head, pieces, plain, render, retry_after

_WAITING_REQUESTS_MAX = 64
_PIECES_A_TURN = 16
_TCP_ESTABLISHED = 1


class Origin:
    """What all connections share: the web, the log, the counters, and which connections an address has open."""

    def __init__(self, web: Web, log: Log, loop: asyncio.AbstractEventLoop, *, date_skew_seconds: float = 0.0) -> None:
        self.web = web
        self.log = log
        self.loop = loop
        self.open: dict[str, set[Connection]] = {}
        self._date_skew_seconds = date_skew_seconds
        self._numbers = {"connection": 0, "request": 0}
        self._date = (0, b"")

    def number(self, what: str) -> int:
        """The next id of a connection or request."""
        self._numbers[what] += 1
        return self._numbers[what]

    def wall_seconds(self) -> float:
        """The clock from which Date and Retry-After dates are written; may be set wrong on purpose."""
        return time_ns() / 1e9 + self._date_skew_seconds

    def date(self) -> bytes:
        """The value of the Date header, formatted once a second."""
        second = int(self.wall_seconds())
        if second != self._date[0]:
            self._date = (second, formatdate(second, usegmt=True).encode())
        return self._date[1]


class Exchange:
    """One request on its way to the end of its answer."""

    __slots__ = ("head_ns", "number", "request", "retry_after_seconds", "size_bytes", "status")

    def __init__(self, number: int, request: Request) -> None:
        self.number = number
        self.request = request
        self.head_ns: int | None = None
        self.status = 0
        self.size_bytes = 0
        self.retry_after_seconds: float | None = None


class Connection(asyncio.Protocol):
    """One client connection. Requests are stamped when they arrive and answered in order."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._number = origin.number("connection")
        self._transport: asyncio.Transport
        self._local = ""
        self._buffer = b""
        self._waiting: deque[Exchange] = deque()
        self._player: Player | None = None
        self._closed = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Log the connection, after those of the same address whose client is already gone."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._local = transport.get_extra_info("sockname")[0]
        if not self._local.startswith("127."):  # bound to every address so that 127/8 is served, and only 127/8
            self._transport.abort()
            return
        self._closed = False
        peer = transport.get_extra_info("peername")
        others = self._origin.open.setdefault(self._local, set())
        for other in tuple(others):
            other.notice_end()
        others.add(self)
        self._origin.log.opened(self._number, self._local, f"{peer[0]}:{peer[1]}")

    def notice_end(self) -> None:
        """Log the end of this connection if its client has ended it, though the loop has not told yet.

        Without this a client that closes one connection and opens the next could look like one that has two.
        """
        raw = self._transport.get_extra_info("socket")
        try:
            state = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        except OSError:
            state = 0
        if state != _TCP_ESTABLISHED:
            self._log_closed("client")

    def data_received(self, data: bytes) -> None:
        """Take every whole request out of what has arrived."""
        received_ns = monotonic_ns()
        buffer = self._buffer + data if self._buffer else data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            self._receive(buffer[:end], received_ns)
            buffer = buffer[end + 4 :]
        self._buffer = buffer
        if len(buffer) > HEAD_BYTES_MAX or len(self._waiting) > _WAITING_REQUESTS_MAX:
            self._transport.abort()
        elif self._player is None:
            self._next()

    def _receive(self, head: bytes, received_ns: int) -> None:
        request = parse_head(head, self._local) or Request("?", "?", self._local, self._local, {})
        exchange = Exchange(self._origin.number("request"), request)
        self._origin.log.requested(received_ns, self._number, exchange.number, request)
        self._waiting.append(exchange)

    def _next(self) -> None:
        while self._waiting and self._player is None and not self._transport.is_closing():
            self._answer(self._waiting[0])

    def _answer(self, exchange: Exchange) -> None:
        request = exchange.request
        answer = self._origin.web.answer(request) if request.method == "GET" else _refusal(request.method)
        exchange.status = answer.status
        close = answer.close or request.wants_close or request.method != "GET"
        if answer.raw is not None:
            exchange.retry_after_seconds = answer.retry_after_seconds
            self._play(exchange, pieces(answer.raw), close=close)
            return
        retry_line, exchange.retry_after_seconds = retry_after(answer, self._origin.wall_seconds())
        response = render(answer, date=self._origin.date(), retry_line=retry_line, close=close)
        if answer.delay_seconds or len(response) > 4 * HEAD_BYTES_MAX:
            self._play(exchange, pieces((answer.delay_seconds, response)), close=close)
        else:
            end_ns = self.write(exchange, response)
            self.finish(end_ns, close=close)

    def _play(self, exchange: Exchange, steps: Iterator[bytes | float], *, close: bool) -> None:
        self._player = Player(self, exchange, steps, close=close, loop=self._origin.loop)
        self._player.play()

    def write(self, exchange: Exchange, data: bytes) -> int:
        """Send bytes of an answer; the stamp is from before."""
        now_ns = monotonic_ns()
        if exchange.head_ns is None:
            exchange.head_ns = now_ns
        exchange.size_bytes += len(data)
        self._transport.write(data)
        return now_ns

    def finish(self, end_ns: int, *, close: bool) -> None:
        """The first waiting exchange has been answered in full."""
        self._player = None
        self._log_responded(self._waiting.popleft(), end_ns, complete=True)
        if close:
            self._log_closed("server")
            self._transport.close()

    def resume(self) -> None:
        """Go on with what the client has sent meanwhile."""
        self._next()

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        if self._player is not None:
            self._player.paused = True

    def resume_writing(self) -> None:
        """The client has caught up."""
        if self._player is not None:
            self._player.paused = False
            self._player.play()

    def connection_lost(self, exc: Exception | None) -> None:
        """Log what was cut off, then the end."""
        _ = exc
        if self._player is not None:
            self._player.stop()
        now_ns = monotonic_ns()
        while self._waiting:
            self._log_responded(self._waiting.popleft(), now_ns, complete=False)
        self._log_closed("client")

    def _log_responded(self, exchange: Exchange, end_ns: int, *, complete: bool) -> None:
        self._origin.log.responded(
            end_ns,
            self._number,
            exchange.number,
            head_ns=exchange.head_ns,
            status=exchange.status,
            size_bytes=exchange.size_bytes,
            retry_after_seconds=exchange.retry_after_seconds,
            complete=complete,
        )

    def _log_closed(self, by: str) -> None:
        if not self._closed:
            self._closed = True
            self._origin.open[self._local].discard(self)
            self._origin.log.closed(self._number, by)


class Player:
    """Writes the steps of an answer that takes time or space, with respect for a slow reader."""

    def __init__(
        self,
        connection: Connection,
        exchange: Exchange,
        steps: Iterator[bytes | float],
        *,
        close: bool,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.paused = False
        self._connection = connection
        self._exchange = exchange
        self._steps = steps
        self._close = close
        self._loop = loop
        self._handle: asyncio.Handle | None = None
        self._end_ns = monotonic_ns()

    def play(self) -> None:
        """Write until a pause, a full socket, the end of this turn, or the end."""
        if self._handle is not None:
            return
        for _ in range(_PIECES_A_TURN):
            if self.paused:
                return
            step = next(self._steps, None)
            if step is None:
                self._finish()
                return
            if isinstance(step, float):
                self._handle = self._loop.call_later(step, self._wake_after_silence)
                return
            self._end_ns = self._connection.write(self._exchange, step)
        self._handle = self._loop.call_soon(self._wake)

    def _wake(self) -> None:
        self._handle = None
        self.play()

    def _wake_after_silence(self) -> None:
        self._end_ns = monotonic_ns()
        self._wake()

    def _finish(self) -> None:
        self._connection.finish(self._end_ns, close=self._close)
        self._connection.resume()

    def stop(self) -> None:
        """The client is gone: write nothing more."""
        self._steps = iter(())
        if self._handle is not None:
            self._handle.cancel()


def _refusal(method: str) -> Answer:
    return plain("not HTTP/1.x\n", status=400) if method == "?" else plain("only GET is served\n", status=405)
