"""CPU per fetch of the wire engine against httpx's own transport, on fresh loopback connections.

    python loadtest/scenarios/fetch_bench.py [--fetches 2000] [--rounds 5] --out loadtest/evidence/fetch_engine.json

A child process serves one 32 KB body, with and without TLS, and closes each connection. The parent fetches it with N
exchanges in flight, one client after the other, the order turned in every round; CPU is that of the parent alone (user
and system). Reported is the median of the rounds, and each round beside it. `--adr FILE` writes the table between the
markers of that page.
"""

import argparse
import asyncio
import json
import os
import platform
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import httpx
import uvloop

from limpet.clock import SystemClock
from limpet.fetch import FetchRequest, Gate, Head, OnHead, Owned, SystemResolver, WireFetcher
from limpet.fetch.httpx_transport import LimpetTransport

BODY = (b"<p>limpet holds on to its rock</p>\n" * 1000)[:32_768]
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 02 Nov 2026 10:00:00 GMT\r\nContent-Type: text/html\r\n"
    b"Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
)
USER_AGENT = b"limpet/0 (+bench)"
CERTIFICATE = Path(__file__).parents[2] / "tests/unit/fetch/certs/localhost.pem"

Worker = Callable[[], Awaitable[None]]


class Origin(asyncio.Protocol):
    """Answers the first bytes of a connection and closes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass

    def data_received(self, data: bytes) -> None:
        """One read is one request head here."""
        if data.endswith(b"\r\n\r\n"):
            self.transport.write(HEAD + BODY)
            self.transport.close()


async def serve() -> None:
    """The child: print the ports, serve until the parent closes our standard input."""
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    plain = await loop.create_server(Origin, "127.0.0.1", 0, backlog=1024)
    secure = await loop.create_server(Origin, "127.0.0.1", 0, backlog=1024, ssl=context)
    print(*(server.sockets[0].getsockname()[1] for server in (plain, secure)), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    plain.close()
    secure.close()


async def hammer(fetches: int, in_flight: int, worker: Worker) -> float:
    """CPU milliseconds of this process per call of `worker`."""

    async def line(count: int) -> None:
        for _ in range(count):
            await worker()

    began = time.process_time()
    await asyncio.gather(*(line(fetches // in_flight) for _ in range(in_flight)))
    return (time.process_time() - began) * 1000 / (fetches // in_flight * in_flight)


async def on_head(head: Head) -> None:
    """What a crawl node does on an untroubled answer."""
    if head.status != 200:
        raise RuntimeError(f"unexpected status {head.status}")


def wire_worker(fetcher: WireFetcher, url: str, on_head: OnHead | None = None) -> Worker:
    """Fetch `url` through the engine and look at the result."""
    request = FetchRequest(url=url, headers=((b"User-Agent", USER_AGENT), (b"Accept-Encoding", b"gzip")), owned=True)

    async def fetch() -> None:
        capture = await fetcher.fetch(request, on_head)
        if len(capture.payload) != len(BODY) or capture.truncated or capture.failure:
            raise RuntimeError(f"bad capture: {capture.failure} {capture.truncated}")

    return fetch


def httpx_worker(client: httpx.AsyncClient, url: str) -> Worker:
    """Fetch `url` through `client`."""

    async def fetch() -> None:
        response = await client.get(url)
        if len(response.content) != len(BODY):
            raise RuntimeError("bad response")

    return fetch


async def measure(ports: list[int], args: argparse.Namespace) -> dict[str, list[float]]:
    """Rounds of every client, in milliseconds per fetch."""
    url, secure_url = f"http://127.0.0.1:{ports[0]}/page", f"https://127.0.0.1:{ports[1]}/page"
    clock, trusting = SystemClock(), ssl.create_default_context(cafile=str(CERTIFICATE))
    fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), SystemResolver(clock), trusting)
    limits = httpx.Limits(max_keepalive_connections=0)
    headers = {"User-Agent": USER_AGENT.decode(), "Accept-Encoding": "gzip", "Connection": "close"}
    plain = httpx.AsyncClient(trust_env=False, limits=limits, headers=headers, verify=trusting)
    ours = httpx.AsyncClient(trust_env=False, transport=LimpetTransport(fetcher, owned=True), headers=headers)
    workers: dict[str, Worker] = {
        "wire": wire_worker(fetcher, url),
        "wire_on_head": wire_worker(fetcher, url, on_head),
        "httpx_over_wire": httpx_worker(ours, url),
        "httpx": httpx_worker(plain, url),
        "wire_tls": wire_worker(fetcher, secure_url),
        "httpx_tls": httpx_worker(plain, secure_url),
    }
    results: dict[str, list[float]] = {name: [] for name in workers}
    for worker in workers.values():
        await hammer(args.fetches // 10, args.in_flight, worker)
    for number in range(args.rounds):
        names = list(workers)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            results[name].append(await hammer(args.fetches, args.in_flight, workers[name]))
    await plain.aclose()
    await ours.aclose()
    return results


ROWS = {
    "wire": "wire engine",
    "wire_on_head": "wire engine, head awaited",
    "httpx_over_wire": "httpx API over the wire engine",
    "httpx": "httpx, its own transport",
    "wire_tls": "wire engine, fresh TLS",
    "httpx_tls": "httpx, its own transport, fresh TLS",
}
MARKERS = ("<!-- measured: begin -->\n", "<!-- measured: end -->\n")


def adr_table(evidence: Mapping[str, Any]) -> str:
    """The measured part of the ADR, from the evidence."""
    figures = evidence["cpu_ms_per_fetch"]
    rows = [f"| {text} | {figures[name]:.3f} |" for name, text in ROWS.items()]
    versions = ", ".join(f"{name} {number}" for name, number in evidence["versions"].items())
    lines = ["| Client | CPU ms per fetch |", "|---|---|", *rows, "", f"Python {evidence['python']}, {versions}."]
    return "\n".join(lines) + "\n"


def write_adr(path: Path, evidence: Mapping[str, Any]) -> None:
    """Replace what stands between the markers."""
    before, _, rest = path.read_text().partition(MARKERS[0])
    after = rest.partition(MARKERS[1])[2]
    path.write_text(before + MARKERS[0] + adr_table(evidence) + MARKERS[1] + after)


def report(results: dict[str, list[float]], args: argparse.Namespace) -> dict[str, Any]:
    """The evidence, as written."""
    return {
        "command": f"python loadtest/scenarios/fetch_bench.py --fetches {args.fetches} --rounds {args.rounds}",
        "what": "CPU ms of the client process per fetch: 32 KB body, fresh loopback connection (TLS too), uvloop",
        "fetches": args.fetches,
        "in_flight": args.in_flight,
        "cpu_ms_per_fetch": {name: round(statistics.median(rounds), 4) for name, rounds in results.items()},
        "rounds": {name: [round(value, 4) for value in rounds] for name, rounds in results.items()},
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": {name: version(name) for name in ("uvloop", "httpx", "ada-url", "msgspec")},
    }


def main() -> None:
    """Run the parent, or with `--serve` the child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fetches", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--adr", type=Path)
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve())
        return
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as origin:
        ports = [int(port) for port in origin.stdout.readline().split()] if origin.stdout is not None else []
        results = uvloop.run(measure(ports, args))
        if origin.stdin is not None:
            origin.stdin.close()
    evidence = report(results, args)
    text = json.dumps(evidence, indent=2) + "\n"
    print(text, end="")
    if args.out is not None:
        args.out.write_text(text)
    if args.adr is not None:
        write_adr(args.adr, evidence)


if __name__ == "__main__":
    main()
