"""CPU per capture of the WARC hot path against warcio, and of what surrounds it.

    python loadtest/scenarios/warc_bench.py [--captures 1000] [--rounds 5] --out loadtest/evidence/warc_hot_path.json

One page of 72 KB HTML, about 32 KB as gzip on the wire. Both writers make its response, request and metadata records,
one gzip member each, SHA-1 over block and payload; ours also the SHA-256 of the payload for the row. warcio is given
the same header bytes and its default level; what it needs besides (its header object, the record ids) is counted, as it
cannot do without. CPU is that of this process, threads included, user and system; the order of the rows is turned in
every round; reported is the median, each round beside it. `--adr FILE` writes the table between the markers of a page.
"""

import argparse
import asyncio
import gzip
import io
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from limpet.clock import SystemClock
from limpet.fetch import Capture
from limpet.runtime import SystemDisk, ThreadRunner
from limpet.segments.local import LocalSegments
from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, CrawlInfo, Expected, capture_members, check_response, members, warcinfo_member

HTML_BYTES = 72_000
URL = "http://example.com/section/page-1234.html"
REQUEST = (
    b"GET /section/page-1234.html HTTP/1.1\r\nHost: example.com\r\n"
    b"User-Agent: limpet/0.1.0 (+https://example.org/bot)\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n"
    b"Connection: close\r\n\r\n"
)
META = CaptureMeta(
    fp=bytes(range(16)),
    via="http://example.com/section/",
    hops="LL",
    robots_digest="ab" * 32,
    robots_rule="Allow: /",
    gap_us=1_000_000,
)
IN_FLIGHT = 50
MARKERS = ("<!-- measured: begin -->\n", "<!-- measured: end -->\n")
ROWS = {
    "limpet": "limpet.warc, gzip'd body: response, request, metadata",
    "warcio": "warcio, the same three records",
    "limpet_plain": "limpet.warc, the page uncompressed on the wire",
    "warcio_plain": "warcio, the same",
    "append": "append to an open segment, index line and sync in groups of up to 50 included",
    "scan": "scan of the three records",
    "verify": "verification of the response record",
}

Work = Callable[[int], None]


