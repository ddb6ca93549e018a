"""`verify` over revisit records: sound ones are called sound, and a reference that leads nowhere is found."""

from pathlib import Path

import msgspec
import pytest

from integration.crawl_maker import Sent, answer, make_crawl, robots
from integration.planting import change_outcome, flip, kinds, place_of, run_sql, segments_in, shard_with
from limpet.embedded.folder import Folder
from limpet.model.outcome import Outcome
from limpet.reconciler.audit import audit
from limpet.reconciler.verify import verify
from limpet.warc import index_line, members, parse_record

PAGE, COPY = "http://a.test/page", "http://b.test/copy"
HTML = answer(200, b"<p>the same content</p>", b"Content-Type: text/html", b'ETag: "1"')
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"17\r\n<p>the same content</p>\r\n0\r\n\r\n"
)
UNCHANGED = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
SENT = (
    robots(0),
    robots(0, host="b.test"),
    Sent(url=PAGE, at=2, wire=HTML, again=True),
    Sent(url=PAGE, at=4, wire=UNCHANGED, revisits=PAGE),
    Sent(url=COPY, at=6, wire=CHUNKED, revisits=PAGE),
)


@pytest.fixture
def revisited(tmp_path: Path) -> Folder:
    """One page, a 304 for it, and the same content elsewhere."""
    return make_crawl(tmp_path / "crawl", SENT)


def test_revisits_that_refer_to_a_response_are_sound(revisited: Folder) -> None:
    """Records, outcomes and index agree, each reference was followed, and the audit counts them as requests."""
    report = verify(revisited)
    assert report.findings == []
    assert (report.checked["revisits"], report.checked["index_lines"]) == (2, 4)
    politeness = audit(revisited)
    assert (politeness.findings, politeness.checked["pages"]) == ([], 3)


def test_what_a_revisit_record_says(revisited: Folder) -> None:
    """WARC 1.1 §6.7: profile, reference in three fields, the original's payload digest; the block is no content."""
    data = segments_in(revisited)[0].read_bytes()
    found = [
        (parse_record(data[member.offset : member.end], block_bytes_max=10**6), member)
        for member in members(lambda offset, size: data[offset : offset + size], len(data))
    ]
    original = next(record for record, _ in found if record.header.uri == PAGE and record.type == "response")
    unchanged, copy = (record for record, _ in found if record.type == "revisit")
    for record in (unchanged, copy):
        assert record.header.get("WARC-Refers-To") == original.header.id
        assert record.header.get("WARC-Refers-To-Target-URI") == PAGE
        assert record.header.get("WARC-Refers-To-Date") == original.header.get("WARC-Date")
        assert record.header.get("WARC-Payload-Digest") == original.header.get("WARC-Payload-Digest")
    assert unchanged.header.get("WARC-Profile").endswith("/revisit/server-not-modified")
    assert (unchanged.block, unchanged.header.get("WARC-Truncated")) == (UNCHANGED, "")
    assert copy.header.get("WARC-Profile").endswith("/revisit/identical-payload-digest")
    assert (copy.block, copy.header.get("WARC-Truncated")) == (CHUNKED[: CHUNKED.index(b"17\r\n")], "length")
    lines = [
        index_line(data[member.offset : member.end], "f", member.offset)
        for record, member in found
        if record.type == "revisit"
    ]
    assert [line is not None for line in lines] == [False, True], "a 304 has nothing to show"
    assert b'"mime":"warc/revisit"' in (lines[1] or b"")


def test_a_revisit_of_nothing_is_found(revisited: Folder) -> None:
    """The original's outcome is gone, or its place holds another record, or its row is in nobody's shard."""
    run_sql(
        shard_with(revisited, PAGE),
        "DELETE FROM outcome WHERE fetched_us = (SELECT min(fetched_us) FROM outcome WHERE url ="
        " (SELECT id FROM url WHERE url = ?))",
        PAGE,
    )
    report = verify(revisited)
    dangling = [finding.detail for finding in report.findings if finding.kind == "dangling_revisit"]
    assert len(dangling) == 2
    assert all(f"revisits {PAGE}" in detail for detail in dangling)


def test_a_revisit_of_another_record_is_found(tmp_path: Path) -> None:
    """What is referred to must be at the place that the original's outcome names."""
    folder = make_crawl(tmp_path / "crawl", SENT)
    offset, length = place_of(folder, "http://a.test/robots.txt")

    def elsewhere(outcome: Outcome) -> Outcome:
        assert outcome.location is not None
        place = msgspec.structs.replace(outcome.location, offset=offset, length=length)
        return msgspec.structs.replace(outcome, location=place)

    change_outcome(folder, PAGE, elsewhere)
    report = verify(folder)
    assert "dangling_revisit" in kinds(report)
    assert any("robots.txt is there" in finding.detail for finding in report.findings)


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"payload_sha1": "A" * 32}, "the row says"),
        ({"payload_sha256": "0" * 64}, "limpet-payload-sha256"),
    ],
)
def test_a_row_that_differs_from_its_revisit_is_found(
    revisited: Folder, change: dict[str, object], detail: str
) -> None:
    """The outcome of a revisit has the digests of the content that was met again."""
    change_outcome(revisited, COPY, lambda outcome: msgspec.structs.replace(outcome, **change))
    report = verify(revisited)
    assert kinds(report) == {"wrong_record"}
    assert detail in report.findings[0].detail


def test_a_revisit_of_a_record_that_cannot_be_read_is_found(revisited: Folder) -> None:
    """The original's first bytes are damaged: the record itself is found, and what refers to it."""
    segment = segments_in(revisited)[0]
    offset, _ = place_of(revisited, PAGE)
    segment.write_bytes(flip(offset + 40)(segment.read_bytes()))
    assert kinds(verify(revisited)) == {"damaged", "dangling_revisit"}
