"""`verify` (is the archive intact?) and `audit` (were we polite?): they judge, and print what they found."""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from limpet.cli.opening import open_crawl
from limpet.cli.plan import check_identity
from limpet.cli.printing import plain, print_json, print_lines
from limpet.cli.units import show_count
from limpet.embedded.folder import Folder, check_vacant, is_crawl
from limpet.model.errors import UsageError
from limpet.reconciler.report import Finding, Report
from limpet.runtime.disk import Disk

EXIT_FINDINGS: Final = 1


def verify(arguments: argparse.Namespace) -> int:
    """Compare rows, records and indexes; with --links also what stored bodies link to."""
    with _judged(arguments) as (folder, disk):
        check_identity(folder)  # rows are judged by where this Limpet would put them
        from limpet.reconciler.verify import verify as check  # noqa: PLC0415 - loaded once the folder is known to be one

        if not arguments.links:
            return _tell(check(folder, disk=disk), arguments, "the archive is intact")
        from limpet.embedded.admissible import FolderLinks  # noqa: PLC0415 - needs the parser

        found = check(folder, links=True, admissible=FolderLinks.of(folder), disk=disk)
        return _tell(found, arguments, "nothing is lost")


def audit(arguments: argparse.Namespace) -> int:
    """Judge every fetch again from the archived robots copies and the record dates."""
    with _judged(arguments) as (folder, disk):
        from limpet.reconciler.audit import audit as check  # noqa: PLC0415 - loads a second robots parser

        return _tell(check(folder, disk=disk), arguments, "no rule was broken")


@contextlib.contextmanager
def _judged(arguments: argparse.Namespace) -> Iterator[tuple[Folder, Disk | None]]:
    """What is judged: a folder; of a cluster, a copy of its rows, beside the archive where it is."""
    if arguments.config is None:
        if arguments.into is not None:
            raise UsageError("--into goes with --config: a folder is judged where it is")
        yield open_crawl(arguments.folder), None
        return
    from limpet.cli.clusterview import open_cluster  # noqa: PLC0415 - loads the drivers

    if arguments.into is not None:
        if is_crawl(arguments.into):
            raise UsageError(f"{arguments.into} holds a crawl already: choose a new folder with --into")
        check_vacant(arguments.into)
    with (
        tempfile.TemporaryDirectory(prefix="limpet-") as temporary,
        open_cluster(arguments.config) as view,
        view.copied(arguments.into or Path(temporary) / "rows") as (folder, disk, urls),
    ):
        where = f"in {arguments.into}" if arguments.into else f"below {tempfile.gettempdir()}, for as long as it takes"
        told = f"judging a copy of the rows of {show_count(urls, 'URL')} {where}; segments are read where they are"
        sys.stderr.write(f"limpet: {plain(told)}\n")
        yield folder, disk


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
