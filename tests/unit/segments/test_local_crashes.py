"""Local segments under death: before and after every disk operation, with and without power, and again in recovery."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from limpet.clock import SystemClock
from limpet.runtime import Disk, InlineRunner, Killed, SystemDisk
from limpet.segments import Location
from limpet.segments.full import WriterLimits
from limpet.segments.local import LocalSegments
from limpet.segments.scan import SegmentScan
from limpet.testing.captures import wire_capture
from limpet.testing.disks import DyingDisk, MemoryDisk
from limpet.warc import (
    CaptureGrouper,
    CaptureMeta,
    CrawlInfo,
    capture_members,
    index_of,
    line_of,
    members,
    warcinfo_member,
)

CAPTURES = 5
Crash = Callable[[MemoryDisk], None]
CRASHES: dict[str, Crash] = {
    "kill": lambda disk: disk.kill(),
    "power": lambda disk: disk.power_cut(),
    "power, torn": lambda disk: disk.power_cut(torn_bytes=700),
    "power, entries kept": lambda disk: disk.power_cut(entries="kept", torn_bytes=700),
    "power, entries out of order": lambda disk: disk.power_cut(entries="last"),
}


def warcinfo(name: str) -> bytes:
    info = CrawlInfo(software="limpet/0", user_agent="limpet/0", crawl="c")
    return warcinfo_member(info, filename=name, at_us=0, token=bytes(16))


def capture(number: int) -> tuple[bytes, ...]:
    return capture_members(
        wire_capture(f"http://example.com/{number}"), CaptureMeta(), "", bytes([number]) * 48
    ).members


def store_on(disk: Disk, folders: list[Path]) -> LocalSegments:
    return LocalSegments(
        folders,
        disk=disk,
        runner=InlineRunner(),
        clock=SystemClock(),
        limits=WriterLimits(roll_captures_max=2, full_seal_seconds=0),
        min_free_bytes=0,
    )


async def write_all(store: LocalSegments, incarnation: str, acknowledged: dict[int, list[Location]]) -> None:
    """The life of a writer: five captures in three segments, and a clean end."""
    writer = await store.open_writer(incarnation, warcinfo)
    for number in range(CAPTURES):
        acknowledged[number] = await writer.append(capture(number))
    await writer.close()


async def recover_all(store: LocalSegments) -> None:
    """What a reconciler does with the segments of dead writers."""
    for info in await store.infos():
        if info.live or info.sealed:
            continue
        grouper, lines = CaptureGrouper(), []
        async for member in SegmentScan(store, info.name):
            grouper.add(member)
            lines.append((member.end, line_of(member, info.name)))
        assert await store.recover(info.name, grouper.whole_bytes)
        kept = [line for end, line in lines if line is not None and end <= grouper.whole_bytes]
        await store.seal(info.name, index_of(kept))


def died(main: Callable[[], object]) -> bool:
    try:
        main()
    except Killed:
        return True
    return False


async def check(disk: MemoryDisk, folders: list[Path], acknowledged: dict[int, list[Location]]) -> None:
    """Nothing acknowledged is missing, nothing torn is left, every replica is the same, every segment is sealed."""
    disk.power_cut()  # what recovery kept is durable, too; that a killed process sealed may be forgotten
    store = store_on(disk, folders)
    await recover_all(store)
    for number, locations in acknowledged.items():
        assert [await store.read(location) for location in locations] == list(capture(number))
    for info in await store.infos():
        assert info.sealed
        for suffix in ("", ".cdxj"):
            assert len({disk.read(folder / f"{info.name}{suffix}", 0, 10**6) for folder in folders}) == 1
        data = disk.read(folders[0] / info.name, 0, 10**6)
        scan = members(lambda offset, size, data=data: data[offset : offset + size], len(data))  # type: ignore[misc]
        types = [member.header.type for member in scan]
        assert (scan.good_bytes, scan.torn) == (len(data), "")
        assert types in ([], ["warcinfo"] + ["response", "request", "metadata"] * ((len(types) - 1) // 3))
        index = disk.read(folders[0] / f"{info.name}.cdxj", 0, 10**6)
        assert index.count(b"\n") == types.count("response")
        assert index.splitlines() == sorted(index.splitlines())
    left = {path.name for path in disk.snapshot()}
    assert left == {name for info in await store.infos() for name in (info.name, f"{info.name}.cdxj")}


def operations(replicas: int) -> int:
    disk = DyingDisk(MemoryDisk(), 10**9, after=False)
    folders = [Path(f"/{number}") for number in range(replicas)]
    asyncio.run(write_all(store_on(disk, folders), "a", {}))
    return disk.operations


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("replicas", [1, 3])
def test_death_at_every_disk_operation(replicas: int, crash: str) -> None:
    """A writer that dies before or after any step loses nothing acknowledged; recovery that dies too loses no more."""
    folders = [Path(f"/{number}") for number in range(replicas)]
    total = operations(replicas)
    assert total >= 15 * replicas
    walked = again = 0
    for nth in range(1, total + 1):
        for after in (False, True):
            disk = MemoryDisk()
            acknowledged: dict[int, list[Location]] = {}
            dying = store_on(DyingDisk(disk, nth, after=after), folders)
            walked += died(lambda: asyncio.run(write_all(dying, "a", acknowledged)))  # noqa: B023 - run at once
            CRASHES[crash](disk)
            dying = store_on(DyingDisk(disk, 1 + (nth * 7) % (8 * replicas), after=after), folders)
            again += died(lambda: asyncio.run(recover_all(dying)))  # noqa: B023 - run at once
            CRASHES[crash](disk)
            asyncio.run(recover_all(store_on(disk, folders)))
            asyncio.run(check(disk, folders, acknowledged))
    assert walked == 2 * total
    assert again > total // 2, "recovery was interrupted too"


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("replicas", [1, 3])
def test_death_at_every_operation_of_recovery(replicas: int, crash: str) -> None:
    """Cutting, completing replicas and sealing can be interrupted anywhere, twice at the same place too."""
    folders = [Path(f"/{number}") for number in range(replicas)]
    last = operations(replicas) - 6 * replicas
    for nth in range(1, 500):
        for after in (False, True):
            disk = MemoryDisk()
            acknowledged: dict[int, list[Location]] = {}
            dying = store_on(DyingDisk(disk, last, after=False), folders)
            assert died(lambda: asyncio.run(write_all(dying, "a", acknowledged)))  # noqa: B023 - run at once
            disk.power_cut(torn_bytes=500)
            alive = 0
            for _ in range(2):
                dying = store_on(DyingDisk(disk, nth, after=after), folders)
                alive += not died(lambda: asyncio.run(recover_all(dying)))  # noqa: B023 - run at once
                CRASHES[crash](disk)
            asyncio.run(recover_all(store_on(disk, folders)))
            asyncio.run(check(disk, folders, acknowledged))
        if alive == 2:
            return
    pytest.fail("recovery has more than 500 operations")


@pytest.mark.parametrize("replicas", [1, 3])
def test_what_was_sealed_stays_sealed(replicas: int) -> None:
    """When a writer has closed, or a seal returned, a power cut undoes neither the name nor the index."""
    folders = [Path(f"/{number}") for number in range(replicas)]
    disk = MemoryDisk()
    asyncio.run(write_all(store_on(disk, folders), "a", {}))
    before = disk.snapshot()
    disk.power_cut()
    assert disk.snapshot() == before
    (first, *_) = asyncio.run(store_on(disk, folders).infos())
    asyncio.run(store_on(disk, folders).seal(first.name, b"another index\n"))
    disk.power_cut()
    assert {disk.read(folder / f"{first.name}.cdxj", 0, 99) for folder in folders} == {b"another index\n"}
    assert [info.sealed for info in asyncio.run(store_on(disk, folders).infos())] == [True] * 3


@pytest.mark.parametrize("replicas", [1, 3])
def test_every_tear_that_a_power_cut_can_leave(replicas: int) -> None:
    """Whatever part of an unsynced append reached the disk, recovery keeps what was acknowledged and no fragment."""
    folders = [Path(f"/{number}") for number in range(replicas)]
    first_sync_of_second_append = 2 * replicas + 2 * replicas + replicas + 1
    for torn_bytes in range(len(b"".join(capture(1))) + 1):
        disk = MemoryDisk()
        acknowledged: dict[int, list[Location]] = {}
        dying = DyingDisk(disk, first_sync_of_second_append, after=False)
        store = store_on(dying, folders)
        assert died(lambda: asyncio.run(write_all(store, "a", acknowledged)))  # noqa: B023 - run at once
        assert (list(acknowledged), dying.counts["sync"], dying.counts["write"]) == ([0], replicas, 2 * replicas)
        disk.power_cut(torn_bytes=torn_bytes)
        asyncio.run(recover_all(store_on(disk, folders)))
        asyncio.run(check(disk, folders, acknowledged))
        name = acknowledged[0][0].segment
        size = disk.size(folders[0] / name)
        whole = torn_bytes == len(b"".join(capture(1)))
        assert size == acknowledged[0][2].offset + acknowledged[0][2].length + (torn_bytes if whole else 0)


def test_a_store_that_does_not_sync_is_caught() -> None:
    """The rehearsal disk sees through a writer that acknowledges without syncing: the check above fails for it."""

    class NoSync(DyingDisk):
        """Says it has synced."""

        def perform(self, operation, path, effect):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - passed on
            return None if operation == "sync" else super().perform(operation, path, effect)

    disk = MemoryDisk()
    acknowledged: dict[int, list[Location]] = {}
    asyncio.run(write_all(store_on(NoSync(disk, 10**9, after=False), [Path("/0")]), "a", acknowledged))
    disk.power_cut()
    with pytest.raises((ValueError, AssertionError)):
        asyncio.run(check(disk, [Path("/0")], acknowledged))


WRITER = """
import asyncio, sys
from pathlib import Path
from limpet.clock import SystemClock
from limpet.runtime import SystemDisk, ThreadRunner
from limpet.segments.local import LocalSegments
from limpet.testing.captures import wire_capture
from limpet.warc import CaptureMeta, CrawlInfo, capture_members, warcinfo_member

