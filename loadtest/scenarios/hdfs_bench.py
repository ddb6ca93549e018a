"""What appends and reads cost on a real HDFS of three DataNodes: throughput, CPU of the client, latency.

    PYTHONPATH=loadtest:infra/local python -m scenarios.hdfs_bench [--captures 4000] [--out FILE] [--page FILE]

A capture is the page of `warc_bench`: response, request and metadata of 72 KB HTML, made beforehand. CPU is that of
this process, the driver's threads included; the servers' is not counted, though they share the machine with it.
docs/segments-hdfs.md quotes loadtest/evidence/hdfs_segments.json; `--again FILE` writes it from there.
"""

import argparse
import asyncio
import getpass
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from limpet.clock import SystemClock
from limpet.runtime import InlineRunner
from limpet.segments import Location
from limpet.segments.full import WriterLimits
from limpet.segments.hdfs import HdfsSegments, HdfsSettings
from limpet.segments.hdfs.native import NativeHdfs
from limpet.segments.hdfs.places import places_of
from limpet.warc import CrawlInfo, capture_members, warcinfo_member
from scenarios.warc_bench import META, capture_of, page
from servers import Folder, service

IN_FLIGHT = (1, 16, 64, 256)
READS = 300
DEATHS = 5
MARKERS = ("<!-- measured: begin -->\n", "<!-- measured: end -->\n")
INFO = CrawlInfo(software="limpet/bench", user_agent="limpet/bench", crawl="bench")


def warcinfo(name: str) -> bytes:
    """The first record of a segment."""
    return warcinfo_member(INFO, filename=name, at_us=1_800_000_000_000_000, token=bytes(16))


class Bench:
    """One store on one cluster."""

    def __init__(self, endpoints: dict[str, Any]) -> None:
        self.settings = HdfsSettings(
            url=endpoints["namenode"],
            namenodes_http=(endpoints["namenode_http"],),
            root="/bench",
            user=getpass.getuser(),
            min_free_bytes=1_000_000,
        )
        self.hdfs = NativeHdfs(self.settings)
        self.alive = True
        self.members = capture_members(capture_of(page(), b""), META, "", bytes(48)).members

    def store(self) -> HdfsSegments:
        """As a process would build it."""

        async def is_alive(_: str) -> bool:
            return self.alive

        def alert(kind: str, detail: str) -> None:
            sys.stderr.write(f"{kind}: {detail}\n")

        return HdfsSegments(
            self.hdfs,
            self.settings,
            clock=SystemClock(),
            is_alive=is_alive,
            alert=alert,
            runner=InlineRunner(),
            limits=WriterLimits(),
        )

    async def appends(self, captures: int, in_flight: int) -> dict[str, Any]:
        """So many captures, so many of them on their way at any time."""
        writer = await self.store().open_writer("a" * 16, warcinfo)
        await writer.append(self.members)
        left, latencies, before = iter(range(captures)), list[float](), writer.groups

        async def line() -> None:
            for _ in left:
                began = time.perf_counter()
                await writer.append(self.members)
                latencies.append(time.perf_counter() - began)

        cpu, began = time.process_time(), time.perf_counter()
        await asyncio.gather(*(line() for _ in range(in_flight)))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        groups = writer.groups - before
        await writer.close()
        return {
            "in_flight": in_flight,
            "captures": captures,
            "captures_a_second": captures / seconds,
            "cpu_us_a_capture": cpu / captures * 1e6,
            "captures_a_group": captures / groups,
            "cpu_ms_a_group": cpu / groups * 1e3,
            **quantiles(latencies),
        }

    async def reads(self) -> dict[str, Any]:
        """Records of a sealed and of a growing segment, one at a time and a parser's batch at once."""
        store, chance = self.store(), random.Random(1)
        writer = await store.open_writer("a" * 16, warcinfo)
        places = [places[0] for places in await asyncio.gather(*(writer.append(self.members) for _ in range(1_000)))]
        growing = [chance.choice(places) for _ in range(READS)]
        found = {"growing_one": await timed(growing, store.read)}
        found["growing_batch_of_64"] = await batches(places, store)
        await writer.close()
        found["sealed_one"] = await timed(growing, store.read)
        return found

    async def recoveries(self) -> list[float]:
        """Seconds from asking for a vanished writer's file until it is closed."""
        found = []
        for number in range(DEATHS):
            self.alive = True
            name = f"limpet-20270115080000000-0000{number}-dead.warc.gz"
            file = await self.hdfs.create(places_of(self.settings.root, name).growing, overwrite=True)
            await file.write(b"".join(self.members))
            await file.hsync()
            file.drop()
            self.alive = False
            began = time.perf_counter()
            await self.store().recover(name, 0)
            found.append(time.perf_counter() - began)
        return found


