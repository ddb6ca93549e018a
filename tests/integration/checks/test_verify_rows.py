"""`verify` over rows made by hand: whatever contradicts the archive, the index, the marks or itself is found."""

import msgspec
import pytest

from integration.planting import BUSY, GONE, PAGE, change_outcome, kinds, noted, place_of, run_sql, shard_with
from limpet.embedded.folder import Folder
from limpet.model.errors import CannotGoOn, UsageError
from limpet.model.outcome import Outcome
from limpet.reconciler.verify import verify


# -- rows --------------------------------------------------------------------------------------------------------------
def test_a_fetched_row_without_its_outcome_is_a_phantom(crawl: Folder) -> None:
    """A row without a record: body before fact is broken. Its record becomes an orphan, the counters are off."""
    run_sql(shard_with(crawl, PAGE), "DELETE FROM outcome WHERE url = (SELECT id FROM url WHERE url = ?)", PAGE)
    report = verify(crawl)
    assert kinds(report) == {"phantom_fetch", "counter_drift"}
    assert noted(report) == {"adoptable"}


@pytest.mark.parametrize("url", [PAGE, GONE])
def test_an_outcome_without_a_location_is_a_phantom(crawl: Folder, url: str) -> None:
    """Neither fetched nor gone may stand without a record of the answer."""
    change_outcome(crawl, url, lambda outcome: msgspec.structs.replace(outcome, location=None))
    assert kinds(verify(crawl)) >= {"phantom_fetch", "outcome_without_record"}


def test_an_outcome_that_names_another_record_is_found(crawl: Folder) -> None:
    """URL, date, digests, fingerprint: nothing of it fits, and the other outcome has its record taken."""
    offset, length = place_of(crawl, GONE)

    def elsewhere(outcome: Outcome) -> Outcome:
        assert outcome.location is not None
        place = msgspec.structs.replace(outcome.location, offset=offset, length=length)
        return msgspec.structs.replace(outcome, location=place)

    change_outcome(crawl, PAGE, elsewhere)
    report = verify(crawl)
    assert kinds(report) == {"wrong_record", "shared_record"}
    assert noted(report) == {"duplicate_record"}


def test_an_outcome_that_names_no_beginning_of_a_record_is_found(crawl: Folder) -> None:
    """One byte off, or the place of a metadata record."""

    def moved(outcome: Outcome) -> Outcome:
        assert outcome.location is not None
        return msgspec.structs.replace(
            outcome, location=msgspec.structs.replace(outcome.location, offset=outcome.location.offset + 1)
        )

    change_outcome(crawl, PAGE, moved)
    report = verify(crawl)
    assert kinds(report) == {"missing_record"}
    assert report.findings[0].subject == PAGE


@pytest.mark.parametrize(
    "change",
    [
        {"payload_sha256": "0" * 64},
        {"payload_sha1": "A" * 32},
        {"wire_bytes": 1},
        {"truncated": "length"},
        {"robots_digest": "other"},
        {"gap_us": 7},
        {"url": "http://a.test/else"},
    ],
)
def test_an_outcome_that_differs_from_its_record_is_found(crawl: Folder, change: dict[str, object]) -> None:
    """Digest by digest, field by field."""
    change_outcome(crawl, PAGE, lambda outcome: msgspec.structs.replace(outcome, **change))
    assert "wrong_record" in kinds(verify(crawl))


def test_doubles_are_found_even_without_the_constraints_that_forbid_them(crawl: Folder) -> None:
    """One outcome a key, one row a fingerprint, whatever became of the tables."""
    path = shard_with(crawl, PAGE)
    for statement in (
        "DROP VIEW url_row",
        "CREATE TABLE loose AS SELECT * FROM outcome UNION ALL SELECT * FROM outcome WHERE seq = 1",
        "DROP TABLE outcome",
        "ALTER TABLE loose RENAME TO outcome",
        "CREATE TABLE loose AS SELECT * FROM url UNION ALL SELECT * FROM url WHERE id = 1",
        "DROP TABLE url",
        "ALTER TABLE loose RENAME TO url",
    ):
        run_sql(path, statement)
    report = verify(crawl)
    doubles = {finding.detail for finding in report.findings if finding.kind == "double_outcome"}
    assert any("2 rows" in detail for detail in doubles)
    assert any("outcomes of" in detail for detail in doubles)


