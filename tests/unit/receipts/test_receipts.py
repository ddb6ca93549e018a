"""Unclean receipts are durable, clean ones bounded, and codes never quote keys."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from limpet.model.errors import CannotGoOn
from limpet.receipts import (
    Action,
    CommandFailure,
    FileReceiptLog,
    Receipt,
    Recorder,
    Role,
    Transport,
    Verdict,
    classes_of,
    error_code,
)
from limpet.runtime import InlineRunner
from limpet.runtime.disk import Disk, SystemDisk
from limpet.testing.fault_disks import FailingSync, TornAppend
from limpet.testing.memory_disk import MemoryDisk
from limpet.testing.memory_receipts import MemoryReceiptLog


def receipt(number: int, *, failed: int = 0, transport: Transport = Transport.COMPLETE) -> Receipt:
    """Of a pipeline of three commands."""
    return Receipt(
        operation="seen.mark",
        target="seen/7",
        crawl="c",
        job=f"i/{number}",
        attempt=f"i/{number}/1",
        roles=((Role.CACHE, 3),),
        client="client 1",
        commands=3,
        arguments_max=number,
        classes=classes_of(["SADD", "SADD", "SADD"]),
        transport=transport,
        at_us=number,
        latency_us=1,
        succeeded=3 - failed if transport is Transport.COMPLETE else 0,
        failed=failed,
        failures=tuple(CommandFailure(index=n, command="SADD", code="OOM") for n in range(failed)),
        idempotent=True,
        action=Action.REBUILD if failed else Action.NONE,
        verdict=Verdict.COMPLETED_REPAIR_PENDING if failed else Verdict.ADMITTED,
    )


def test_a_receipt_is_clean_only_when_every_command_was_answered_well() -> None:
    """A failed command or a broken exchange is not."""
    assert receipt(1).clean
    assert not receipt(1, failed=1).clean
    assert not receipt(1, transport=Transport.TIMED_OUT).clean


def test_a_receipt_survives_encoding() -> None:
    """What is kept is what was recorded."""
    for one in (receipt(1), receipt(2, failed=2), receipt(3, transport=Transport.GARBLED)):
        assert msgspec.json.decode(msgspec.json.encode(one), type=Receipt) == one


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("WRONGTYPE Operation against a key", "WRONGTYPE"),
        ("OOM command not allowed", "OOM"),
        ("seen:secret is not a key", "ERR"),
        ("Password refused", "ERR"),
        ("", "ERR"),
        ("A" * 99, "ERR"),
    ],
)
def test_only_codes_of_errors_are_kept(text: str, code: str) -> None:
    """An error's text may quote a key."""
    assert error_code(text) == code


def test_the_recorder_keeps_unclean_ones_and_the_last_clean_ones() -> None:
    """The ring is bounded, the log gets every unclean one, counts and maxima see all."""

    async def main() -> None:
        log = MemoryReceiptLog()
        recorder = Recorder(log, clean_kept_max=4)
        for number in range(10):
            await recorder.record(receipt(number))
        await recorder.record(receipt(10, failed=1))
        assert [one.at_us for one in recorder.recent] == [6, 7, 8, 9]
        assert [one.at_us for one in await log.kept()] == [10]
        assert recorder.counts["seen.mark", "admitted"] == 10
        assert recorder.unclean == 1
        assert recorder.maxima.arguments_a_command == 10

    asyncio.run(main())


def log_at(folder: Path, incarnation: str, **bounds: int) -> FileReceiptLog:
    return FileReceiptLog(folder, SystemDisk(), InlineRunner(), incarnation, **bounds)


def tear(folder: Path) -> None:
    """Half a receipt at the end of the only file."""
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes() + b'{"operation":"seen.ma')


def sizes(folder: Path) -> list[int]:
    """Of the files."""
    return [path.stat().st_size for path in folder.iterdir()]


def test_kept_receipts_outlive_their_process(tmp_path: Path) -> None:
    """Another incarnation reads them, in order, and passes over a torn tail."""

    async def main() -> None:
        first = log_at(tmp_path, "one")
        for number in range(3):
            await first.keep(receipt(number, failed=1))
        await first.close()
        tear(tmp_path)
        second = log_at(tmp_path, "two")
        await second.keep(receipt(3, failed=1))
        assert [one.at_us for one in await second.kept()] == [0, 1, 2, 3]
        await second.close()

    asyncio.run(main())


def test_the_log_is_bounded(tmp_path: Path) -> None:
    """Files have a size, the folder a number of them; the newest stay."""

    async def main() -> None:
        log = log_at(tmp_path, "one", file_bytes_max=2_000, files_max=3)
        for number in range(60):
            await log.keep(receipt(number, failed=1))
        numbers = [one.at_us for one in await log.kept()]
        assert numbers == list(range(numbers[0], 60))
        assert numbers[0] > 0
        assert len(sizes(tmp_path)) == 3
        assert max(sizes(tmp_path)) <= 2_000
        await log.close()

    asyncio.run(main())


def test_kept_receipts_outlive_a_power_cut() -> None:
    """`keep` returned: bytes and directory entry were durable."""

    async def main() -> None:
        disk, folder = MemoryDisk(), Path("/receipts")
        log = FileReceiptLog(folder, disk, InlineRunner(), "one", file_bytes_max=2_000)
        for number in range(10):
            await log.keep(receipt(number, failed=1))
        disk.power_cut()
        after = FileReceiptLog(folder, disk, InlineRunner(), "two")
        assert [one.at_us for one in await after.kept()] == list(range(10))

    asyncio.run(main())


@pytest.mark.parametrize("fault", [lambda disk: FailingSync(disk, 2), lambda disk: TornAppend(disk, 2, 40)])
def test_a_file_that_failed_is_left_behind(fault: Callable[[Disk], Disk]) -> None:
    """The caller hears of the receipt that was not kept; later ones go to another file, earlier ones are read."""

    async def main() -> None:
        disk = MemoryDisk()
        log = FileReceiptLog(Path("/receipts"), fault(disk), InlineRunner(), "one")
        await log.keep(receipt(0, failed=1))
        with pytest.raises(CannotGoOn):
            await log.keep(receipt(1, failed=1))
        await log.keep(receipt(2, failed=1))
        disk.power_cut()
        after = FileReceiptLog(Path("/receipts"), disk, InlineRunner(), "two")
        assert [one.at_us for one in await after.kept()] == [0, 2]

    asyncio.run(main())


def test_a_receipt_that_cannot_be_kept_stops_the_process(tmp_path: Path) -> None:
    """Nothing partial is silent, not even here."""

    async def main() -> None:
        with pytest.raises(CannotGoOn, match="cannot keep a receipt"):
            await log_at(tmp_path / "absent", "one").keep(receipt(1, failed=1))

    asyncio.run(main())
