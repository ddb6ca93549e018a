"""The spool of a worker, in the folder of its crawl."""

from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.fetch import Spool, SpoolLimits
from limpet.runtime import Disk, Runner


async def open_spool(folder: Folder, settings: Settings, disk: Disk, runner: Runner, incarnation: str) -> Spool:
    """Where large bodies wait; what dead workers left there is taken away."""
    limits = SpoolLimits(bytes_max=settings.fetching.spool_bytes_max, min_free_bytes=settings.min_free_bytes)
    spool = Spool(folder.spool, incarnation, disk=disk, runner=runner, limits=limits)
    await spool.clean()
    return spool
