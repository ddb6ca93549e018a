"""From a URL to its row, for onlookers."""

from limpet.assembly.places import shard_of_url
from limpet.embedded.folder import Folder
from limpet.embedded.views import ShardViews
from limpet.model.identity import Fingerprinter, identity_key
from limpet.urlstore import UrlRow
from limpet.urlstore.sqlite import reading


class Finder:
    """Knows where a crawl keeps a canonical URL."""

    def __init__(self, folder: Folder, views: ShardViews) -> None:
        self._facts = folder.facts
        self._views = views
        self._fingerprinter = Fingerprinter(folder.facts.hash_seed)

    def shard(self, url: str) -> int:
        """Shard of a URL."""
        return shard_of_url(url, self._facts)

    def fingerprint(self, url: str) -> bytes:
        """Fingerprint of a URL in this crawl."""
        return self._fingerprinter.fingerprint(identity_key(url, self._facts.identity))

    def row(self, url: str) -> UrlRow | None:
        """The row that `url` is known by."""
        return self._views.view(self.shard(url)).row(self.fingerprint(url))


def seeds(views: ShardViews) -> list[str]:
    """Every seed of the crawl, where seeds redirected to included."""
    return [url for found in views.read(reading.seeds) for url in found]