def page() -> bytes:
    """HTML that compresses as pages do: 72 KB to about 32 KB at zlib's default level."""
    rng = random.Random(1)
    words = [rng.randbytes(rng.randint(1, 5)).hex()[1:].encode() for _ in range(3_000)]
    text = b"<!DOCTYPE html>\n<html><body>\n" + b" ".join(rng.choices(words, k=HTML_BYTES // 4))
    return text[:HTML_BYTES]


def capture_of(body: bytes, coding: bytes) -> Capture:
    """The page as a server sends it."""
    head = (
        b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 30 Nov 2026 15:00:00 GMT\r\n"
        b'Content-Type: text/html; charset=utf-8\r\nVary: Accept-Encoding\r\nETag: "5f3a-1"\r\n'
        b"Last-Modified: Mon, 30 Nov 2026 14:00:00 GMT\r\nConnection: close\r\n%bContent-Length: %d\r\n\r\n"
    )
    return wire_capture(URL, head % (coding, len(body)) + body, request=REQUEST, tls="TLSv1.3")


def limpet_work(capture: Capture) -> Work:
    """Three records, our way."""

    def work(count: int) -> None:
        for _ in range(count):
            capture_members(capture, META, "", os.urandom(48))

    return work


def warcio_work(capture: Capture, out: io.BytesIO) -> Work:
    """Three records through warcio's public interface."""
    head, body = capture.response_bytes[: capture.body_offset], capture.response_bytes[capture.body_offset :]
    lines = head.decode("latin-1").split("\r\n")
    request_lines = REQUEST.decode("latin-1").split("\r\n")
    block = (
        b"via: http://example.com/section/\r\nhopsFromSeed: LL\r\nfetchTimeMs: 12\r\nlimpet-fp: 000102030405060708\r\n"
    )
    extra = {"WARC-IP-Address": "192.0.2.1", "WARC-Date": "2027-01-15T08:00:00.123456Z", "WARC-Protocol": "http/1.1"}

    def headers(source: list[str], protocol: str) -> StatusAndHeaders:
        pairs = [(name, value) for name, _, value in (line.partition(": ") for line in source[1:] if line)]
        return StatusAndHeaders(source[0].partition(" ")[2], pairs, protocol=protocol)

    def work(count: int) -> None:
        writer = WARCWriter(out, gzip=True, warc_version="1.1")
        for _ in range(count):
            out.seek(0)
            response = writer.create_warc_record(
                URL,
                "response",
                payload=io.BytesIO(body),
                http_headers=headers(lines, "HTTP/1.1"),
                warc_headers_dict=extra,
            )
            request = writer.create_warc_record(
                URL, "request", http_headers=headers(request_lines, "GET"), warc_headers_dict=extra
            )
            metadata = writer.create_warc_record(
                URL, "metadata", payload=io.BytesIO(block), warc_content_type="application/warc-fields",
                warc_headers_dict=extra,
            )  # fmt: skip
            for record in (response, request, metadata):
                writer.write_record(record)

    return work


def append_work(taken: tuple[bytes, ...], folder: Path) -> Callable[[int], Awaitable[None]]:
    """Appends with many in flight, as a crawl node makes them."""
    info = CrawlInfo(software="limpet", user_agent="limpet", crawl="bench")

    async def work(count: int) -> None:
        runner = ThreadRunner("segments")
        store = LocalSegments([folder], disk=SystemDisk(), runner=runner, clock=SystemClock(), min_free_bytes=0)
        writer = await store.open_writer(
            os.urandom(8).hex(), lambda name: warcinfo_member(info, filename=name, at_us=0, token=os.urandom(16))
        )

        async def line() -> None:
            for _ in range(count // IN_FLIGHT):
                await writer.append(taken)

        await asyncio.gather(*(line() for _ in range(IN_FLIGHT)))
        await writer.close()
        runner.close()

    return work


def scan_work(taken: tuple[bytes, ...]) -> Work:
    """What recovery does with each capture."""

    def work(count: int) -> None:
        data = b"".join(taken) * count
        found = sum(1 for _ in members(lambda at, size: data[at : at + size], len(data)))
        if found != 3 * count:
            raise RuntimeError("bad scan")

    return work


def verify_work(taken: tuple[bytes, ...]) -> Work:
    """What `verify` does with each response."""

    def work(count: int) -> None:
        for _ in range(count):
            if check_response(taken[0], Expected(url=URL)):
                raise RuntimeError("bad record")

    return work


def measure(count: int, rounds: int, folder: Path) -> dict[str, list[float]]:
    """CPU milliseconds per capture, round by round."""
    zipped = capture_of(gzip.compress(page(), 6, mtime=0), b"Content-Encoding: gzip\r\n")
    plain = capture_of(page(), b"")
    taken = capture_members(zipped, META, "", bytes(48)).members
    append = append_work(taken, folder)
    works: dict[str, Work] = {
        "limpet": limpet_work(zipped),
        "warcio": warcio_work(zipped, io.BytesIO()),
        "limpet_plain": limpet_work(plain),
        "warcio_plain": warcio_work(plain, io.BytesIO()),
        "append": lambda count: asyncio.run(append(count)),  # type: ignore[arg-type] # it is a coroutine
        "scan": scan_work(taken),
        "verify": verify_work(taken),
    }
    results: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work(max(IN_FLIGHT, count // 10))
    for number in range(rounds):
        names = list(works)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.process_time()
            works[name](count)
            results[name].append((time.process_time() - began) * 1000 / count)
            for path in folder.iterdir():
                path.unlink()
    return results


def plain_sizes() -> dict[str, int]:
    """Bytes of the three records of the uncompressed page: what a level of compression is worth."""
    capture = capture_of(page(), b"")
    out = io.BytesIO()
    warcio_work(capture, out)(1)
    return {
        "wire": len(capture.response_bytes),
        "limpet": sum(map(len, capture_members(capture, META, "", bytes(48)).members)),
        "warcio": out.tell(),
    }


def report(results: Mapping[str, list[float]], args: argparse.Namespace) -> dict[str, Any]:
    """The evidence, as written."""
    return {
        "command": f"python loadtest/scenarios/warc_bench.py --captures {args.captures} --rounds {args.rounds}",
        "what": "CPU ms per capture: page of 72 KB HTML, gzip on the wire",
        "wire_bytes": len(gzip.compress(page(), 6, mtime=0)),
        "plain_page_bytes": plain_sizes(),
        "cpu_ms_per_capture": {name: round(statistics.median(rounds), 4) for name, rounds in results.items()},
        "rounds": {name: [round(value, 4) for value in rounds] for name, rounds in results.items()},
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": {name: version(name) for name in ("isal", "warcio", "msgspec")},
    }


def adr_table(evidence: Mapping[str, Any]) -> str:
    """The measured part of the ADR, from the evidence."""
    figures = evidence["cpu_ms_per_capture"]
    rows = [f"| {text} | {figures[name]:.2f} |" for name, text in ROWS.items()]
    versions = ", ".join(f"{name} {number}" for name, number in evidence["versions"].items())
    sizes = evidence["plain_page_bytes"]
    note = (
        f"{evidence['wire_bytes']:,} bytes of gzip on the wire. The uncompressed page ({sizes['wire']:,} bytes) "
        f"becomes {sizes['limpet']:,} bytes of records by limpet.warc, {sizes['warcio']:,} by warcio. "
        f"Python {evidence['python']}, {versions}."
    )
    return "\n".join(["| Work | CPU ms per capture |", "|---|---|", *rows, "", note]) + "\n"


def write_adr(path: Path, evidence: Mapping[str, Any]) -> None:
    """Replace what stands between the markers."""
    before, _, rest = path.read_text("utf-8").partition(MARKERS[0])
    after = rest.partition(MARKERS[1])[2]
    path.write_text(before + MARKERS[0] + adr_table(evidence) + MARKERS[1] + after, "utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--adr", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        evidence = report(measure(args.captures, args.rounds, Path(folder)), args)
    text = json.dumps(evidence, indent=2) + "\n"
    print(text, end="")
    if args.out is not None:
        args.out.write_text(text, "utf-8")
    if args.adr is not None:
        write_adr(args.adr, evidence)


if __name__ == "__main__":
    main()
