"""Segments on real HDFS while DataNodes, the NameNode and writers die: nothing acknowledged is lost, or hangs."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from contract.captures import capture, warcinfo
from contract.hdfs_driving import (
    BODY_REPEATS,
    CLOCK,
    Appender,
    appending,
    check_readable,
    pipeline,
    settle_all,
)
from contract.segment_rigs import HdfsRig, real_hdfs_rig
from limpet.model.errors import CannotGoOn
from limpet.segments import Location, SegmentsUnavailable
from servers import Node, Proxy, Service
from servers.hdfs import NAMENODE, bean

T = TypeVar("T")
pytestmark = pytest.mark.servers

CALLS_SECONDS_MAX = 15.0
"""No append may take longer than its write, its sync, and the questions about them."""
ASKING_SECONDS = 6.0
SEVER_SECONDS = 0.03
SEVERED = 150  # it ends undisturbed
STARTING_SECONDS_MAX = 30.0


@pytest.fixture
def servers(hdfs_servers: Service) -> Iterator[Service]:
    """HDFS with everything up, before and after; no DataNode is avoided for an earlier silence."""
    hdfs_servers.up()
    deadline = CLOCK.monotonic() + 30
    while bean(hdfs_servers.node(NAMENODE), "NameNode,name=FSNamesystem").get("StaleDataNodes") != 0:
        assert CLOCK.monotonic() < deadline, "a DataNode stays silent"
        asyncio.run(CLOCK.sleep(0.2))
    yield hdfs_servers
    for node in hdfs_servers.nodes:
        node.thaw()
    hdfs_servers.up()


@pytest.fixture
def rig(servers: Service) -> HdfsRig:
    """A new directory."""
    return real_hdfs_rig(servers)


def run(main: Coroutine[None, None, T], rig: HdfsRig) -> T:
    """Run it, and let go of connections."""

    async def closing() -> T:
        try:
            return await main
        finally:
            await rig.close()

    return asyncio.run(closing())


async def nodes_written_to(rig: HdfsRig, servers: Service, appender: Appender) -> list[Node]:
    """The pipeline of the segment that grows, the DataNode first that we send to."""
    latest = max(locations[-1] for locations in appender.acknowledged.values())
    found = await rig.hdfs.blocks(rig.path(f"{latest.segment}.open"), latest.offset, latest.length)
    return pipeline(servers, found.blocks[-1].replicas)


async def judged(rig: HdfsRig, folder: Path, appender: Appender) -> None:
    await settle_all(rig, folder, appender.acknowledged)
    assert not [alert for alert in rig.alerts if alert[0] == "acknowledged_lost"]
    assert appender.slowest_seconds < CALLS_SECONDS_MAX


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_datanode_is_killed(rig: HdfsRig, servers: Service, tmp_path: Path, place: int) -> None:
    """SIGKILL of the first, second or third DataNode of the pipeline: appends go on without it, nothing is lost."""

    async def main() -> None:
        async def fault(appender: Appender) -> None:
            (await nodes_written_to(rig, servers, appender))[place].kill()

        appender = await appending(rig, fault)
        await judged(rig, tmp_path, appender)

    run(main(), rig)


def test_idle_segments_keep_their_replicas_or_are_given_up(rig: HdfsRig, servers: Service) -> None:
    """Two of three DataNodes of an idle segment die: it is noticed without an append, and the file closed."""
    rig.settings = msgspec.structs.replace(rig.settings, idle_check_seconds=0.5)

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        appender = Appender(writer, tasks=1)
        await appender.until(5)
        await appender.stop()
        (info,) = await store.infos()
        for _ in range(3):
            await CLOCK.sleep(0.6)
            await writer.healthy()
        assert [info.live for info in await store.infos()] == [True], "checks leave a sound segment alone"
        for node in (await nodes_written_to(rig, servers, appender))[1:]:
            node.kill()
        async with asyncio.timeout(60):
            while (await rig.hdfs.blocks(rig.path(f"{info.name}.open"), 0, 1)).growing:
                await CLOCK.sleep(0.5)
                with contextlib.suppress(SegmentsUnavailable):
                    await writer.healthy()
        await check_readable(store, appender.acknowledged)
        with contextlib.suppress(CannotGoOn):
            await writer.close()

    run(main(), rig)


@pytest.mark.parametrize("place", [0, 2])
def test_a_datanode_freezes(rig: HdfsRig, servers: Service, tmp_path: Path, place: int) -> None:
    """SIGSTOP of a DataNode: it holds its connections and says nothing. Appends go on without it, reads too."""

    async def main() -> None:
        frozen: list[Node] = []

        async def fault(appender: Appender) -> None:
            frozen.append((await nodes_written_to(rig, servers, appender))[place])
            frozen[0].freeze()

        appender = await appending(rig, fault)
        frozen[0].thaw()
        await judged(rig, tmp_path, appender)

    run(main(), rig)


def test_too_few_replicas_are_no_acknowledgement(rig: HdfsRig, servers: Service, tmp_path: Path) -> None:
    """With one of three DataNodes left nothing is acknowledged; when they are back, appends go on."""

    async def main() -> None:
        async def fault(appender: Appender) -> None:
            for node in servers.nodes[1:3]:
                node.kill()
            await CLOCK.sleep(1)  # what was synced before has been acknowledged by now
            before = len(appender.acknowledged)
            await CLOCK.sleep(8)
            assert len(appender.acknowledged) == before
            for node in servers.nodes[1:3]:
                servers.start(node)
            servers.wait()

        appender = await appending(rig, fault)
        assert appender.errors
        await judged(rig, tmp_path, appender)

    run(main(), rig)


def test_the_namenode_is_killed(rig: HdfsRig, servers: Service, tmp_path: Path) -> None:
    """While the NameNode is down nothing is acknowledged and nobody waits for ever; when it is back, appends go on."""

    async def main() -> None:
        async def fault(appender: Appender) -> None:
            servers.node(NAMENODE).kill()
            await CLOCK.sleep(1)
            before = len(appender.acknowledged)
            with pytest.raises(SegmentsUnavailable):
                await rig.store().open_writer("b" * 16, warcinfo)
            await CLOCK.sleep(5)
            assert len(appender.acknowledged) == before
            servers.start(NAMENODE)
            servers.wait()

        appender = await appending(rig, fault)
        await judged(rig, tmp_path, appender)

    run(main(), rig)


def program(name: str, rig: HdfsRig, *more: str, url: str = "") -> tuple[list[str], dict[str, str]]:
    """A program beside this file: how it is started, and in what environment."""
    words = [sys.executable, str(Path(__file__).with_name(name))]
    words += [url or rig.settings.url, rig.settings.namenodes_http[0], rig.settings.root, *more]
    return words, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_a_connection_that_ends_stops_nobody(rig: HdfsRig, servers: Service) -> None:
    """Connections to the NameNode end in the midst of many calls, again and again: calls fail, and the process goes on.

    It cannot be asked from within: a process that stands still here runs no more code of ours.
    """
    namenode = servers.node(NAMENODE)

    async def main() -> None:
        async with Proxy(namenode.host, namenode.ports["rpc"]) as proxy:
            url = f"hdfs://127.0.0.1:{proxy.port}"
            words, environment = program("hdfs_asking.py", rig, str(ASKING_SECONDS), url=url)
            asking = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, env=environment)
            try:
                async with asyncio.timeout(ASKING_SECONDS + STARTING_SECONDS_MAX):
                    ended = asyncio.create_task(asking.communicate())
                    for _ in range(SEVERED):
                        await CLOCK.sleep(SEVER_SECONDS)
                        proxy.sever()
                    answers, _ = await ended
            finally:
                with contextlib.suppress(ProcessLookupError):
                    asking.kill()
            assert asking.returncode == 0
            assert int(answers) > 0

    asyncio.run(main())


@contextlib.contextmanager
def writing(rig: HdfsRig) -> Iterator[subprocess.Popen[bytes]]:
    """A process that appends, and says what was acknowledged; killed at the end."""
    words, environment = program("hdfs_writer.py", rig)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def said_by(lines: list[bytes]) -> dict[int, list[Location]]:
    """What was acknowledged; the last line may be torn."""
    said = [msgspec.json.decode(line, type=tuple[int, list[Location]]) for line in lines if line.endswith(b"\n")]
    assert len(said) >= 16
    return dict(said)


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_a_writer_is_killed(rig: HdfsRig, tmp_path: Path, seconds: float) -> None:
    """SIGKILL in mid-append: what it said was acknowledged is there, and at most a torn capture behind it, cut."""
    with writing(rig) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        asyncio.run(CLOCK.sleep(seconds))
        process.kill()
        acknowledged = said_by([first, *process.stdout.readlines()])

    async def main() -> None:
        store = rig.store()
        await check_readable(store, acknowledged)  # while the NameNode takes its writer for alive
        (info,) = await store.infos()
        assert info.live
        await settle_all(rig, tmp_path, acknowledged)

    run(main(), rig)


def test_a_frozen_writer_wakes_after_it_was_held_for_dead(rig: HdfsRig, tmp_path: Path) -> None:
    """SIGSTOP, its files taken and sealed, SIGCONT: it ends, and acknowledges nothing that is not in them."""

    async def settle() -> list[str]:
        await settle_all(rig, tmp_path, {})
        return [info.name for info in await rig.store().infos()]

    async def check(acknowledged: dict[int, list[Location]], sealed: list[str]) -> None:
        assert [info.name for info in await rig.store().infos()] == sealed
        await check_readable(rig.store(), acknowledged)

    with writing(rig) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        asyncio.run(CLOCK.sleep(0.5))
        process.send_signal(signal.SIGSTOP)
        sealed: list[str] = run(settle(), rig)
        process.send_signal(signal.SIGCONT)
        acknowledged = said_by([first, *process.stdout.readlines()])
        assert b"held for dead" in process.stderr.read()
        assert process.wait(30) != 0
    run(check(acknowledged, sealed), rig)


def test_who_lost_its_file_acknowledges_nothing_more(rig: HdfsRig) -> None:
    """An incarnation held for dead has its file taken: its next append fails, and it never appends again."""

    async def main() -> None:
        store = rig.store()
        writer = await store.open_writer("a" * 16, warcinfo)
        locations = await writer.append(capture(1, BODY_REPEATS))
        end = locations[-1].offset + locations[-1].length
        assert not await rig.store().recover(locations[0].segment, end)
        rig.alive.clear()
        assert await rig.store().recover(locations[0].segment, end)
        for _ in range(2):
            with pytest.raises(CannotGoOn, match="held for dead"):
                await writer.append(capture(2, BODY_REPEATS))
        with pytest.raises(CannotGoOn):
            await writer.healthy()
        assert [info.size_bytes for info in await store.infos()] == [end]
        await check_readable(store, {1: locations})
        await writer.close()

    run(main(), rig)