def test_a_misfiled_and_an_unreadable_outcome_are_found(crawl: Folder) -> None:
    """An outcome under another time than its own; bytes that are none."""
    change_outcome(crawl, PAGE, lambda outcome: msgspec.structs.replace(outcome, fetched_us=1))
    assert "outcome_misfiled" in kinds(verify(crawl))
    run_sql(shard_with(crawl, PAGE), "UPDATE outcome SET data = x'00' WHERE seq = 1")
    assert "it cannot be read" in " ".join(finding.detail for finding in verify(crawl).findings)


def test_a_latest_pointer_to_nothing_is_found(crawl: Folder) -> None:
    """A row that waits still points to the outcome of its last attempt."""
    run_sql(shard_with(crawl, BUSY), "UPDATE url SET latest_us = 5 WHERE url = ?", BUSY)
    assert kinds(verify(crawl)) == {"latest_missing"}


def test_a_page_whose_row_is_lost_is_found(crawl: Folder) -> None:
    """The archive has the page, no shard has its URL."""
    path = shard_with(crawl, GONE)
    run_sql(path, "DELETE FROM outcome WHERE url = (SELECT id FROM url WHERE url = ?)", GONE)
    run_sql(path, "DELETE FROM url WHERE url = ?", GONE)
    report = verify(crawl)
    assert "lost_row" in kinds(report)
    assert "ghost_seen" in kinds(report)


def test_ghosts_in_the_seen_set_are_found_and_missing_marks_are_not(crawl: Folder) -> None:
    """A mark without a row loses a URL; a row without a mark costs a look-up, and so does a missing file."""
    seen = crawl.seen_file(0)
    run_sql(seen, "DELETE FROM seen")
    assert (verify(crawl).findings, noted(verify(crawl))) == ([], {"unmarked"})
    run_sql(seen, "INSERT INTO seen VALUES (?)", b"0123456789abcdef")
    report = verify(crawl)
    assert kinds(report) == {"ghost_seen"}
    assert "30313233" in report.findings[0].subject
    for path in crawl.seen.iterdir():
        path.unlink()
    assert (verify(crawl).ok, noted(verify(crawl))) == (True, {"unmarked"})


def test_lost_and_ghostly_due_entries_are_found(crawl: Folder) -> None:
    """Without its entry a row waits for ever; an entry without its row leads nowhere."""
    path = shard_with(crawl, BUSY)
    entry = run_sql(path, "SELECT authority, lane, due_us, url FROM due ORDER BY url")[0]
    run_sql(path, "DELETE FROM due WHERE url = ?", entry[3])
    report = verify(crawl)
    assert kinds(report) == {"lost_due"}
    assert report.findings[0].subject == BUSY
    run_sql(path, "INSERT INTO due VALUES (?, ?, ?, ?)", entry[0], entry[1], entry[2] + 1, entry[3])
    assert kinds(verify(crawl)) == {"lost_due", "ghost_due"}
    run_sql(path, "DELETE FROM due WHERE url = ?", entry[3])
    run_sql(path, "INSERT INTO due VALUES (?, ?, ?, ?)", *entry)
    run_sql(path, "INSERT INTO due VALUES (1, 0, 1, 999)")
    assert kinds(verify(crawl)) == {"ghost_due"}


@pytest.mark.parametrize("counter", ["state.fetched", "admitted", "outcomes", "pages", "bytes", "records", "links"])
def test_counters_that_drifted_are_found(crawl: Folder, counter: str) -> None:
    """One too many in any counter that can be counted again."""
    path = shard_with(crawl, PAGE)
    totals = msgspec.json.decode(run_sql(path, "SELECT totals FROM counter")[0][0])
    assert totals[counter] > 0
    totals[counter] += 1
    run_sql(path, "UPDATE counter SET totals = ?", msgspec.json.encode(totals).decode())
    report = verify(crawl)
    assert kinds(report) == {"counter_drift"}
    assert report.findings[0].subject.endswith(counter)


def test_a_host_count_and_a_log_count_that_drifted_are_found(crawl: Folder) -> None:
    """The count behind the host cap, and what was published against what the log holds."""
    path = shard_with(crawl, PAGE)
    run_sql(path, "UPDATE host SET urls = urls + 1 WHERE name = 'a.test'")
    run_sql(path, "DELETE FROM log WHERE offset = 1")
    report = verify(crawl)
    assert kinds(report) == {"counter_drift"}
    assert len(report.findings) == 2


