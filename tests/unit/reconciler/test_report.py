"""Reports: bounded, and of the shape that programs rely on."""

import re
from enum import StrEnum
from pathlib import Path

import msgspec
import pytest

from limpet.reconciler import kinds
from limpet.reconciler.kinds import AuditKind, VerifyKind
from limpet.reconciler.report import Collector, Finding

PLANTED = Path(__file__).parents[2] / "integration"
SOURCE = Path(str(kinds.__file__)).read_text("utf-8")
BOTH: list[StrEnum] = [*VerifyKind, *AuditKind]


def test_ok_means_no_findings_whatever_is_noted() -> None:
    """Notes are information."""
    out = Collector()
    out.note(VerifyKind.ADOPTABLE, "a record", "nobody's")
    out.sum_up(VerifyKind.UNMARKED, 2, "rows")
    out.sum_up(VerifyKind.UNMARKED, 0, "rows")
    out.sum_up(VerifyKind.UNMARKED, 1_000, "rows")
    assert out.report().ok
    assert out.report().notes == [Finding("adoptable", "a record", "nobody's"), Finding("unmarked", "", "1,002 rows")]
    out.find(VerifyKind.DAMAGED, "a record", "cut")
    assert not out.report().ok
    assert out.found(VerifyKind.DAMAGED) == 1


def test_json_is_ok_checked_findings_and_notes() -> None:
    """A kind is its plain name."""
    out = Collector()
    out.find(AuditKind.OVERLAP, "http://a.test/", "too early")
    out.checked["pages"] += 3
    assert msgspec.json.decode(out.report().to_json()) == {
        "ok": False,
        "checked": {"pages": 3},
        "findings": [{"kind": "overlap", "subject": "http://a.test/", "detail": "too early"}],
        "notes": [],
    }


def test_a_flood_of_one_kind_is_counted_and_not_listed() -> None:
    """A broken disk breaks every record; other kinds are still listed, details have an end."""
    out = Collector(listed_max=3)
    for number in range(10):
        out.find(VerifyKind.DAMAGED, f"record {number}", "x" * 10_000)
    out.find(VerifyKind.LOST_DUE, "http://a.test/", "gone")
    found = out.report().findings
    assert [finding.kind for finding in found] == ["damaged"] * 3 + ["lost_due", "damaged"]
    assert found[-1] == Finding("damaged", "", "and 7 more")
    assert max(len(finding.detail) for finding in found) == 1_000
    assert out.found(VerifyKind.DAMAGED) == 10


@pytest.mark.parametrize("kind", BOTH, ids=str)
def test_every_kind_says_what_it_means(kind: StrEnum) -> None:
    """The registry is its own reference: each name is followed by a sentence."""
    assert re.search(rf'{kind.name} = "{kind.value}"\n    """[^"]+\."""', SOURCE)
    assert kind.value == kind.name.lower()


@pytest.mark.parametrize("kind", BOTH, ids=str)
def test_every_kind_is_planted_and_found_by_a_test(kind: StrEnum) -> None:
    """A fault that no test plants is a check that may not work."""
    texts = [path.read_text("utf-8") for path in PLANTED.rglob("test_*.py")]
    assert any(f'"{kind.value}"' in text for text in texts)