async def main():
    store = LocalSegments([Path(p) for p in sys.argv[1:]],
                          disk=SystemDisk(), runner=ThreadRunner("w"), clock=SystemClock(), min_free_bytes=0)
    info = CrawlInfo(software="s", user_agent="u", crawl="c")
    writer = await store.open_writer(
        "a", lambda name: warcinfo_member(info, filename=name, at_us=0, token=bytes(16)))
    async def one(lane):
        number = lane
        while True:
            members = capture_members(
                wire_capture(f"http://example.com/{number}"), CaptureMeta(), "", number.to_bytes(48, "big")).members
            for place in await writer.append(members):
                print(place.segment, place.offset, place.length, flush=True)
            number += 8
    await asyncio.gather(*map(one, range(8)))

asyncio.run(main())
"""


def test_a_real_kill_frees_the_lock_and_loses_nothing(tmp_path: Path) -> None:
    """After kill -9 of a writing process its lock is gone, and all that it said was written reads back whole."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    process = subprocess.Popen([sys.executable, "-c", WRITER, *map(str, folders)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(300)]
    store = store_on(SystemDisk(), folders)
    (info,) = asyncio.run(store.infos())
    assert info.live
    assert asyncio.run(store.recover(info.name, 0)) is False
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    lines += process.stdout.read().splitlines(keepends=True)
    process.stdout.close()
    asyncio.run(recover_all(store))
    (info,) = asyncio.run(store.infos())
    assert info.sealed
    places = [line.split() for line in lines if line.endswith("\n")]
    for name, offset, length in places:
        member = asyncio.run(store.read(Location(name, int(offset), int(length))))
        data = members(lambda at, size, member=member: member[at : at + size], len(member))  # type: ignore[misc]
        assert len(list(data)) == 1
    assert len(places) >= 300