def test_leases_are_faults_only_after_an_orderly_end(crawl: Folder) -> None:
    """A death leaves leases, which the next run ends; an orderly end hands everything back."""
    path = shard_with(crawl, BUSY)
    run_sql(path, "DELETE FROM due WHERE url = (SELECT id FROM url WHERE url = ?)", BUSY)
    run_sql(
        path,
        "INSERT INTO lease SELECT fp, id, authority, x'00', 1, 0, 'somebody' FROM url WHERE url = ?",
        BUSY,
    )
    totals = msgspec.json.decode(run_sql(path, "SELECT totals FROM counter")[0][0])
    totals["state.due"] -= 1
    totals["state.leased"] = 1
    run_sql(path, "UPDATE counter SET totals = ?", msgspec.json.encode(totals).decode())
    assert kinds(verify(crawl)) == {"lease"}
    run_sql(path, "UPDATE meta SET value = '0' WHERE name = 'clean'")
    assert (verify(crawl).findings, noted(verify(crawl))) == ([], {"lease"})
    run_sql(path, "UPDATE lease SET url = 999")
    assert "lease" in kinds(verify(crawl))


def test_bodies_never_parsed_are_faults_only_after_an_orderly_end(crawl: Folder) -> None:
    """The log was read to its end and nobody has the body: lost. While work goes on, it may still come."""
    path = shard_with(crawl, PAGE)
    run_sql(path, "DELETE FROM output")
    totals = msgspec.json.decode(run_sql(path, "SELECT totals FROM counter")[0][0])
    run_sql(path, "UPDATE counter SET totals = ?", msgspec.json.encode({**totals, "outputs": 0, "links": 0}).decode())
    report = verify(crawl)
    assert kinds(report) == {"unparsed"}
    assert {finding.subject for finding in report.findings} >= {PAGE}
    run_sql(path, "UPDATE consumed SET next = 1")
    assert (verify(crawl).findings, noted(verify(crawl))) == ([], {"unparsed"})


def test_a_log_that_lost_unread_messages_is_found(crawl: Folder) -> None:
    """The log begins behind what its reader has yet to read."""
    run_sql(shard_with(crawl, PAGE), "UPDATE log_part SET start = 10 WHERE topic = 'document.fetched'")
    report = verify(crawl)
    assert kinds(report) == {"log_gap"}


def test_identity_and_placement_are_checked(crawl: Folder) -> None:
    """A row must be found under the fingerprint of its key, and in the shard of its host."""
    path = shard_with(crawl, PAGE)
    run_sql(path, "UPDATE url SET key = 'http://a.test/other' WHERE url = ?", PAGE)
    assert kinds(verify(crawl)) == {"wrong_identity"}
    run_sql(path, "UPDATE url SET key = '' WHERE url = ?", PAGE)
    home = shard_with(crawl, PAGE).name
    stranger = next(
        f"h{number}.test" for number in range(99) if shard_with(crawl, f"http://h{number}.test/").name != home
    )
    run_sql(path, "UPDATE host SET name = ? WHERE name = 'a.test'", stranger)
    assert "wrong_shard" in kinds(verify(crawl))


def test_an_unknown_state_is_found(crawl: Folder) -> None:
    """The life cycle has nine states."""
    run_sql(shard_with(crawl, PAGE), "UPDATE url SET state = 42 WHERE url = ?", PAGE)
    assert "unknown_state" in kinds(verify(crawl))


def test_a_damaged_and_a_missing_shard_are_found_and_the_rest_is_checked(crawl: Folder) -> None:
    """The other shard and the archive are still judged."""
    path = shard_with(crawl, PAGE)
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 4] = b"\xff" * 8192
    path.write_bytes(bytes(data))
    report = verify(crawl)
    assert "store_damaged" in kinds(report)
    assert report.checked["segments"] == 1
    path.unlink()
    report = verify(crawl)
    assert "store_missing" in kinds(report)


def test_a_folder_of_another_version_is_refused(crawl: Folder) -> None:
    """Judging what one does not understand would only produce noise."""
    run_sql(crawl.shard_file(0), "PRAGMA user_version = 99")
    with pytest.raises(CannotGoOn, match="version 99"):
        verify(crawl)


def test_a_seed_that_is_no_more_stored_is_found(crawl: Folder) -> None:
    """Seeds draw the scope of a resume: losing them would narrow the crawl without a word."""
    shard = shard_with(crawl, PAGE)
    run_sql(shard, "UPDATE url SET seed = 1 WHERE url = ?", PAGE)
    report = verify(crawl)
    assert [(found.kind, found.subject) for found in report.findings] == [("seed_missing", PAGE)]
    run_sql(shard, "INSERT INTO seed (url) VALUES (?)", PAGE)
    assert verify(crawl).findings == []


def test_links_need_a_parser(crawl: Folder) -> None:
    """The check of links is refused when nobody can parse, instead of passing unseen."""
    with pytest.raises(UsageError, match="admissible"):
        verify(crawl, links=True)
