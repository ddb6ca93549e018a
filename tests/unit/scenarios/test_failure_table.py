"""The table of failures: its figures are evidence, its tests exist."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from scenarios.failures import EVIDENCE, PAGE, ROOT, TABLE, figure, render


def test_the_page_shows_what_was_measured() -> None:
    """Page, rows and evidence never drift apart."""
    written = PAGE.read_text(encoding="utf-8")
    assert written == render(tomllib.loads(TABLE.read_text()), EVIDENCE), (
        "run: PYTHONPATH=loadtest python -m scenarios.failures"
    )


def test_a_test_stands_behind_every_line() -> None:
    """Each is in the file that the line names."""
    for failure in _failures():
        assert failure["shown"], failure["what"]
        for shown in failure["shown"]:
            path, _, name = shown.partition("::")
            assert re.search(rf"^(async )?def {re.escape(name)}\(", (ROOT / path).read_text(), re.MULTILINE), shown


def test_a_figure_without_evidence_is_refused(tmp_path: Path) -> None:
    """No line promises what nobody measured."""
    (tmp_path / "kill.json").write_text(json.dumps({"kills": {"count": 3}}))
    assert figure("kill.json#kills/count", tmp_path) == 3
    with pytest.raises(KeyError):
        figure("kill.json#kills/duplicates", tmp_path)


def _failures() -> list[dict[str, Any]]:
    return [failure for group in tomllib.loads(TABLE.read_text())["group"] for failure in group["failure"]]