async def timed(places: Sequence[Location], read: Callable[[Location], Awaitable[bytes]]) -> dict[str, float]:
    """Each read alone."""
    latencies, cpu = [], time.process_time()
    for place in places:
        began = time.perf_counter()
        await read(place)
        latencies.append(time.perf_counter() - began)
    return {"cpu_us_a_read": (time.process_time() - cpu) / len(places) * 1e6, **quantiles(latencies)}


async def batches(places: Sequence[Location], store: HdfsSegments) -> dict[str, float]:
    """64 neighbours at once."""
    latencies, cpu = [], time.process_time()
    for start in range(0, 960, 64):
        began = time.perf_counter()
        await asyncio.gather(*(store.read(place) for place in places[start : start + 64]))
        latencies.append((time.perf_counter() - began) / 64)
    return {"cpu_us_a_read": (time.process_time() - cpu) / 960 * 1e6, **quantiles(latencies)}


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    cut = statistics.quantiles(seconds, n=100)
    return {"p50_ms": cut[49] * 1e3, "p99_ms": cut[98] * 1e3}


async def measured(endpoints: dict[str, Any], captures: int) -> dict[str, Any]:
    """Everything, on servers that are up."""
    bench = Bench(endpoints)
    await bench.appends(300, 64)  # the servers' compilers
    found: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "client": f"hdfs-native {version('hdfs-native')}",
        "capture_bytes": sum(map(len, bench.members)),
        "appends": [await bench.appends(captures if many > 1 else captures // 10, many) for many in IN_FLIGHT],
        "reads": await bench.reads(),
    }
    found["recovery_seconds"] = sorted(await bench.recoveries())
    await bench.hdfs.close()
    return found


def table(found: dict[str, Any]) -> str:
    """The measured part of the page."""
    rows = [
        f"| {row['in_flight']} | {row['captures_a_second']:,.0f} | {row['captures_a_group']:.1f} | "
        f"{row['cpu_us_a_capture']:,.0f} µs | {row['p50_ms']:.1f} ms | {row['p99_ms']:.1f} ms |"
        for row in found["appends"]
    ]
    reads, recovery = found["reads"], found["recovery_seconds"]
    names = {
        "sealed_one": "sealed, one at a time",
        "growing_one": "growing block, one at a time",
        "growing_batch_of_64": "growing block, 64 at once (each)",
    }
    read_rows = [
        f"| {name} | {row['p50_ms']:.2f} ms | {row['p99_ms']:.2f} ms | {row['cpu_us_a_read']:,.0f} µs |"
        for key, name in names.items()
        for row in [reads[key]]
    ]
    return f"""
{found["date"]}, {found["cpus"]} cores shared with the servers (load {found["load_average"]:.1f} at the start), Python
{found["python"]}, {found["client"]}; captures of {found["capture_bytes"]:,} bytes, three replicas.

| On their way | Captures/s | In a group | CPU of the client a capture | p50 | p99 |
|---:|---:|---:|---:|---:|---:|
{chr(10).join(rows)}

| Read of a record | p50 | p99 | CPU of the client |
|---|---:|---:|---:|
{chr(10).join(read_rows)}

Taking and cutting the file of a vanished writer, all servers up: {recovery[0]:.1f} to {recovery[-1]:.1f} s.
"""


def write_page(path: Path, found: dict[str, Any]) -> None:
    """Between the markers."""
    before, _, rest = path.read_text("utf-8").partition(MARKERS[0])
    after = rest.partition(MARKERS[1])[2]
    path.write_text(before + MARKERS[0] + table(found) + MARKERS[1] + after, "utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="appends to and reads from segments on a real HDFS")
    parser.add_argument("--captures", type=int, default=4_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--again", type=Path, help="evidence to write the page from, instead of measuring")
    asked_for = parser.parse_args()
    if asked_for.again:
        found = json.loads(asked_for.again.read_text("utf-8"))
    else:
        with tempfile.TemporaryDirectory(prefix="hdfs-bench-") as place:
            hdfs = service("hdfs", Folder.at(place), tied=True)
            try:
                found = asyncio.run(measured(hdfs.up(), asked_for.captures))
            finally:
                hdfs.down()
    text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text)
    if asked_for.out:
        asked_for.out.write_text(text, "utf-8")
    if asked_for.page:
        write_page(asked_for.page, found)


if __name__ == "__main__":
    main()
