"""HTTP/1.1 as far as an origin needs it: the head of a request in, the bytes of an answer out."""

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Literal

HEAD_BYTES_MAX = 65_536
PIECE_BYTES = 65_536
_REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(slots=True)
class Request:
    """One received request. `host` is the Host header without port, or the address the client connected to."""

    method: str
    target: str
    host: str
    authority: str
    headers: dict[bytes, bytes]
    http_1_0: bool = False

    @property
    def path(self) -> str:
        """The target up to its query."""
        return self.target.partition("?")[0]

    @property
    def offers_gzip(self) -> bool:
        """Whether the client accepts a gzip body."""
        return b"gzip" in self.headers.get(b"accept-encoding", b"")

    @property
    def wants_close(self) -> bool:
        """Whether the client wants the connection closed after the answer."""
        return self.http_1_0 or self.headers.get(b"connection", b"").lower() == b"close"

    def text(self, name: bytes) -> str | None:
        """A header's value, or None if it was not sent."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


def parse_head(head: bytes, local: str) -> Request | None:
    """Read a request's head (up to, without, the empty line); None if it is not HTTP/1.x.

    `local` is the address the client connected to; it stands in for a missing Host header.
    """
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return None
    headers = {}
    for line in lines:
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    authority = headers.get(b"host", b"").decode("latin-1").lower() or local
    host = authority.rpartition(":")[0] or authority
    method, target = words[0].decode("latin-1"), words[1].decode("latin-1")
    return Request(method, target, host, authority, headers, words[2] == b"HTTP/1.0")


@dataclass(slots=True)
class Answer:
    """What the origin says: an ordinary response, or `raw` steps written exactly as given.

    `headers` are ready-made lines, each ended by CR LF. `raw` holds bytes to write and floats: seconds of silence;
    it may be endless. Of a raw answer `status` and `retry_after_seconds` are for the log only. An answer with
    Retry-After must not be delayed as well: a date would be reckoned from before the delay.
    """

    status: int
    body: bytes = b""
    headers: bytes = b""
    delay_seconds: float = 0.0
    retry_after_seconds: float | None = None
    retry_after_form: Literal["seconds", "date"] = "seconds"
    raw: Iterable[bytes | float] | None = None
    close: bool = False


HTML = b"Content-Type: text/html; charset=utf-8\r\n"
PLAIN = b"Content-Type: text/plain; charset=utf-8\r\n"
GZIP = b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"


def html(text: str, *, delay_seconds: float = 0.0) -> Answer:
    """A UTF-8 HTML page."""
    return Answer(200, text.encode(), HTML, delay_seconds)


def html_gzip(text: str, *, delay_seconds: float = 0.0) -> Answer:
    """A UTF-8 HTML page with a gzip body whose bytes depend on the text only."""
    return Answer(200, gzip.compress(text.encode(), 6, mtime=0), HTML + GZIP, delay_seconds)


def plain(text: str, *, status: int = 200, delay_seconds: float = 0.0) -> Answer:
    """A UTF-8 text answer; robots.txt files and errors."""
    return Answer(status, text.encode(), PLAIN, delay_seconds)


def redirect(location: str, *, status: int = 302, delay_seconds: float = 0.0) -> Answer:
    """A redirect; `location` must be ASCII without line ends."""
    return Answer(status, b"", b"Location: " + location.encode("ascii") + b"\r\n", delay_seconds)


def not_found(*, status: int = 404, delay_seconds: float = 0.0) -> Answer:
    """A small HTML error page."""
    phrase = _REASONS[status]
    return Answer(status, f"<!doctype html><title>{phrase}</title><h1>{phrase}</h1>".encode(), HTML, delay_seconds)


def busy(retry_after_seconds: float, *, status: int = 503, form: Literal["seconds", "date"] = "seconds") -> Answer:
    """A refusal that names the time until which no request is wanted."""
    return Answer(status, b"busy\n", PLAIN, retry_after_seconds=retry_after_seconds, retry_after_form=form)


def chunked(body: bytes, *, sizes: Iterable[int]) -> bytes:
    """`body` in chunked transfer coding, cut at `sizes`; what is left over makes the last chunk."""
    parts, at = [], 0
    for size in sizes:
        if chunk := body[at : at + size]:
            parts.append(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        at += size
    if rest := body[at:]:
        parts.append(b"%x\r\n%b\r\n" % (len(rest), rest))
    return b"".join(parts) + b"0\r\n\r\n"


def retry_after(answer: Answer, wall_seconds: float) -> tuple[bytes, float | None]:
    """The Retry-After line and the seconds it really means, since a date has a resolution of one second."""
    if answer.retry_after_seconds is None:
        return b"", None
    if answer.retry_after_form == "seconds":
        whole = max(0, round(answer.retry_after_seconds))
        return b"Retry-After: %d\r\n" % whole, float(whole)
    until = int(wall_seconds + answer.retry_after_seconds) + 1
    return b"Retry-After: %b\r\n" % formatdate(until, usegmt=True).encode(), until - wall_seconds


def render(answer: Answer, *, date: bytes, retry_line: bytes, close: bool) -> bytes:
    """Head and body of an ordinary answer, ready for the socket."""
    return b"HTTP/1.1 %d %b\r\nDate: %b\r\n%b%b%bContent-Length: %d\r\n\r\n%b" % (
        answer.status,
        _REASONS.get(answer.status, "Unknown").encode(),
        date,
        answer.headers,
        retry_line,
        b"Connection: close\r\n" if close else b"",
        len(answer.body),
        answer.body,
    )


def pieces(steps: Iterable[bytes | float]) -> Iterator[bytes | float]:
    """The same steps with long writes cut up, so that the stamp before the last write is close to the true end."""
    for step in steps:
        if isinstance(step, float) or len(step) <= PIECE_BYTES:
            yield step
        else:
            yield from (step[at : at + PIECE_BYTES] for at in range(0, len(step), PIECE_BYTES))
