"""Which discovered links become rows: validity, size, scope, depth, traps, caps. Pure, and linear in the URL.

The rules are asked in the order of `Rule`, and the first that objects names the reason: what is rejected
has no row, so the counts per rule are all that a reader gets to see of it.
"""

from collections import Counter
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from limpet.admission.patterns import Patterns
from limpet.admission.scope import Scope
from limpet.model.links import LinkKind
from limpet.model.urls import is_host_name

_WEB: Final = ("http://", "https://")
_AUTHORITY_END_MIN: Final = len("http://h")
_HOSTS_CACHED_MAX: Final = 65_536

HOST_CAP_REJECT_FACTOR: Final = 10
"""Beyond this many times a host's cap its links are counted and no longer kept."""


class Rule(StrEnum):
    """The names under which links are rejected, parked and counted. Stored with crawls: never renamed."""

    INVALID_URL = "invalid_url"
    """Not a URL, or on a host that cannot exist."""
    URL_TOO_LONG = "url_too_long"
    EXCLUDED = "excluded"
    """Matches a pattern of --exclude. Binds seeds too, and where they redirect to."""
    SCOPE = "scope"
    """Outside the crawl."""
    NOT_INCLUDED = "not_included"
    """In scope, and matches no pattern of --include."""
    NOFOLLOW = "nofollow"
    """The page asks that the link not be followed."""
    DEPTH = "depth"
    """Farther from a seed than the user wants to go."""
    DEPTH_TRAP = "depth_trap"
    """Farther from a seed than a real site reaches."""
    REPEATED_SEGMENT = "repeated_segment"
    """The same path segment again and again: relative links that feed on themselves."""
    NO_CONTACT = "no_contact"
    """On another host than the seed's, in a crawl of somebody else's host that says not how to reach us."""
    NOT_OWNED = "not_owned"
    """On somebody else's host, in a crawl of hosts of one's own that does not stop at its scope."""
    REQUISITE_PAGE = "requisite_page"
    """On something off scope that was fetched only to show a page: its links lead nowhere, its needs not far."""
    REDIRECT_CHAIN = "redirect_chain"
    """More redirects in a row than any page is worth."""
    SITEMAP_CHAIN = "sitemap_chain"
    """A sitemap in an index in an index: deeper than the protocol goes."""
    LINKS_PER_PAGE = "links_per_page"
    """Beyond the number of links taken from one page; counted by the parser."""
    HOST_CAP = "host_cap"
    """The host has as many URLs as one host may have."""

    __hash__ = str.__hash__  # as in `LinkKind`


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers behind the rules. `depth_max` None: as deep as it goes."""

    depth_max: int | None = None
    depth_trap: int = 20
    url_bytes_max: int = 2_048
    segment_repeats_max: int = 3
    host_urls_max: int = 100_000
    follow_nofollow: bool = False


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A link as admission meets it: canonical `url`, its `host` (as `limpet.model.urls.split` gives it), link hops.

    `seed` is for URLs the user named: only validity and length bind them. `nofollow` is the link's own or its page's.
    `requisite`: near enough to a page that needs it to be fetched off scope, see `limpet.admission.hops`.
    """

    url: str
    host: str
    depth: int
    kind: LinkKind = LinkKind.NAVIGATION
    nofollow: bool = False
    seed: bool = False
    requisite: bool = False


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What candidates are judged against. `patterns` None: no URL is kept out by how it looks."""

    scope: Scope
    limits: Limits
    patterns: Patterns | None = None


class Admit(msgspec.Struct, frozen=True):
    """The link becomes a row that is due."""


class Park(msgspec.Struct, frozen=True):
    """The link becomes a row that waits, visibly, until someone lets it go."""

    rule: Rule


class Reject(msgspec.Struct, frozen=True):
    """The link gets no row and is counted."""

    rule: Rule


Verdict = Admit | Park | Reject

ADMIT: Final = Admit()


def judge(candidate: Candidate, context: Context) -> Verdict:
    """The verdict on one candidate. Never raises; depends on nothing but its arguments."""
    if rule := _malformed(candidate, context.limits):
        return Reject(rule)
    if context.patterns is not None and context.patterns.excludes(candidate.url):
        return Reject(Rule.EXCLUDED)
    if candidate.seed:
        return ADMIT
    if rule := _unwanted(candidate, context) or _trap(candidate, context.limits):
        return Reject(rule)
    return ADMIT


def _malformed(candidate: Candidate, limits: Limits) -> Rule | None:
    url = candidate.url
    if not url.startswith(_WEB) or url.find("/", _AUTHORITY_END_MIN) < 0 or not _can_exist(candidate.host):
        return Rule.INVALID_URL
    return Rule.URL_TOO_LONG if len(url) > limits.url_bytes_max else None


@lru_cache(maxsize=_HOSTS_CACHED_MAX)
def _can_exist(host: str) -> bool:
    return is_host_name(host)


def _unwanted(candidate: Candidate, context: Context) -> Rule | None:
    """What the user or the page does not want."""
    if not candidate.requisite:
        if not context.scope.admits(candidate.url):
            return Rule.SCOPE
        if context.patterns is not None and not context.patterns.includes(candidate.url):
            return Rule.NOT_INCLUDED
    if candidate.nofollow and not context.limits.follow_nofollow:
        return Rule.NOFOLLOW
    depth_max = context.limits.depth_max
    reach = candidate.depth + (candidate.kind is LinkKind.SITEMAP)  # a sitemap is read for what it names
    return Rule.DEPTH if depth_max is not None and reach > depth_max else None


def _trap(candidate: Candidate, limits: Limits) -> Rule | None:
    if candidate.depth > limits.depth_trap:
        return Rule.DEPTH_TRAP
    return Rule.REPEATED_SEGMENT if _repeats(candidate.url, limits.segment_repeats_max) else None


def _repeats(url: str, repeats_max: int) -> bool:
    """Whether a path segment occurs more than `repeats_max` times. Inner empty ones count: ``//////`` is a trap too."""
    if url.count("/") - 2 <= repeats_max:
        return False
    path = url[url.index("/", _AUTHORITY_END_MIN) + 1 :].partition("?")[0]
    segments = path.removesuffix("/").split("/")
    surplus = len(segments) - len(set(segments))
    return surplus >= repeats_max and max(Counter(segments).values()) > repeats_max


def capped(host_urls: int, limits: Limits) -> Verdict:
    """The verdict on one URL more for a host that has `host_urls`. Asked last, and not of seeds."""
    if host_urls < limits.host_urls_max:
        return ADMIT
    if host_urls < limits.host_urls_max * HOST_CAP_REJECT_FACTOR:
        return Park(Rule.HOST_CAP)
    return Reject(Rule.HOST_CAP)
