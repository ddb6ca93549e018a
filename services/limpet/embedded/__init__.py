"""The ring on one machine: a supervisor, workers that each run the whole ring for some shards, one folder.

Reads: the crawl folder. Writes: the crawl folder, each shard file by its one owner. Guarantees: killing any of the
processes, or all of them, at any instant loses nothing; workers never outlive their supervisor; a second supervisor is
refused; and a run is done when the authority says so twice, never because a cache or a queue in memory is empty.
"""

from limpet.embedded.folder import Folder
from limpet.embedded.quota import FileQuota, Quota, Unlimited

__all__ = ["FileQuota", "Folder", "Quota", "Unlimited"]
