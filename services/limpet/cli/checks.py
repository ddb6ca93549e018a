"""`verify` (is the archive intact?) and `audit` (were we polite?): they judge, and print what they found."""

import argparse
import inspect
from typing import Any, Final

from limpet.cli.printing import print_json, print_lines
from limpet.embedded.folder import Folder

EXIT_FINDINGS: Final = 1


def verify(arguments: argparse.Namespace) -> int:
    """Compare rows, records and indexes."""
    folder = Folder.open(arguments.folder)
    from limpet.reconciler.verify import verify as judge  # noqa: PLC0415 - only this verb needs it

    return _tell(_finished(judge(folder, links=arguments.links)), arguments, "the archive is intact")


def audit(arguments: argparse.Namespace) -> int:
    """Judge every fetch again from the archived robots copies and the record dates."""
    folder = Folder.open(arguments.folder)
    from limpet.reconciler.audit import audit as judge  # noqa: PLC0415 - only this verb needs it

    return _tell(_finished(judge(folder)), arguments, "no rule was broken")


def _finished(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return result
    import asyncio  # noqa: PLC0415 - only needed here

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def _tell(report: Any, arguments: argparse.Namespace, good: str) -> int:
    if arguments.json:
        print_json(
            {
                "ok": report.ok,
                "checked": report.checked,
                "findings": [
                    {"kind": str(finding.kind), "subject": finding.subject, "detail": finding.detail}
                    for finding in report.findings
                ],
            }
        )
    else:
        checked = ", ".join(f"{count} {what}" for what, count in report.checked.items())
        print_lines(f"{finding.kind}: {finding.subject}: {finding.detail}" for finding in report.findings)
        print_lines([f"checked {checked}: " + (good if report.ok else "see the findings above")])
    return 0 if report.ok else EXIT_FINDINGS
