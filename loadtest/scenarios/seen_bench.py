"""What a mark costs on 32 real seen shards: memory of the servers and CPU of the client, at several fills.

    PYTHONPATH=loadtest:infra/local python -m scenarios.seen_bench [--urls 5000000] [--out FILE] [--page FILE]

Fingerprints are random, as a good hash makes them, and the same at each run. The capacity is `--urls`, so that the
last row is a full shard. Memory is what the servers say they allocated (`used_memory`) less what they said when empty;
CPU is this process's own. docs/seen.md quotes loadtest/evidence/seen_memory.json; `--again FILE` writes it from there.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from limpet.clock import SystemClock
from limpet.receipts import Recorder
from limpet.seen import rebuild
from limpet.seen.redis import Address, Layout, RedisSeen
from limpet.seen.redis.link import CLIENT, Link
from limpet.testing.memory_receipts import MemoryReceiptLog
from servers import Folder
from servers.valkey import SHARDS, Valkey, program

FILLS = (0.1, 0.25, 0.5, 0.8, 1.0)
DESIGN_URLS = 10_000_000_000
TARGET_BYTES = 12.0
LINKS = 50  # of a page: what admission asks at once
CALLS = 2_000
CHECKED = 20_000  # marks read back, and as many strangers
MARKERS = ("<!-- measured: begin -->\n", "<!-- measured: end -->\n")
MEGA = 1e6


def fingerprints(shard: int, begin: int, end: int) -> Iterator[bytes]:
    """The marks number `begin` to `end` of a shard."""
    chance = random.Random(f"marks of {shard}")
    chance.randbytes(16 * begin)
    for _ in range(begin, end):
        yield chance.randbytes(16)


class Shards:
    """All of them, with the adapter on each and a connection that asks for figures."""

    def __init__(self, addresses: list[str], urls: int) -> None:
        self.log = MemoryReceiptLog()
        self.recorder = Recorder(self.log)
        self.layout = Layout(urls, len(addresses))
        self.all = [
            RedisSeen(
                Address.parse(address),
                number,
                self.layout,
                crawl="bench",
                epoch=1,
                incarnation="bench",
                recorder=self.recorder,
                clock=SystemClock(),
            )
            for number, address in enumerate(addresses)
        ]
        self.links = [Link(Address.parse(address), seconds_max=30) for address in addresses]

    async def info(self) -> list[dict[str, str]]:
        """INFO of each server."""
        found = []
        for link in self.links:
            (text,) = (await link.exchange([(b"INFO",)])).replies
            pairs = (line.partition(":") for line in text.decode().splitlines())
            found.append({name: value for name, _, value in pairs})
        return found

    async def total(self, figure: str) -> int:
        """The sum of one figure over the servers."""
        return sum(int(info[figure]) for info in await self.info())

    async def close(self) -> None:
        """Drop every connection."""
        for shard in self.all:
            await shard.close()
        for link in self.links:
            await link.close()


async def filled(shards: Shards, begin: int, end: int) -> dict[str, float]:
    """Marks `begin` to `end` of every shard; what the client spent."""
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(rebuild(shard, fingerprints(shard.number, begin, end)) for shard in shards.all))
    marks = (end - begin) * len(shards.all)
    return {
        "marks_a_second": marks / (time.perf_counter() - wall),
        "client_us_a_mark": (time.process_time() - cpu) / marks * MEGA,
    }


async def row(shards: Shards, count: int, empty: int, spent: dict[str, float]) -> dict[str, Any]:
    """Memory at this fill."""
    marks = count * len(shards.all)
    surveys = [await shard.survey() for shard in shards.all]
    for shard in shards.all:
        await shard.close()  # with their buffers
    used = await shards.total("used_memory")
    return {
        "urls": marks,
        "fill": marks / shards.layout.capacity,
        "bytes_a_url": (used - empty) / marks,
        "resident_bytes": await shards.total("used_memory_rss"),
        "log_bytes": await shards.total("aof_current_size"),
        "intset_share": min(survey.intset_share for survey in surveys),
        "members_a_set_max": max(survey.members_a_set_max for survey in surveys),
        **spent,
    }


async def asked(shards: Shards, count: int) -> dict[str, float]:
    """CPU of one page's links: 50 asked, half of them known, on one shard after the other."""
    calls = []
    for call in range(CALLS):
        shard = shards.all[call % len(shards.all)]
        chance = random.Random(f"strangers of {call}")
        begin = call * LINKS // 2 % (count - LINKS)
        known = list(fingerprints(shard.number, begin, begin + LINKS // 2))
        calls.append((shard, known + [chance.randbytes(16) for _ in range(LINKS // 2)]))
    cpu = time.process_time()
    for shard, fps in calls:
        found = await shard.present(fps)
        if found != [True] * (LINKS // 2) + [False] * (LINKS // 2):
            raise SystemExit(f"shard {shard.number} answers wrongly")
    return {"client_us_a_page": (time.process_time() - cpu) / CALLS * MEGA}


async def checked(shards: Shards, count: int) -> dict[str, int]:
    """Marks that are missing and strangers that are present: both must be none."""
    share = min(count, CHECKED // len(shards.all) + 1)
    missing = invented = 0
    for shard in shards.all:
        missing += (await shard.present(list(fingerprints(shard.number, count - share, count)))).count(False)
        strangers = list(fingerprints(shard.number + len(shards.all), 0, share))
        invented += (await shard.present(strangers)).count(True)
    return {"asked": 2 * share * len(shards.all), "missing": missing, "invented": invented}


async def measured(addresses: list[str], urls: int) -> dict[str, Any]:
    """Everything, in one go."""
    shards = Shards(addresses, urls)
    for shard in shards.all:
        await shard.check()
        await shard.close()
    empty = await shards.total("used_memory")
    server = shards.recorder.recent[-1].server
    rows, before = [], 0
    for fill in FILLS:
        count = int(urls * fill) // len(shards.all)
        rows.append(await row(shards, count, empty, await filled(shards, before, count)))
        before = count
    found = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "server": server,
        "client": CLIENT,
        "shards": len(shards.all),
        "sets_a_shard": shards.layout.sets,
        "empty_bytes_a_server": empty // len(shards.all),
        "fills": rows,
        "page": await asked(shards, before),
        "read_back": await checked(shards, before),
        "unclean_receipts": len(shards.log.receipts),
        "design": design(rows, empty),
    }
    await shards.close()
    return found


def design(rows: list[dict[str, Any]], empty: int) -> dict[str, float]:
    """What the design size takes by these figures: sets are as full there as here, there are only more of them."""
    layout = Layout(DESIGN_URLS, SHARDS)
    return {
        "urls": DESIGN_URLS,
        "sets_a_shard": layout.sets,
        "kept_bits": layout.kept_bits,
        "collision": layout.collision,
        "bytes_at_80_percent": rows[-2]["bytes_a_url"] * DESIGN_URLS * 0.8 + empty,
        "bytes_full": rows[-1]["bytes_a_url"] * DESIGN_URLS + empty,
    }


def table(found: dict[str, Any]) -> str:
    """The part of docs/seen.md that is measured."""
    rows = "".join(
        f"| {one['urls']:,} | {one['fill']:.0%} | {one['bytes_a_url']:.2f} | {one['members_a_set_max']} | "
        f"{one['intset_share']:.0%} | {one['client_us_a_mark']:.1f} µs |\n"
        for one in found["fills"]
    )
    plan, back = found["design"], found["read_back"]
    verdict = "met" if found["fills"][-1]["bytes_a_url"] <= TARGET_BYTES else "missed"
    return f"""\
Measured on {found["date"]}: {found["server"]}, {found["shards"]} shards, {found["client"]}, Python {found["python"]},
{found["cpus"]} cores, load average {found["load_average"]:.1f}.
What an empty server takes ({found["empty_bytes_a_server"] / MEGA:.1f} MB) is not counted in the table.

| URLs | part of the capacity | bytes a URL | largest set seen | sets kept as arrays | client CPU a mark |
|---:|---:|---:|---:|---:|---:|
{rows}
* Target: at most {TARGET_BYTES:.0f} bytes a URL at the capacity: {verdict}.
* {plan["urls"]:,} URLs by these figures: {plan["bytes_full"] / 1e9:.1f} GB,
  {plan["bytes_full"] / found["shards"] / 1e9:.2f} GB a shard with {plan["sets_a_shard"]:,} sets.
* {plan["kept_bits"]:.1f} bits tell two URLs of such a shard apart: a collision anywhere in the crawl has a chance below
  {plan["collision"]:.1e}.
* Asking for the {LINKS} links of a page, half of them new: {found["page"]["client_us_a_page"]:.0f} µs of CPU.
* Read back: {back["asked"]:,} fingerprints, {back["missing"]} marks missing, {back["invented"]} invented.
"""


def write_page(path: Path, found: dict[str, Any]) -> None:
    """Between the markers."""
    before, _, rest = path.read_text("utf-8").partition(MARKERS[0])
    after = rest.partition(MARKERS[1])[2]
    path.write_text(before + MARKERS[0] + table(found) + MARKERS[1] + after, "utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="memory and CPU of marks on real seen shards")
    parser.add_argument("--urls", type=int, default=5_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--again", type=Path, help="evidence to write the page from, instead of measuring")
    asked_for = parser.parse_args()
    if asked_for.again:
        found = json.loads(asked_for.again.read_text("utf-8"))
    else:
        program()
        with tempfile.TemporaryDirectory(prefix="seen-bench-") as place:
            valkey = Valkey(Folder.at(place), tied=True)
            try:
                found = asyncio.run(measured(valkey.up()["shards"], asked_for.urls))
            finally:
                valkey.down()
    text = json.dumps(found, indent=2) + "\n"
    sys.stdout.write(text)
    if asked_for.out:
        asked_for.out.write_text(text, "utf-8")
    if asked_for.page:
        write_page(asked_for.page, found)


if __name__ == "__main__":
    main()
