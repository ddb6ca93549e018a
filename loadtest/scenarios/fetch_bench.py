"""CPU per fetch of the wire engine against httpx's own transport, on fresh loopback connections.

    python loadtest/scenarios/fetch_bench.py [--fetches 4000] [--rounds 5] [--out loadtest/evidence/fetch_engine.json]

A child process serves one 32 KB body and closes each connection. The parent fetches it with N exchanges in flight, one
client after the other, the order turned in every round; CPU is that of the parent alone (user and system). Reported is
the median of the rounds, and each round beside it.
"""

import argparse
import asyncio
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import cast

import httpx
import uvloop

from limpet.clock import SystemClock
from limpet.fetch import FetchRequest, Gate, Head, Owned, SystemResolver, WireFetcher
from limpet.fetch.httpx_transport import LimpetTransport

BODY = (b"<p>limpet holds on to its rock</p>\n" * 1000)[:32_768]
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 02 Nov 2026 10:00:00 GMT\r\nContent-Type: text/html\r\n"
    b"Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
)
USER_AGENT = b"limpet/0 (+bench)"

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
    """The child: print the port, serve until the parent closes our standard input."""
    server = await asyncio.get_running_loop().create_server(Origin, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


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


async def measure(port: int, args: argparse.Namespace) -> dict[str, list[float]]:
    """Rounds of every client, in milliseconds per fetch."""
    url = f"http://127.0.0.1:{port}/page"
    clock = SystemClock()
    fetcher = WireFetcher(clock, Gate(Owned.parse(["127.0.0.0/8"])), SystemResolver(clock))
    request = FetchRequest(url=url, headers=((b"User-Agent", USER_AGENT), (b"Accept-Encoding", b"gzip")), owned=True)

    async def wire() -> None:
        capture = await fetcher.fetch(request)
        if len(capture.payload) != len(BODY) or capture.truncated or capture.failure:
            raise RuntimeError(f"bad capture: {capture.failure} {capture.truncated}")

    async def wire_on_head() -> None:
        capture = await fetcher.fetch(request, on_head)
        if len(capture.payload) != len(BODY):
            raise RuntimeError(f"bad capture: {capture.failure} {capture.truncated}")

    async def through(client: httpx.AsyncClient) -> None:
        response = await client.get(url)
        if len(response.content) != len(BODY):
            raise RuntimeError("bad response")

    limits = httpx.Limits(max_keepalive_connections=0)
    headers = {"User-Agent": USER_AGENT.decode(), "Accept-Encoding": "gzip", "Connection": "close"}
    plain = httpx.AsyncClient(trust_env=False, limits=limits, headers=headers)
    ours = httpx.AsyncClient(trust_env=False, transport=LimpetTransport(fetcher, owned=True), headers=headers)
    workers: dict[str, Worker] = {
        "wire": wire,
        "wire_on_head": wire_on_head,
        "httpx_over_wire": lambda: through(ours),
        "httpx": lambda: through(plain),
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


def report(results: dict[str, list[float]], args: argparse.Namespace) -> dict[str, object]:
    """The evidence, as written."""
    return {
        "command": "python loadtest/scenarios/fetch_bench.py",
        "what": "CPU milliseconds of the client process per fetch, 32 KB body, fresh loopback connection, uvloop",
        "fetches": args.fetches,
        "in_flight": args.in_flight,
        "cpu_ms_per_fetch": {name: round(statistics.median(rounds), 4) for name, rounds in results.items()},
        "rounds": {name: [round(value, 4) for value in rounds] for name, rounds in results.items()},
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "versions": {name: version(name) for name in ("uvloop", "httpx", "ada-url", "msgspec")},
    }


def main() -> None:
    """Run the parent, or with `--serve` the child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fetches", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve())
        return
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as origin:
        port = int(origin.stdout.readline()) if origin.stdout is not None else 0
        results = uvloop.run(measure(port, args))
        if origin.stdin is not None:
            origin.stdin.close()
    text = json.dumps(report(results, args), indent=2) + "\n"
    print(text, end="")
    if args.out is not None:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
