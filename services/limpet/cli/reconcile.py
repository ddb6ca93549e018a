"""`limpet reconcile`: what belongs together and disagrees, and since when. A folder at rest is repaired first."""

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec

from limpet.cli.diskfaults import told_of_the_disk
from limpet.cli.opening import open_crawl
from limpet.cli.plan import check_identity
from limpet.cli.printing import print_json, print_lines
from limpet.cli.units import show_duration
from limpet.clock import DurableClock, SystemClock
from limpet.embedded.folder import Folder
from limpet.embedded.views import ShardViews
from limpet.model.errors import UsageError
from limpet.reconciler.crawl_folder import is_running
from limpet.reconciler.standing import Standings, standings_of
from limpet.runtime import SystemRandom
from limpet.urlstore.sqlite import reading

EXIT_FINDINGS: Final = 1
UNTOUCHED: Final = "a run is on: it repairs what it finds; compared only"


def reconcile(arguments: argparse.Namespace) -> int:
    """Compare everything; 1 when something disagrees or waits for a repair."""
    if arguments.config is not None:
        return _tell(arguments, _cluster(arguments.config), None)
    folder = open_crawl(arguments.folder)
    check_identity(folder)
    repaired = None if is_running(folder.path) else _repaired(folder)
    from limpet.reconciler.verify import verify  # noqa: PLC0415 - loaded once the folder is known to be one

    report = verify(folder)
    with ShardViews(folder) as views:
        items = [item for found in views.read(reading.repairs) for item in found]
    if repaired is None and not arguments.json:
        print_lines([UNTOUCHED])
    return _tell(arguments, standings_of(report, items), repaired)


def _repaired(folder: Folder) -> dict[str, int] | None:
    from limpet.embedded.repairs import repair  # noqa: PLC0415 - loads the ring

    with told_of_the_disk(folder, lambda: "not everything is repaired"):
        try:
            return msgspec.structs.asdict(asyncio.run(repair(folder)))
        except UsageError:
            if is_running(folder.path):  # it began meanwhile
                return None
            raise


def _cluster(config: Path) -> Standings:
    from limpet.cluster.settings import load_cluster_settings  # noqa: PLC0415 - only here
    from limpet.cluster.standing import compare  # noqa: PLC0415 - loads the drivers

    return asyncio.run(compare(load_cluster_settings(config), DurableClock(SystemClock()), SystemRandom()))


def _tell(arguments: argparse.Namespace, found: Standings, repaired: dict[str, int] | None) -> int:
    now_us = SystemClock().wall_us()
    if arguments.json:
        print_json(_as_json(found, repaired, now_us))
        return 0 if found.ok else EXIT_FINDINGS
    if repaired is not None and any(repaired.values()):
        done = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in repaired.items() if count)
        print_lines([f"repaired: {done}"])
    for one in found.compared:
        age = f", for {_age(now_us, one.since_us)}" if one.findings and one.since_us else ""
        label = f"FOUND {one.findings:,}{age}" if one.findings else "ok"
        print_lines([f"{one.comparison}\t{label}\t{one.detail}"])
    print_lines(
        f"repair\t{item.kind}\t{item.subject}\t{item.detail}, for {_age(now_us, item.created_us)}"
        for item in found.items
    )
    return 0 if found.ok else EXIT_FINDINGS


def _as_json(found: Standings, repaired: dict[str, int] | None, now_us: int) -> dict[str, Any]:
    return {
        "ok": found.ok,
        "repaired": repaired,
        "compared": [
            {
                "comparison": one.comparison,
                "findings": one.findings,
                "age_seconds": (now_us - one.since_us) // 1_000_000 if one.since_us else None,
                "detail": one.detail,
            }
            for one in found.compared
        ],
        "repairs": [
            {
                "kind": item.kind,
                "subject": item.subject,
                "detail": item.detail,
                "age_seconds": (now_us - item.created_us) // 1_000_000,
            }
            for item in found.items
        ],
    }


def _age(now_us: int, since_us: int) -> str:
    return show_duration(max(0.0, (now_us - since_us) / 1e6))
