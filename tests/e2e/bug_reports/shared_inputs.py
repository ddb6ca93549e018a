"""Bodies, answers and settings that the reports share."""

B = b"<p>hello</p>"
LINKED = b"<a href=/linked>x</a>"
"""A body whose link proves that it was read."""

CONFIG = """
[fetching]
connect_seconds_max = 1.0
idle_seconds_max = 1.2
wall_seconds_max = 3.0
[retries]
base_seconds = 0.2
factor = 1.0
failures_max = 3
"""
TRIES_MAX = 3
PATIENCE = ("--patience", "2s")


def whole(body: bytes, *lines: bytes) -> bytes:
    """`lines` (status line and fields, by default a plain 200) with a right Content-Length, and `body`."""
    head = lines or (b"HTTP/1.1 200 OK",)
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", body])


def chunked(framed: bytes) -> bytes:
    """A 200 with a body that has its chunk framing."""
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed


def cut_at(length: int, body: bytes) -> bytes:
    """A 200 that promises `length` bytes and has `body`."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body
