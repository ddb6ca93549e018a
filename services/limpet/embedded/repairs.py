"""The repairs that a run makes before it begins, without the run: for `limpet reconcile`."""

import msgspec

from limpet.clock import SystemClock
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.gaps import mend_gaps
from limpet.embedded.lock import FolderLock, wait_for_dying_workers
from limpet.embedded.ports import Ports
from limpet.embedded.ring import recover
from limpet.embedded.views import was_left_unclean
from limpet.reconciler.recovery import RecoveryReport


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: segments sealed, records adopted, leases ended, documents to parse again."""

    segments: int = 0
    adopted: int = 0
    interrupted: int = 0
    parsed_again: int = 0


async def repair(folder: Folder) -> Repaired:
    """Recover what died in the folder, and mend gaps in its logs. Raises `UsageError` while a run is on."""
    lock = FolderLock.take(folder.path)
    try:
        await wait_for_dying_workers(folder.run, SystemClock())
        settings, ports = folder.load_settings() or Settings(), Ports.system()
        everything = frozenset(range(folder.facts.shards))
        done = RecoveryReport()
        if was_left_unclean(folder):
            done = await recover(folder, settings, everything, ports, segments_of=None)
        documents = await mend_gaps(folder, settings, ports)
        return Repaired(
            segments=done.segments,
            adopted=done.adopted,
            interrupted=done.interrupted + done.poisoned,
            parsed_again=documents,
        )
    finally:
        lock.release()
