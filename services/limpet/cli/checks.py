"""`verify` (is the archive intact?) and `audit` (were we polite?): they judge, and print what they found."""

import argparse
from typing import Final

from limpet.cli.opening import open_crawl
from limpet.cli.plan import check_identity
from limpet.cli.printing import print_json, print_lines
from limpet.cli.units import show_count
from limpet.reconciler.report import Finding, Report

EXIT_FINDINGS: Final = 1


def verify(arguments: argparse.Namespace) -> int:
    """Compare rows, records and indexes; with --links also what stored bodies link to."""
    folder = open_crawl(arguments.folder)
    check_identity(folder)  # rows are judged by where this Limpet would put them
    from limpet.reconciler.verify import verify as check  # noqa: PLC0415 - loaded once the folder is known to be one

    if not arguments.links:
        return _tell(check(folder), arguments, "the archive is intact")
    from limpet.embedded.admissible import FolderLinks  # noqa: PLC0415 - needs the parser

    return _tell(check(folder, links=True, admissible=FolderLinks.of(folder)), arguments, "nothing is lost")


def audit(arguments: argparse.Namespace) -> int:
    """Judge every fetch again from the archived robots copies and the record dates."""
    folder = open_crawl(arguments.folder)
    from limpet.reconciler.audit import audit as check  # noqa: PLC0415 - loads a second robots parser

    return _tell(check(folder), arguments, "no rule was broken")


def _tell(report: Report, arguments: argparse.Namespace, good: str) -> int:
    if arguments.json:
        print_json(report)
    else:
        print_lines(_line("note", note) for note in report.notes)
        print_lines(_line("FOUND", finding) for finding in report.findings)
        checked = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.checked.items())
        found = good if report.ok else f"{show_count(len(report.findings), 'finding')} above"
        print_lines([f"checked {checked or 'nothing'}: {found}"])
    return 0 if report.ok else EXIT_FINDINGS


def _line(label: str, finding: Finding) -> str:
    return f"{label}\t{finding.kind}\t{finding.subject}\t{finding.detail}"
