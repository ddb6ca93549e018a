"""What a check found, in a form that people and programs read alike."""

from collections import Counter
from enum import StrEnum
from typing import Final

import msgspec

LISTED_MAX: Final = 1_000
"""So many findings of one kind are listed; the rest are counted in a last one. A broken disk breaks every record."""

DETAIL_CHARS_MAX: Final = 1_000


class Finding(msgspec.Struct, frozen=True):
    """One thing. `kind` is a value of `limpet.reconciler.kinds`, `subject` a URL, a record or a file."""

    kind: str
    subject: str
    detail: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check. `ok` means that there are no findings; notes are information, not faults.

    `checked` says how many of what were looked at, so that an empty list of findings can be told from an empty check.
    """

    ok: bool
    checked: dict[str, int]
    findings: list[Finding]
    notes: list[Finding]

    def to_json(self) -> bytes:
        """`{"ok": bool, "checked": {…}, "findings": [{"kind", "subject", "detail"}], "notes": […]}`."""
        return msgspec.json.encode(self)


class Collector:
    """Gathers findings, notes and counts in bounded memory."""

    def __init__(self, listed_max: int = LISTED_MAX) -> None:
        self._listed_max = listed_max
        self._findings: list[Finding] = []
        self._notes: list[Finding] = []
        self._found: Counter[str] = Counter()
        self._noted: Counter[str] = Counter()
        self._sums: Counter[tuple[str, str]] = Counter()
        self.checked: Counter[str] = Counter()

    def find(self, kind: StrEnum, subject: str, detail: str) -> None:
        """Something is wrong."""
        self._add(self._findings, self._found, kind, subject, detail)

    def note(self, kind: StrEnum, subject: str, detail: str) -> None:
        """Something is worth knowing."""
        self._add(self._notes, self._noted, kind, subject, detail)

    def sum_up(self, kind: StrEnum, count: int, what: str) -> None:
        """Something worth knowing only as a number: equal ones add up to one note."""
        if count:
            self._sums[kind.value, what] += count

    def found(self, kind: StrEnum) -> int:
        """How many findings of a kind there are, listed or not."""
        return self._found[kind.value]

    def report(self) -> Report:
        """Everything so far."""
        return Report(
            ok=not self._findings,
            checked=dict(self.checked),
            findings=self._findings + self._unlisted(self._found),
            notes=self._notes + self._unlisted(self._noted) + self._summed_up(),
        )

    def _add(self, where: list[Finding], counts: Counter[str], kind: StrEnum, subject: str, detail: str) -> None:
        counts[kind.value] += 1
        if counts[kind.value] <= self._listed_max:
            where.append(Finding(kind.value, subject, detail[:DETAIL_CHARS_MAX]))

    def _summed_up(self) -> list[Finding]:
        return [Finding(kind, "", f"{count:,} {what}") for (kind, what), count in self._sums.items()]

    def _unlisted(self, counts: Counter[str]) -> list[Finding]:
        return [
            Finding(kind, "", f"and {count - self._listed_max:,} more")
            for kind, count in counts.items()
            if count > self._listed_max
        ]
