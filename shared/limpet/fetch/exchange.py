"""One connection that carries one request and one response, as an asyncio protocol."""

import asyncio
import ssl
from typing import Final, cast

from limpet.fetch.failures import tls_reason
from limpet.fetch.head import find_head_end
from limpet.fetch.http1 import Phase, ResponseParser
from limpet.fetch.port import FetchLimits
from limpet.fetch.spool import Spool, SpoolFile
from limpet.fetch.tls import TlsStream

NOISE_SECONDS_MAX: Final = 1.0
"""How long an answer that is not HTTP is counted, or what follows broken framing kept, before the connection is closed.
"""

_TIMER_SLACK_SECONDS: Final = 0.001  # uvloop keeps time in whole milliseconds


class Exchange(asyncio.Protocol):
    """Feeds a `ResponseParser` and tells its one waiter when to look. The transport is plain TCP; TLS is done here.

    With `holds_at_head`, reading is paused from the moment the head is complete until `resume`, so that whoever waits
    can make the head durable before any more of the body is taken. With a `spool`, reading is paused too while what
    has piled up is written there. One timer serves the idle, the throughput and the wall limit; it runs on the event
    loop's clock, so a loop with virtual time moves all of them. But for the wall, they stand still while reading is
    paused.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: FetchLimits,
        deadline: float,
        *,
        holds_at_head: bool,
        spool: Spool | None = None,
    ) -> None:
        self.parser = ResponseParser(limits, spooled=spool is not None)
        self._spool = spool
        self._spool_above_bytes = limits.spool_above_bytes
        self._file: SpoolFile | None = None  # once the response has outgrown memory
        self._spilling: asyncio.Task[None] | None = None
        self._window_seconds = limits.throughput_window_seconds
        self._window_bytes_min = limits.throughput_bytes_per_second_min * limits.throughput_window_seconds
        self._window_ends = float("inf")
        self._window_from_bytes = 0
        self._loop = loop
        self._transport: asyncio.Transport | None = None  # None before and after the connection
        self._tls: TlsStream | None = None
        self._reply: bytearray | None = None  # a proxy's, while it is waited for
        self._reply_bytes_max = 0
        self._idle_seconds_max = limits.idle_seconds_max
        self._deadline = deadline  # on loop.time()
        self._holds_at_head = holds_at_head
        self._held = False
        self._last = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop once connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Called by the loop with what arrived."""
        self._last = self._loop.time()
        if self._reply is not None:
            self._take_reply(data)
        elif self._tls is None:
            self._take(data)
        else:
            self._tls.receive(data)
            self._pump(self._tls)

    def eof_received(self) -> bool | None:
        """Called by the loop at the peer's FIN."""
        self._end(None)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop, last."""
        self._transport = None
        self._end(exc)

    def peer_ip(self) -> str:
        """The address at the other end; empty when there is none."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(peer[0]) if peer else ""

    def tls_version(self) -> str:
        """For example "TLSv1.3"; empty without TLS."""
        return self._tls.version() if self._tls is not None else ""

    async def tunnel(self, request: bytes, reply_bytes_max: int) -> bytes:
        """Ask a proxy for a tunnel; its answer up to the empty line. Raises ConnectionResetError, ValueError.

        ValueError: the answer does not end, or more came behind it before anything was said through the tunnel.
        """
        if self._transport is None:
            raise ConnectionResetError("connection closed before the tunnel")
        self._reply, self._reply_bytes_max = bytearray(), reply_bytes_max
        self._waiter = self._loop.create_future()
        self._transport.write(request)
        await self._waiter
        reply, self._reply = bytes(self._reply), None
        end = find_head_end(bytearray(reply), 0, reply_bytes_max)
        if end != len(reply):
            raise ValueError("the proxy's answer does not end where it should")
        return reply

    async def secure(self, context: ssl.SSLContext, server_name: str) -> None:
        """The TLS handshake. Raises ssl.SSLError, or ConnectionResetError when the peer leaves in the middle."""
        if self._transport is None:
            raise ConnectionResetError("connection closed before the TLS handshake")
        self._tls = TlsStream(context, server_name)
        self._waiter = self._loop.create_future()
        self._pump(self._tls)
        await self._waiter

    def send(self, data: bytes) -> None:
        """Write the request and start the limits."""
        if self._tls is not None:
            self._encrypt(self._tls, data)
        elif self._transport is not None:
            self._transport.write(data)
        self._last = self._loop.time()
        self._open_window()
        self._rearm()

    async def wait(self) -> None:
        """Return when the response has ended, or when it is held at its head."""
        if self.parser.phase is not Phase.DONE and not self._held:
            self._waiter = self._loop.create_future()
            await self._waiter

    def resume(self) -> None:
        """Take the body, if it was held."""
        if not self._held:
            return
        self._held = False
        self._go_on()

    async def spooled(self) -> SpoolFile | None:
        """The file with the whole response, after its end; None when it stayed in memory. Raises `CannotGoOn`."""
        spilling, file = self._spilling, self._file
        if file is None:
            return None
        if spilling is not None:
            if not file.writing:
                spilling.cancel()  # it waits for room; what is in memory may be added all the same
            await asyncio.wait([spilling])
            if not spilling.cancelled():
                spilling.result()
        if self.parser.buffered_bytes:
            await file.append(*self.parser.take())
        return file

    async def discard(self) -> None:
        """Take away what was spooled."""
        spilling, file = self._spilling, self._file
        if file is None:
            return
        if spilling is not None:
            if not file.writing:
                spilling.cancel()
            await asyncio.gather(spilling, return_exceptions=True)
        await file.release()

    def close(self) -> None:
        """Drop the connection at once: nothing on it is awaited, no close_notify sent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    def _take_reply(self, data: bytes) -> None:
        """More of a proxy's answer."""
        assert self._reply is not None
        self._reply += data
        if len(self._reply) >= self._reply_bytes_max or find_head_end(self._reply, 0, self._reply_bytes_max) >= 0:
            self._wake()

    def _take(self, data: bytes) -> None:
        """Feed the parser, and act on where that leaves it."""
        before = self.parser.phase
        self.parser.feed(data)
        phase = self.parser.phase
        if phase is before:
            if phase is not Phase.HEAD and self.parser.buffered_bytes >= self._spool_above_bytes:
                self._spill()
            return
        if phase is Phase.DONE:
            self._wake()
            return
        if phase is not Phase.BODY:
            self._deadline = min(self._deadline, self._last + NOISE_SECONDS_MAX)
            self._rearm()
        if before is Phase.HEAD and phase is not Phase.NOISE and self._holds_at_head:
            self._held = True
            if self._transport is not None:
                self._transport.pause_reading()
            self._wake()

    def _spill(self) -> None:
        """Write what has piled up to the spool, and read on when that is done."""
        if self._spool is None or self._spilling is not None:
            return
        if self._file is None:
            self._file = self._spool.open(self.parser.body_offset, chunked=self.parser.chunked)
        if self._transport is not None:
            self._transport.pause_reading()
        self._spilling = self._loop.create_task(self._write_out(self._file))
        self._rearm()

    async def _write_out(self, file: SpoolFile) -> None:
        try:
            await file.room()
            await file.append(*self.parser.take())
        except Exception as error:
            self._wake(error)
            raise
        self._spilling = None
        self._go_on()

    def _go_on(self) -> None:
        """Read on, after a pause."""
        self._last = self._loop.time()
        self._open_window()
        if self._tls is not None:
            self._pump(self._tls)  # decrypted, or waiting to be
        if self._transport is not None and self.parser.phase is not Phase.DONE and not self._paused:
            self._transport.resume_reading()
            self._rearm()

    @property
    def _paused(self) -> bool:
        return self._held or self._spilling is not None

    def _open_window(self) -> None:
        """So many bytes have to come until the window ends."""
        if self._window_bytes_min:
            self._window_ends = self._last + self._window_seconds
            self._window_from_bytes = self.parser.received_bytes

    def _pump(self, tls: TlsStream) -> None:
        """Move what TLS can give to the parser, until it is held or dry, and send what TLS has to say."""
        try:
            if not tls.established and tls.handshake():
                self._wake()
            while tls.established and not self._paused and self.parser.phase is not Phase.DONE:
                data = tls.read()
                if data is None:
                    break
                if not data:
                    self.parser.end_of_stream()
                    self._wake()
                else:
                    self._take(data)
        except ssl.SSLError as error:
            self._flush(tls)  # the alert that says why
            self._break_tls(tls, error)
        else:
            self._flush(tls)

    def _encrypt(self, tls: TlsStream, data: bytes) -> None:
        try:
            tls.write(data)
        except ssl.SSLError as error:  # the session ended between the handshake and now
            self._break_tls(tls, error)
        self._flush(tls)

    def _break_tls(self, tls: TlsStream, error: ssl.SSLError) -> None:
        if not tls.established:
            self._wake(error)
        elif self.parser.phase is Phase.HEAD:
            # TLS 1.3 servers refuse a client after its handshake is through, e.g. for want of a certificate.
            self.parser.fail("tls", tls_reason(error))
            self._wake()
        elif self.parser.phase is not Phase.DONE:
            self.parser.end_of_stream(reset=True)
            self._wake()

    def _flush(self, tls: TlsStream) -> None:
        output = tls.output()
        if output and self._transport is not None:
            self._transport.write(output)

    def _end(self, error: Exception | None) -> None:
        """The TCP stream ended. Held bytes are still to be read: `resume` finds the end behind them."""
        if self._reply is not None:
            self._wake(error or ConnectionResetError("the proxy closed the connection"))
            return
        if self._tls is not None:
            if error is None:
                self._tls.end()
                self._pump(self._tls)
            if not self._tls.established:
                self._wake(error or ConnectionResetError("connection closed in the TLS handshake"))
                return
        if self.parser.phase is not Phase.DONE and not (self._paused and error is None and self._tls is not None):
            self.parser.end_of_stream(reset=error is not None)
            self._wake()

    def _wake(self, error: Exception | None = None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self._deadline
        if not self._paused:
            due = min(due, self._last + self._idle_seconds_max, self._window_ends)
        self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = self._loop.time() + _TIMER_SLACK_SECONDS
        why = self._overdue(now)
        if not why:
            self._rearm()
        elif self.parser.phase is not Phase.DONE:
            self.parser.give_up(why)
            self._wake()

    def _overdue(self, now: float) -> str:
        """Which limit has run out, "" for none. Opens the next window where one has ended well."""
        if now >= self._deadline:
            return "the time for the whole exchange ran out"
        if self._paused:
            return ""
        if now >= self._last + self._idle_seconds_max:
            return "nothing came for too long"
        if now >= self._window_ends:
            drips = now - self._last < self._window_seconds / 2  # silence is the idle limit's business
            if drips and self.parser.received_bytes - self._window_from_bytes < self._window_bytes_min:
                return "too little came for too long"
            self._window_ends = now + self._window_seconds
            self._window_from_bytes = self.parser.received_bytes
        return ""
