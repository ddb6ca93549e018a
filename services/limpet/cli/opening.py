"""How every verb opens a crawl: in a folder, or on the servers that a configuration names."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from limpet.cli.crawlview import CrawlView
from limpet.cli.printing import plain
from limpet.embedded.folder import Folder
from limpet.embedded.upgrade import upgrade
from limpet.embedded.views import ShardViews


def open_crawl(path: Path) -> Folder:
    """The crawl in `path`, brought up to this Limpet's schema if an earlier one left it. Raises `UsageError`."""
    folder = Folder.open(path)
    if shards := upgrade(folder):
        told = f"{path} was made by an earlier Limpet: {shards} shards are of this one's schema now"
        sys.stderr.write(f"limpet: {plain(told)}\n")
    return folder


@contextmanager
def open_view(arguments: argparse.Namespace) -> Iterator[CrawlView]:
    """The crawl that a command line names by DIR or by --config. Raises `UsageError`, `LimpetError`."""
    if arguments.config is not None:
        from limpet.cli.clusterview import open_cluster  # noqa: PLC0415 - loads the drivers

        with open_cluster(arguments.config) as view:
            yield view
        return
    from limpet.cli.folderview import FolderView  # noqa: PLC0415 - it opens folders by this module

    folder = open_crawl(arguments.folder)
    with ShardViews(folder) as views:
        yield FolderView(folder, views)
