"""`limpet reconcile` on a folder: it repairs what a start would repair, then says what disagrees, and since when."""

import json
from typing import Any

import msgspec
import pytest

from integration.planting import PAGE, run_sql, segments_in, shard_with
from limpet.cli.main import main
from limpet.embedded.folder import Folder
from limpet.model.events import LINKS_DISCOVERED
from limpet.reconciler.gaps import LINKS_GAP
from limpet.reconciler.kinds import VerifyKind
from limpet.reconciler.standing import (
    COMPARES,
    FETCHED_PARSED,
    LEASES_INCARNATIONS,
    OUTCOMES_RECORDS,
    POSITIONS_LOGS,
    ROWS_DUE,
)
from limpet.urlstore.sqlite import codes

ITEM = "INSERT INTO repair (kind, subject, detail, created_us) VALUES ('test', 'a thing', 'to be mended', 1)"


def reconciled(folder: Folder, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], dict[str, int]]:
    """Exit code, what was printed, and the findings by comparison."""
    code = main(["reconcile", str(folder.path), "--json"])
    said = json.loads(capsys.readouterr().out)
    return code, said, {one["comparison"]: one["findings"] for one in said["compared"]}


def test_every_finding_of_verify_belongs_to_one_comparison() -> None:
    """None is left out, and none counts twice."""
    listed = [kind for kinds in COMPARES.values() for kind in kinds]
    assert sorted(listed) == sorted(VerifyKind)


def test_a_dead_run_is_repaired_before_anything_is_compared(killed: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    """What the next start would do; afterwards there is nothing left to do, and a second call finds the same."""
    first = reconciled(killed, capsys)
    assert first[1]["repaired"]["segments"] == 1
    assert all(path.name.endswith(".gz") for path in segments_in(killed))
    assert set(first[2]) == set(COMPARES)
    assert not first[2][OUTCOMES_RECORDS]
    second = reconciled(killed, capsys)
    assert second[1]["repaired"] == {"segments": 0, "adopted": 0, "interrupted": 0, "parsed_again": 0}
    assert second[2] == first[2]


def test_a_crawl_that_runs_is_only_compared(running: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own passes repair it."""
    assert reconciled(running, capsys)[1]["repaired"] is None
    assert [path.name.endswith(".open") for path in segments_in(running)] == [True]


@pytest.mark.parametrize(
    ("statement", "comparison"),
    [
        ("UPDATE url SET state = 0, due_us = 5 WHERE url = 'http://a.test/'", ROWS_DUE),
        ("DELETE FROM outcome WHERE url = (SELECT id FROM url WHERE url = 'http://a.test/')", OUTCOMES_RECORDS),
        ("DELETE FROM output", FETCHED_PARSED),
        (
            "INSERT INTO lease SELECT fp, id, authority, x'00', 1, 0, 'x' FROM url WHERE url = 'http://a.test/'",
            LEASES_INCARNATIONS,
        ),
    ],
)
def test_what_disagrees_is_found_under_its_comparison(
    crawl: Folder, capsys: pytest.CaptureFixture[str], statement: str, comparison: str
) -> None:
    """Exit code 1, and the number beside the name of the comparison."""
    before = reconciled(crawl, capsys)[2][comparison]
    run_sql(shard_with(crawl, PAGE), statement)
    code, _, found = reconciled(crawl, capsys)
    assert code == 1
    assert found[comparison] > before


def test_a_gap_is_mended(crawl: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    """What published the links that were dropped is to be parsed again, and the reader stands behind the gap."""
    path = shard_with(crawl, PAGE)
    number = int(path.stem)
    run_sql(path, "INSERT OR REPLACE INTO log_part VALUES (?, ?, 9, 9)", LINKS_DISCOVERED, number)
    ((data, fp),) = run_sql(path, "SELECT data, fp FROM output JOIN url USING (fp) WHERE url.url = ?", PAGE)
    published = msgspec.structs.replace(codes.output(data), positions=((number, number, 8),))
    run_sql(path, "UPDATE output SET data = ? WHERE fp = ?", codes.encode(published), fp)
    _, said, found = reconciled(crawl, capsys)
    assert said["repaired"]["parsed_again"] == 1
    assert found[POSITIONS_LOGS] == 0
    assert run_sql(path, "SELECT fp, reason FROM job") == [(fp, LINKS_GAP)]


def test_open_repair_items_are_told_with_their_age(crawl: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    """The age is the alert."""
    run_sql(shard_with(crawl, PAGE), ITEM)
    code, said, _ = reconciled(crawl, capsys)
    assert code == 1
    assert [(item["kind"], item["subject"]) for item in said["repairs"]] == [("test", "a thing")]
    assert said["repairs"][0]["age_seconds"] > 1_000_000_000
    assert main(["reconcile", str(crawl.path)]) == 1
    assert "repair\ttest\ta thing\tto be mended" in capsys.readouterr().out
