"""How every verb opens a crawl folder."""

import sys
from pathlib import Path

from limpet.cli.printing import plain
from limpet.embedded.folder import Folder
from limpet.embedded.upgrade import upgrade


def open_crawl(path: Path) -> Folder:
    """The crawl in `path`, brought up to this Limpet's schema if an earlier one left it. Raises `UsageError`."""
    folder = Folder.open(path)
    if shards := upgrade(folder):
        told = f"{path} was made by an earlier Limpet: {shards} shards are of this one's schema now"
        sys.stderr.write(f"limpet: {plain(told)}\n")
    return folder
