"""What a crawl wants of its pages beyond the links that a reader may follow."""

import msgspec


class Wants(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the crawl, as the parser needs them.

    `requisites`: what pages need to be shown, style sheets read for theirs. `extras`: alternates, feeds and sitemaps,
    announced by pages or headers, and the entries of such documents. `agent`: the token that robots directives may
    name; directives for it count like those for everybody.
    """

    requisites: bool = False
    extras: bool = False
    agent: str = "limpet"

    @property
    def wide(self) -> bool:
        """Whether more is looked at than anchors, frames and refreshes."""
        return self.requisites or self.extras


NAVIGATION_ONLY = Wants()
