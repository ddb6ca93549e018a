"""Parser and rules of admission in one, for `verify --links`: from a stored body to the links that must have rows.

The scope grows while a crawl runs: by seeds that are added, and by where the redirects of seeds end. What a page links
to was judged after the page was fetched, so a seed counts for it that had its row by then; a seed that came later may
or may not have been there, and proves nothing.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from limpet.admission.candidates import Desk, Strangers
from limpet.assembly.desks import make_desk, strangers_of, wants_of
from limpet.config import Settings
from limpet.embedded.finder import Finder, seeds
from limpet.embedded.folder import Folder
from limpet.embedded.views import ShardViews
from limpet.model.events import DocumentFetched, Link, PageLinks
from limpet.model.links import LinkKind
from limpet.model.urls import canonicalize_all
from limpet.parser.decode import DecodeLimits
from limpet.parser.page import parse_any
from limpet.reconciler.verify_links import WantedLink
from limpet.robots import parse


class FolderLinks:
    """`AdmissibleLinks` of one folder, under the settings of its last run."""

    def __init__(self, folder: Folder, settings: Settings, dated_seeds: Sequence[tuple[int, str]]) -> None:
        """`dated_seeds`: (time of admission, URL) of every seed."""
        self._facts = folder.facts
        self._settings = settings
        self._seeds = sorted(dated_seeds)
        self._desks: dict[tuple[int, bool], Desk] = {}

    @classmethod
    def of(cls, folder: Folder) -> "FolderLinks":
        """Read what is needed from the folder."""
        with ShardViews(folder) as views:
            finder = Finder(folder, views)
            rows = [(finder.row(url), url) for url in seeds(views)]
        dated = [(row.admitted_us, url) for row, url in rows if row is not None]
        return cls(folder, folder.load_settings() or Settings(), dated)

    def __call__(self, member: bytes, page: DocumentFetched) -> list[WantedLink]:
        """See `AdmissibleLinks.__call__`."""
        parsed = parse_any(
            member,
            page,
            links_max=self._settings.rules.page_links_max,
            limits=DecodeLimits(),
            wants=wants_of(self._facts),
        )
        desk = self._desk(page.fetched_us)
        return self._wanted(
            PageLinks(
                fp=page.fp,
                fetched_us=page.fetched_us,
                url=page.url,
                depth=page.depth,
                hops=page.hops,
                seed=page.seed,
                stray=desk.is_stray(page.url, page.hops) or msgspec.UNSET,
                links=parsed.links,
            )
        )

    def sitemaps(self, authority: str, robots: bytes, fetched_us: int) -> list[WantedLink]:
        """See `AdmissibleLinks.sitemaps`."""
        if not self._facts.scope.extras:
            return []
        url = authority + "/robots.txt"
        named = dict.fromkeys(found for found in canonicalize_all(parse(robots).sitemaps, url) if found is not None)
        links = tuple(Link(found, LinkKind.SITEMAP) for found in named)
        return self._wanted(PageLinks(fp=b"", fetched_us=fetched_us, url=url, depth=0, hops="", links=links))

    def _wanted(self, page: PageLinks) -> list[WantedLink]:
        judged = self._desk(page.fetched_us).judge([page], page.fetched_us)
        return [
            WantedLink(candidate.url, candidate.host, candidate.fp)
            for candidate in judged.candidates
            if not (candidate.seed and self._is_uncertain(page.fetched_us))
        ]

    def _is_uncertain(self, fetched_us: int) -> bool:
        """Whether other rules may have said then whose hosts are asked."""
        return fetched_us < self._settings.rules.hosts_since_us

    def _desk(self, fetched_us: int) -> Desk:
        """The judge with the seeds that were there when a page of that time was fetched.

        Where other rules may have said whose hosts are asked, links to the seeds' alone must have been admitted.
        """
        count = bisect_right(self._seeds, fetched_us, key=lambda dated: dated[0])
        key = count, self._is_uncertain(fetched_us)
        if key not in self._desks:
            known = tuple(url for _, url in self._seeds[:count])
            strangers = _EVERYBODY if key[1] else strangers_of(self._settings)
            self._desks[key] = make_desk(self._facts, self._settings, known, strangers=strangers)
        return self._desks[key]


_EVERYBODY: Final = Strangers(lambda _host: False, owned_only=False)
