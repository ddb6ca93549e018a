"""Walking segments: copies, damage, and where reading goes on."""

from collections.abc import Sequence
from pathlib import Path

from limpet.reconciler.archive_walk import Archive, Damage, Read, Walk
from limpet.reconciler.places import BATCH, Place, Places
from limpet.reconciler.verify_replicas import first_difference
from limpet.testing.captures import wire_capture
from limpet.testing.disks import MemoryDisk
from limpet.warc import CaptureMeta, Member, capture_members, segment_name

MEMBERS = [
    member
    for number in range(4)
    for member in capture_members(
        wire_capture(f"http://a.test/{number}"), CaptureMeta(), "", bytes([number]) * 48
    ).members
]
STARTS = [sum(map(len, MEMBERS[:number])) for number in range(len(MEMBERS) + 1)]
WHOLE = b"".join(MEMBERS)
NAME = segment_name("limpet", 0, 0, "one")
ONE, TWO = Path("/one"), Path("/two")


def reader(data: bytes) -> Read:
    return lambda offset, size_bytes: data[offset : offset + size_bytes]


def walk(copies: Sequence[bytes], known: Sequence[int] = ()) -> tuple[list[int], list[Damage]]:
    """Offsets of the members found, and the damage."""
    size = max(map(len, copies))
    items = list(
        Walk(list(map(reader, copies)), size, lambda offset: min((k for k in known if k > offset), default=None))
    )
    return [item.offset for item in items if isinstance(item, Member)], [i for i in items if isinstance(i, Damage)]


def broken(place: int) -> bytes:
    """The segment with member number `place` damaged in its middle."""
    middle = (STARTS[place] + STARTS[place + 1]) // 2
    return WHOLE[:middle] + bytes([WHOLE[middle] ^ 255]) + WHOLE[middle + 1 :]


def test_a_whole_segment_is_walked_to_its_end() -> None:
    """Every member, no damage."""
    assert walk([WHOLE]) == (STARTS[:-1], [])
    assert walk([b""]) == ([], [])


def test_after_damage_reading_goes_on_where_somebody_knows_a_record() -> None:
    """Never where the bytes only look like one; nothing is known behind it: the walk ends."""
    found, damage = walk([broken(3)], known=[STARTS[6], STARTS[9]])
    assert found == STARTS[:3] + STARTS[6:-1]
    assert [(item.offset, item.resumed) for item in damage] == [(STARTS[3], STARTS[6])]
    found, damage = walk([broken(3)])
    assert found == STARTS[:3]
    assert [(item.offset, item.resumed) for item in damage] == [(STARTS[3], None)]


def test_a_place_that_is_wrong_is_only_more_damage() -> None:
    """A row or an index may be damaged too: the walk goes on behind it and ends."""
    found, damage = walk([broken(3)], known=[STARTS[4] + 7, STARTS[6], 10**9])
    assert found == STARTS[:3] + STARTS[6:-1]
    assert [item.offset for item in damage] == [STARTS[3], STARTS[4] + 7]


def test_other_copies_are_asked_before_a_member_is_given_up() -> None:
    """Two copies damaged in different places make one that is whole; damaged in the same place they do not."""
    assert walk([broken(3), broken(7)]) == (STARTS[:-1], [])
    assert walk([broken(0), broken(1), broken(2)]) == (STARTS[:-1], [])
    found, damage = walk([broken(3), broken(3)], known=[STARTS[6]])
    assert found == STARTS[:3] + STARTS[6:-1]
    assert [item.offset for item in damage] == [STARTS[3]]


def test_a_copy_that_ends_early_gives_way_to_a_longer_one() -> None:
    """Whether it ends inside a member or between two."""
    assert walk([WHOLE[: STARTS[4]], WHOLE]) == (STARTS[:-1], [])
    assert walk([WHOLE[: STARTS[4] + 5], WHOLE]) == (STARTS[:-1], [])
    found, damage = walk([WHOLE[:-5]])
    assert found == STARTS[:-2]
    assert damage[0].offset == STARTS[-2]


def test_nothing_is_read_beyond_the_listed_size() -> None:
    """What its writer adds meanwhile is none of this walk's business."""
    items = list(Walk([reader(WHOLE)], STARTS[3], lambda _offset: None))
    assert [item.offset for item in items] == STARTS[:3]


def test_segments_are_listed_with_their_copies() -> None:
    """Sealed in every directory that has it; strays are what belongs to none; a rename on the way loses nothing."""
    disk = MemoryDisk()
    for path in (ONE / f"{NAME}.open", TWO / NAME, TWO / f"{NAME}.cdxj", TWO / f"{NAME}.cdxj.tmp", TWO / "notes"):
        file = disk.create(path)
        file.write(WHOLE)
        file.close()
    archive = Archive([ONE, TWO], disk)
    (segment,) = archive.segments()
    assert (segment.name, segment.sealed) == (NAME, False)
    assert [(copy.folder, copy.sealed, copy.size_bytes) for copy in segment.replicas] == [
        (ONE, False, len(WHOLE)),
        (TWO, True, len(WHOLE)),
    ]
    assert list(archive.strays()) == [TWO / "notes"]
    read = archive.reader(segment, segment.replicas[0])
    disk.rename(ONE / f"{NAME}.open", ONE / NAME)
    assert read(0, 10) == WHOLE[:10]
    assert archive.segments()[0].sealed
    assert archive.index(segment, segment.replicas[1]) == WHOLE
    assert archive.index(segment, segment.replicas[0]) is None


def test_the_first_difference_of_two_files_is_found() -> None:
    """Anywhere, in chunks and across them, also where one of them ends."""
    data = bytes(range(256)) * 9_000
    assert first_difference(reader(data), reader(data), len(data)) is None
    for position in (0, 1, 255, 1_048_575, 1_048_576, len(data) - 1):
        other = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        assert first_difference(reader(data), reader(other), len(data)) == position
    assert first_difference(reader(data), reader(data[:500]), len(data)) == 500
    assert first_difference(reader(b""), reader(b""), 10) == 0


def test_places_come_back_by_segment_and_offset() -> None:
    """However many, in whatever order they came."""
    with Places() as places:
        for number in reversed(range(BATCH + 10)):
            places.add("b" if number % 2 else "a", Place(number * 10, 5, number % 3, number))
        assert places.segments() == ["a", "b"]
        found = list(places.of("a"))
        assert [place.offset for place in found] == list(range(0, (BATCH + 10) * 10, 20))
        assert found[1] == Place(20, 5, 2, 2)
        assert places.count("b") == (BATCH + 10) // 2
        assert places.end("b") == (BATCH + 9) * 10 + 5
        assert places.next_after("a", 20) == 40
        assert places.next_after("a", 10**9) is None
        assert (list(places.of("c")), places.end("c"), places.count("c")) == ([], 0, 0)
