"""`verify` over archives made by hand: a sound one is called sound, every planted fault is found by its name."""

import gzip
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from integration.crawl_maker import SHARDS, Sent, make_crawl, make_facts
from integration.planting import (
    CRAWL,
    GONE,
    PAGE,
    flip,
    index_of_segment,
    kinds,
    noted,
    only_first_replica,
    patch,
    place_of,
    run_sql,
    segments_in,
    shard_with,
)
from limpet.embedded.folder import Folder
from limpet.reconciler.verify import verify
from limpet.warc import members, parse_record
from limpet.warc.members import compress


# -- sound -------------------------------------------------------------------------------------------------------------
def test_a_sound_crawl_is_called_sound(sound: Folder) -> None:
    """Nothing is found, nothing is noted, and the counts say what was looked at."""
    report = verify(sound)
    assert (report.findings, report.notes, report.ok) == ([], [], True)
    assert report.checked["shards"] == SHARDS
    assert (report.checked["rows"], report.checked["outcomes"]) == (6, 6)
    assert (report.checked["records"], report.checked["index_lines"]) == (1 + 3 * 7, 7)
    assert (report.checked["segments"], report.checked["robots"]) == (1, 2)
    assert report.checked["bytes"] == report.checked["replica_bytes"] == segments_in(sound)[0].stat().st_size


def test_the_report_is_json_of_the_promised_shape(sound: Folder) -> None:
    """ok, checked, findings and notes; a finding is kind, subject and detail."""
    decoded = msgspec.json.decode(verify(sound).to_json())
    assert decoded["ok"] is True
    assert decoded["findings"] == []
    assert set(decoded) == {"ok", "checked", "findings", "notes"}


def test_a_folder_that_never_ran_has_nothing_wrong(tmp_path: Path) -> None:
    """Empty shards or none at all, no segments: nothing to find."""
    folder = Folder.create(tmp_path / "new", make_facts())
    assert (verify(folder).ok, verify(folder).notes) == (True, [])
    for path in folder.shards.iterdir():
        path.unlink()
    assert (verify(folder).ok, verify(folder).notes) == (True, [])


def test_verify_changes_nothing(crawl: Folder) -> None:
    """Every file of the crawl is afterwards what it was before."""

    def state() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in sorted(crawl.path.rglob("*"))
            if path.is_file() and not path.name.endswith(("-shm", "-wal"))
        }

    before = state()
    verify(crawl)
    assert state() == before


# -- the archive -------------------------------------------------------------------------------------------------------
def test_a_truncated_member_is_found(crawl: Folder) -> None:
    """A sealed segment that ends inside a member."""
    patch(crawl, lambda data: data[:-10])
    report = verify(crawl)
    assert kinds(report) == {"damaged"}
    assert "inside a member" in report.findings[0].detail


def test_a_segment_cut_before_an_outcomes_record_misses_it(crawl: Folder) -> None:
    """Bytes that a row speaks of and that are not there."""
    offset, _ = place_of(crawl, "http://a.test/last")
    patch(crawl, lambda data: data[:offset])
    report = verify(crawl)
    assert kinds(report) == {"missing_record", "index_line_extra"}
    assert {finding.subject for finding in report.findings if finding.kind == "missing_record"} == {
        "http://a.test/last"
    }


