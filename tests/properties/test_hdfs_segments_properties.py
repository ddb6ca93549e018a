"""Segments on an HDFS where anything dies at any time: what was acknowledged is there, on enough DataNodes."""

import asyncio
import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.captures import capture, recover_all, warcinfo
from contract.segment_rigs import hdfs_settings
from limpet.model.errors import CannotGoOn, LimpetError
from limpet.runtime import InlineRunner
from limpet.segments import Location, SegmentsUnavailable
from limpet.segments.full import WriterLimits
from limpet.segments.hdfs import HdfsSegments
from limpet.segments.hdfs.places import places_of
from limpet.segments.hdfs.writer import HdfsSegmentWriter
from limpet.segments.scan import SegmentScan
from limpet.testing.hdfs import MemoryHdfs
from limpet.testing.loop import SimClock, VirtualLoop, run_virtual

BLOCK_BYTES = 2_000  # a few captures: groups cross blocks all the time
TASKS = 5
CAPTURES = 150

ACTIONS = st.sampled_from(
    [
        "kill",
        "kill two",
        "kill unnoticed",
        "revive",
        "notice",
        "down",
        "up",
        "repair",
        "break",
        "lose reply",
        "take",
        "die",
        "heal",
    ]
)


class World:
    """One cluster, and crawl nodes one after the other on it."""

    def __init__(self, seed: int, clock: SimClock) -> None:
        self.chance = random.Random(seed)
        self.clock = clock
        self.hdfs = MemoryHdfs(block_bytes=BLOCK_BYTES)
        self.hdfs.pause = self.pause
        self.hdfs.repairs = self.chance.random() < 0.7
        self.acknowledged: dict[int, list[Location]] = {}
        self.alerts: list[str] = []
        self.alive: set[str] = set()
        self.number = 0
        self.settings = msgspec.structs.replace(
            hdfs_settings("hdfs://memory:8020", "memory:9870", "/s", BLOCK_BYTES), idle_check_seconds=1.0
        )

    async def pause(self) -> None:
        await self.clock.sleep(self.chance.choice([0, 0.001, 0.01, 0.3]))

    def store(self) -> HdfsSegments:
        async def is_alive(incarnation: str) -> bool:
            return incarnation in self.alive

        return HdfsSegments(
            self.hdfs,
            self.settings,
            clock=self.clock,
            is_alive=is_alive,
            alert=lambda kind, _: self.alerts.append(kind),
            runner=InlineRunner(),
            limits=WriterLimits(roll_bytes=20_000, full_seal_seconds=2.0, idle_seal_seconds=20.0),
        )

    async def append(self, writer: HdfsSegmentWriter) -> None:
        """As an exchange does: until it holds, or the writer ends."""
        while self.number < CAPTURES:
            number, self.number = self.number, self.number + 1
            while True:
                try:
                    locations = await writer.append(capture(number))
                except CannotGoOn:
                    return
                except LimpetError:
                    await self.clock.sleep(0.5)
                    continue
                self.check_replicas(locations)
                self.acknowledged[number] = locations
                await self.clock.sleep(self.chance.random())
                break

    def check_replicas(self, locations: list[Location]) -> None:
        """At the moment of the acknowledgement every byte is on as many DataNodes as are required."""
        places = places_of(self.settings.root, locations[0].segment)
        inode = self.hdfs.inodes.get(places.growing) or self.hdfs.inodes[places.sealed]
        start = 0
        for block in inode.blocks:
            if start < locations[-1].offset + locations[-1].length and start + len(block.data) > locations[0].offset:
                assert len(block.replicas) >= self.settings.replicas_min
            start += len(block.data)
        assert start >= locations[-1].offset + locations[-1].length

    def strike(self, action: str, incarnation: str) -> None:
        """Something happens to the servers, or to who is held for alive."""
        hdfs, node = self.hdfs, self.chance.randint(1, 3)
        if action == "kill two":
            hdfs.kill(node)
            hdfs.kill(node % 3 + 1)
        elif action.startswith("kill"):
            hdfs.kill(node, noticed=action == "kill")
        elif action == "revive":
            hdfs.revive(node)
        elif action == "notice":
            hdfs.notice()
        elif action in {"down", "up"}:
            hdfs.up = action == "up"
        elif action in {"repair", "break"}:
            hdfs.repairs = action == "repair"
        elif action == "lose reply":
            hdfs.lost_replies += 1
        elif action == "take":
            self.alive.discard(incarnation)
        elif action == "heal":
            self.heal()

    def heal(self) -> None:
        """Everything serves."""
        self.hdfs.up, self.hdfs.lost_replies = True, 0
        for node in (1, 2, 3):
            self.hdfs.revive(node)

    async def life(self, incarnation: str, actions: list[str]) -> None:
        """One crawl node; `actions` strike while it appends, the last of them ends it."""
        self.alive.add(incarnation)
        writer = await self.opened(incarnation)
        tasks = [asyncio.ensure_future(self.append(writer)) for _ in range(TASKS)]
        for action in actions:
            await self.clock.sleep(self.chance.choice([0.05, 0.5, 3.0]))
            self.strike(action, incarnation)
            if incarnation not in self.alive:
                await self.recover()
            try:
                await writer.healthy()
            except LimpetError:
                continue
        if incarnation in self.alive and self.chance.random() < 0.5:
            self.heal()
            await asyncio.wait(tasks)
            await writer.close()
        else:  # it dies: whatever it was doing stops in the middle
            theirs = [one for one in asyncio.all_tasks() if one.get_name().startswith(("segment writer", "give back"))]
            for task in [*tasks, *theirs]:
                task.cancel()
            await asyncio.wait(tasks)
            for path in list(self.hdfs.inodes):
                self.hdfs.lose_writer(path)
        for task in tasks:
            if not task.cancelled():
                task.result()
        self.alive.discard(incarnation)

    async def opened(self, incarnation: str) -> HdfsSegmentWriter:
        while True:
            try:
                return await self.store().open_writer(incarnation, warcinfo)
            except SegmentsUnavailable:
                self.heal()

    async def recover(self) -> None:
        """A reconciler, as often as it takes."""
        for _ in range(50):
            try:
                await recover_all(self.store())
            except (LimpetError, KeyError):  # down, or removed by a writer that lives after all
                await self.clock.sleep(1.0)
            else:
                return
            self.heal() if self.chance.random() < 0.1 else None

    async def run(self, lives: list[list[str]]) -> None:
        for number, actions in enumerate(lives):
            await self.life(f"node{number}", actions)
        self.heal()
        await self.clock.sleep(400)  # what was abandoned is given back
        await self.recover()
        store = self.store()
        infos = await store.infos()
        assert all(info.sealed for info in infos)
        for number, locations in self.acknowledged.items():
            assert [await store.read(location) for location in locations] == list(capture(number))
        for info in infos:
            scan = SegmentScan(store, info.name)
            async for _ in scan:
                pass
            assert (scan.torn, scan.good_bytes) == ("", info.size_bytes)
        assert "acknowledged_lost" not in self.alerts


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.lists(ACTIONS, max_size=8), min_size=1, max_size=3))
def test_what_was_acknowledged_outlives_everything(seed: int, lives: list[list[str]]) -> None:
    """Servers and nodes die, freeze, forget to answer and come back in any order; files are taken from living writers.

    Every acknowledged capture was on two DataNodes when it was acknowledged, and reads back at the end; every segment
    is sealed and sound; nobody waits for ever.
    """
    loop = VirtualLoop()
    world = World(seed, SimClock(loop))
    run_virtual(world.run(lives), loop)
