"""Writes `docs/failure-table.md`: what breaks, what it costs, and the test and the measured figure behind each line.

PYTHONPATH=loadtest python -m scenarios.failures

The rows are in `docs/failure-table.toml`; a figure names its place in `loadtest/evidence`: none is typed by hand.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from scenarios.figures import number

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "docs" / "failure-table.toml"
PAGE = ROOT / "docs" / "failure-table.md"
EVIDENCE = ROOT / "loadtest" / "evidence"
_INTRODUCTION = """\
# What breaks, and what it costs

This page is written by `python -m scenarios.failures` from `docs/failure-table.toml` and the evidence in
`loadtest/evidence`; a test fails when they differ, or when a test named here does not exist.

Two questions for every failure: how much of the daily fetch budget does it take, could it make us impolite? One rule
answers most of them: state is made durable first and acknowledged then, so that the worst case is work done twice.
"""


def render(table: Mapping[str, Any], evidence: Path) -> str:
    """The page. `KeyError` or `FileNotFoundError` for a figure that no evidence has."""
    return "\n".join([_INTRODUCTION, *(line for group in table["group"] for line in _group(group, evidence))])


def figure(at: str, evidence: Path) -> Any:
    """What the evidence says at `FILE#KEY/KEY/…`."""
    name, _, keys = at.partition("#")
    return reduce(lambda found, key: found[key], keys.split("/"), json.loads((evidence / name).read_text()))


def _group(group: Mapping[str, Any], evidence: Path) -> Iterator[str]:
    yield f"## {group['title']}\n"
    yield "| What breaks | What it costs | Why no site notices | Measured | Shown by |"
    yield "|---|---|---|---|---|"
    for failure in group["failure"]:
        shown = "<br>".join(_linked(test) for test in failure["shown"])
        measured = _measured(failure.get("figures", ()), evidence)
        yield f"| {failure['what']} | {failure['costs']} | {failure['polite']} | {measured} | {shown} |"
    yield ""


def _measured(figures: Sequence[Mapping[str, Any]], evidence: Path) -> str:
    """The figures in words, with links to where they come from."""
    said = [one["text"].format(*(number(figure(at, evidence)) for at in one["at"])) for one in figures]
    sources = dict.fromkeys(at.partition("#")[0] for one in figures for at in one["at"])
    links = ", ".join(f"[{name}](../loadtest/evidence/{name})" for name in sources)
    return f"{'; '.join(said)} ({links})" if said else "-"


def _linked(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[`{name}`](../{path})"


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(tomllib.loads(TABLE.read_text()), EVIDENCE))
    return 0


if __name__ == "__main__":
    sys.exit(main())
