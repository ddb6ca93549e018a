"""Hop paths: how a URL was found, one letter for each step from a seed, and what they decide.

L is a link, R a redirect, E what a page needs (a requisite), M a sitemap that robots.txt, a page or an index names. An
R says nothing by itself: what a redirect of an image leads to is still the image.
"""

from typing import Final

from limpet.model.links import LinkKind

HOPS: Final = {LinkKind.REDIRECT: "R", LinkKind.REQUISITE: "E", LinkKind.SITEMAP: "M"}
"""Every other kind is followed as a link is: L."""
REQUISITES_MAX: Final = 2
"""Requisites in a row that are fetched wherever they lie: …E, and …EE for what a style sheet needs in its turn."""
SITEMAPS_MAX: Final = 2
"""An index and what it names."""
SEED_REDIRECTS_MAX: Final = 5
REDIRECTS_MAX: Final = 10


def step(hops: str, kind: LinkKind) -> str:
    """The path of a link of this kind on a page that was reached by `hops`."""
    return hops + HOPS.get(kind, "L")


def run_of(hops: str, letters: str) -> int:
    """How many steps of some letters end the path, redirects aside."""
    steps = hops.replace("R", "") if "R" in hops else hops
    return len(steps) - len(steps.rstrip(letters))


def redirects(hops: str) -> int:
    """How many redirects in a row end the path."""
    return len(hops) - len(hops.rstrip("R"))


def is_near_requisite(hops: str) -> bool:
    """Whether what is reached by `hops` is needed by a page, directly or through a style sheet."""
    return 0 < run_of(hops, "E") <= REQUISITES_MAX


def keeps_depth(hops: str, kind: LinkKind) -> bool:
    """Whether the step at the end of `hops` leads no farther from the seed than its page is.

    A redirect stands for what it leads to; a requisite is part of its page, so that a page at the greatest depth is
    whole; a sitemap is no page. Requisites of requisites of requisites count as steps, and so does whatever follows two
    and two of either: chains of them have an end.
    """
    if kind is LinkKind.REDIRECT:
        return True
    if run_of(hops, "EM") > REQUISITES_MAX + SITEMAPS_MAX:
        return False
    return kind is LinkKind.SITEMAP or (kind is LinkKind.REQUISITE and is_near_requisite(hops))