def test_a_flipped_bit_in_a_body_is_found_and_the_rest_is_still_read(crawl: Folder) -> None:
    """The damaged record is named by its URL; reading goes on at the next record that rows or index vouch for."""
    offset, length = place_of(crawl, PAGE)
    patch(crawl, flip(offset + length // 2))
    report = verify(crawl)
    assert kinds(report) == {"damaged"}
    assert [PAGE in finding.detail for finding in report.findings] == [True]
    assert report.checked["records"] == 1 + 3 * 6  # the warcinfo and all captures but this one


def test_a_flipped_bit_in_a_gzip_header_is_found(crawl: Folder) -> None:
    """No checksum covers it: it is compared with what is always written."""
    offset, _ = place_of(crawl, PAGE)
    patch(crawl, flip(offset + 5))
    assert kinds(verify(crawl)) == {"gzip_header"}


def test_any_flipped_bit_is_found(crawl: Folder) -> None:
    """Wherever in the segment; but for the bits that fill up a deflate stream's last byte and mean nothing."""
    segment = segments_in(crawl)[0]
    whole = segment.read_bytes()
    meaningless = 0
    for number, position in enumerate(range(0, len(whole), max(1, len(whole) // 120))):
        segment.write_bytes(flip(position, number % 8)(whole))
        only_first_replica(crawl)
        if verify(crawl).ok:
            meaningless += 1
            assert gzip.decompress(segment.read_bytes()) == gzip.decompress(whole), f"bit {number % 8} of {position}"
    assert meaningless < 5


def test_a_record_with_another_body_is_found_even_if_it_is_intact(crawl: Folder) -> None:
    """Well-formed gzip, right length, other bytes: neither the record's digests nor the row's fit."""
    offset, length = place_of(crawl, PAGE)

    def change(data: bytes) -> bytes:
        record = parse_record(data[offset : offset + length], block_bytes_max=10**6)
        head = b"WARC/1.1\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in record.header.fields)
        body = record.block.replace(b"hello", b"jello")
        return data[:offset] + compress(head, b"\r\n", body, b"\r\n\r\n") + data[offset + length :]

    patch(crawl, change)
    found = kinds(verify(crawl))
    assert found >= {"wrong_digest", "wrong_record"}


def test_a_replica_that_differs_is_found_and_judged_by_itself(crawl: Folder) -> None:
    """The second copy alone is damaged: the difference and the damage are both named."""
    offset, length = place_of(crawl, PAGE)
    copy = segments_in(crawl, replica=1)[0]
    copy.write_bytes(flip(offset + length // 2)(copy.read_bytes()))
    report = verify(crawl)
    assert kinds(report) == {"replica_differs", "damaged"}
    assert {finding.subject for finding in report.findings if finding.kind == "damaged"} == {
        f"segments-2/{copy.name}+{offset}"
    }


def test_a_replica_that_is_shorter_or_missing_is_found(crawl: Folder) -> None:
    """Also when it ends between two members, and when its index is another."""
    copy = segments_in(crawl, replica=1)[0]
    offset, _ = place_of(crawl, "http://a.test/last")
    copy.write_bytes(copy.read_bytes()[:offset])
    assert "replica_differs" in kinds(verify(crawl))
    index_of_segment(copy).write_bytes(b"")
    assert "its .cdxj" in " ".join(finding.detail for finding in verify(crawl).findings)
    copy.unlink()
    index_of_segment(copy).unlink()
    assert kinds(verify(crawl)) == {"replica_missing"}


def test_a_segment_that_is_gone_is_found(crawl: Folder) -> None:
    """Rows speak of it, no directory has it."""
    for replica in (0, 1):
        path = segments_in(crawl, replica)[0]
        path.unlink()
        index_of_segment(path).unlink()
    report = verify(crawl)
    assert kinds(report) == {"segment_missing"}
    assert report.findings[0].detail == "5 outcomes name it"


def test_a_capture_taken_out_of_the_middle_is_found(crawl: Folder) -> None:
    """Everything behind it has moved: the rows' places hold no record, the index is wrong."""
    offset, length = place_of(crawl, PAGE)
    patch(crawl, lambda data: data[:offset] + data[offset + length :])
    assert kinds(verify(crawl)) >= {"missing_record", "bad_record", "index_line_missing", "index_line_extra"}


def test_a_capture_without_its_metadata_record_is_found(crawl: Folder) -> None:
    """In a sealed segment nothing may be unfinished: the outcome could not be built again from it."""
    data = segments_in(crawl)[0].read_bytes()
    *_, last = members(lambda offset, size: data[offset : offset + size], len(data))
    assert last.header.type == "metadata"
    patch(crawl, lambda data: data[: last.offset])
    report = verify(crawl)
    assert kinds(report) == {"incomplete_capture"}
    assert "http://a.test/last" in report.findings[0].detail


def test_an_orphan_record_is_only_noted(tmp_path: Path) -> None:
    """Its request died between append and completion: it can be adopted, nothing is wrong."""
    folder = make_crawl(tmp_path / "crawl", [*CRAWL, Sent(url="http://a.test/orphan", at=95, orphan=True)])
    run_sql(shard_with(folder, PAGE), "UPDATE meta SET value = '0' WHERE name = 'clean'")  # it died, that is
    report = verify(folder)
    assert (report.ok, report.findings) == (True, [])
    assert noted(report) == {"adoptable", "lease"}
    assert next(note for note in report.notes if note.kind == "adoptable").detail.startswith("http://a.test/orphan of")


def test_a_record_appended_twice_is_only_noted(crawl: Folder) -> None:
    """Nobody knew whether the first append had succeeded; the outcome names the other copy."""
    path = shard_with(crawl, PAGE)
    segment = segments_in(crawl)[0]
    data = segment.read_bytes()
    offset, _ = place_of(crawl, "http://a.test/last")
    end = len(data)
    segment.write_bytes(data + data[offset:])
    lines = index_of_segment(segment).read_bytes().splitlines(keepends=True)
    twin = next(line for line in lines if b"http://a.test/last" in line)
    lines.append(twin.replace(f'"offset":"{offset}"'.encode(), f'"offset":"{end}"'.encode()))
    index_of_segment(segment).write_bytes(b"".join(sorted(lines)))
    only_first_replica(crawl)
    report = verify(crawl)
    assert path.exists()
    assert (report.findings, noted(report)) == ([], {"duplicate_record"})


def test_a_stray_file_is_only_noted(crawl: Folder) -> None:
    """What is not ours is not judged."""
    (crawl.segment_directories[0] / "notes.txt").write_text("mine")
    report = verify(crawl)
    assert (report.ok, noted(report)) == (True, {"stray_file"})


# -- the index ---------------------------------------------------------------------------------------------------------
def edit_index(folder: Folder, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path = index_of_segment(segments_in(folder)[0])
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    only_first_replica(folder)


def test_a_missing_index_line_is_found(crawl: Folder) -> None:
    """Replay tools would not find the page."""
    edit_index(crawl, lambda lines: [line for line in lines if b"/gone" not in line])
    report = verify(crawl)
    assert kinds(report) == {"index_line_missing"}
    assert GONE in report.findings[0].detail


@pytest.mark.parametrize(
    ("before", "after", "column"),
    [
        (b"test,a)/gone ", b"test,a)/gonf ", "key"),
        (b" 2027", b" 2026", "timestamp"),
        (b'"status":"404"', b'"status":"200"', "status"),
        (b'"length":"', b'"length":"1', "length"),
        (b'"filename":"limpet', b'"filename":"other', "filename"),
        (b'"digest":"sha1:', b'"digest":"sha1:A', "digest"),
    ],
)
def test_a_wrong_index_line_is_found(crawl: Folder, before: bytes, after: bytes, column: str) -> None:
    """Each column is compared with the record."""

    def change(lines: list[bytes]) -> list[bytes]:
        return [line.replace(before, after) if b"/gone" in line else line for line in lines]

    edit_index(crawl, change)
    report = verify(crawl)
    assert kinds(report) == {"index_line_wrong"}
    assert report.findings[0].detail.startswith(column)


def test_extra_unsorted_and_absent_indexes_are_found(crawl: Folder) -> None:
    """Lines without a record, lines out of order, no index at all."""
    edit_index(crawl, lambda lines: [*lines, b"zz not a line\n"])
    assert kinds(verify(crawl)) == {"index_line_extra"}
    edit_index(crawl, lambda lines: lines[:-1][::-1])
    assert kinds(verify(crawl)) == {"index_unsorted"}
    index_of_segment(segments_in(crawl)[0]).unlink()
    only_first_replica(crawl)
    assert kinds(verify(crawl)) == {"index_missing"}


# -- open segments -----------------------------------------------------------------------------------------------------
def test_a_torn_tail_of_a_dead_writer_is_only_noted(killed: Folder) -> None:
    """What was never acknowledged may be half there; the next run cuts it. The copies may be torn differently."""
    report = verify(killed)
    assert (report.findings, noted(report)) == ([], {"unsealed"})
    first, second = segments_in(killed)[0], segments_in(killed, 1)[0]
    first.write_bytes(first.read_bytes() + first.read_bytes()[:100])
    report = verify(killed)
    assert (report.findings, noted(report)) == ([], {"unsealed", "torn_tail"})
    second.write_bytes(second.read_bytes() + b"other bytes")
    assert verify(killed).findings == []


def test_a_capture_torn_between_two_members_is_only_noted(killed: Folder) -> None:
    """A whole response whose request and metadata did not make it was never acknowledged."""
    segment = segments_in(killed)[0]
    offset, length = place_of(killed, PAGE)
    segment.write_bytes(segment.read_bytes() + segment.read_bytes()[offset : offset + length])
    report = verify(killed)
    assert (report.findings, noted(report)) == ([], {"unsealed", "torn_tail"})


def test_damage_before_an_acknowledged_record_is_found_in_an_open_segment(killed: Folder) -> None:
    """A dead writer excuses its tail, not what it had acknowledged."""
    segment = segments_in(killed)[0]
    offset, length = place_of(killed, PAGE)
    segment.write_bytes(flip(offset + length // 2)(segment.read_bytes()))
    assert kinds(verify(killed)) == {"damaged", "replica_differs"}


def test_beside_a_running_crawl_the_open_end_is_left_alone(running: Folder) -> None:
    """Half a group that is being written, and a capture that was not completed yet, are no one's fault."""
    segment = segments_in(running)[0]
    run_sql(shard_with(running, PAGE), "DELETE FROM outcome WHERE url = (SELECT id FROM url WHERE url = ?)", GONE)
    run_sql(shard_with(running, PAGE), "UPDATE url SET state = 0, latest_us = 0 WHERE url = ?", GONE)
    segment.write_bytes(segment.read_bytes() + segment.read_bytes()[:100])
    report = verify(running)
    assert report.checked["in_flight"] == 1
    assert report.checked["open_segments"] == 1
    assert "damaged" not in kinds(report)
    assert noted(report) == set()
