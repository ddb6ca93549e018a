"""The hint that makes recovery quick: true as far as it goes, worthless when damaged, never harmful."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from limpet.segments.port import Settled
from limpet.segments.settled import SettledFile, forget_settled, read_settled
from limpet.testing.disks import MemoryDisk

FOLDER = Path("/segments")


def _written(disk: MemoryDisk) -> bytes:
    file = SettledFile(disk, FOLDER, "s")
    for number in range(1, 6):
        file.written.add(b"line %d\n" % number, number * 100)
    file.advance(250)
    file.advance(250)
    file.advance(500)
    file.close()
    return disk.read(FOLDER / "s.settled", 0, 1_000_000)


def test_what_was_settled_is_read_back() -> None:
    """The offset of the last block and the lines of all records before it; nothing twice."""
    disk = MemoryDisk()
    _written(disk)
    assert read_settled(disk, FOLDER, "s") == Settled(500, tuple(b"line %d\n" % number for number in range(1, 6)))


def test_no_hint_is_an_empty_hint() -> None:
    """Losing it costs a full scan."""
    disk = MemoryDisk()
    assert read_settled(disk, FOLDER, "s") == Settled()
    forget_settled(disk, FOLDER, "s")


@given(cut=st.integers(0, 200), flipped=st.integers(0, 200))
def test_damage_only_ever_shortens_it(cut: int, flipped: int) -> None:
    """A torn tail or a flipped bit ends the hint at the last whole block before it."""
    disk = MemoryDisk()
    data = bytearray(_written(disk))
    if flipped < len(data):
        data[flipped] ^= 0x10
    damaged = MemoryDisk()
    file = damaged.create(FOLDER / "s.settled")
    file.write(bytes(data[: max(cut, 1)]))
    file.close()
    found = read_settled(damaged, FOLDER, "s")
    assert found.lines in {(), (b"line 1\n", b"line 2\n"), read_settled(disk, FOLDER, "s").lines}


def test_a_power_cut_leaves_whole_blocks() -> None:
    """Each block is synced before it is relied on."""
    disk = MemoryDisk()
    _written(disk)
    disk.sync_dir(FOLDER)
    disk.power_cut(torn_bytes=3)
    assert read_settled(disk, FOLDER, "s").offset == 500
