"""What belongs to a crawl: a region of the web drawn around its seeds.

Two URLs are of one *host class* when their host names differ at most in a leading ``www.`` and their ports are both
the default one of their scheme, or the same explicit one. ``http`` and ``https`` never differ.
"""

from collections.abc import Iterator
from enum import StrEnum
from functools import cached_property
from typing import Final

import msgspec

from limpet.model.identity import registrable_domain
from limpet.model.urls import DEFAULT_PORTS, SplitUrl, split

_WWW: Final = "www."


class ScopeKind(StrEnum):
    """How far a crawl goes from its seeds."""

    PAGE = "page"
    """The seeds and nothing else."""
    HOST = "host"
    """The seeds' host classes."""
    DOMAIN = "domain"
    """Every host and port under the seeds' registrable domains."""
    PREFIX = "prefix"
    """What lies in the folder of a seed, on its host class: its path up to the last slash."""
    ANY = "any"
    """The whole web."""


class Scope(msgspec.Struct, frozen=True, dict=True):
    """A region of the web around `seeds`, canonical URLs; what follows is worked out at the first question."""

    kind: ScopeKind
    seeds: tuple[str, ...]

    def admits(self, url: str) -> bool:
        """Whether the canonical `url` lies in the region. Does not depend on the number of seeds."""
        match self.kind:
            case ScopeKind.HOST:
                return _authority(url) in self._prefixes
            case ScopeKind.DOMAIN:
                return registrable_domain(_host(_authority(url))) in self._domains
            case ScopeKind.PREFIX:
                authority = _authority(url)
                return url.startswith(self._prefixes.get(authority, ()), len(authority))
            case ScopeKind.PAGE:
                return url in self._pages
            case ScopeKind.ANY:
                return True

    def has_seed_host(self, host: str) -> bool:
        """Whether `host` is a seed's, a leading ``www.`` and the port aside."""
        return host.removeprefix(_WWW) in self._hosts

    def with_seed(self, url: str) -> "Scope":
        """The region with one more seed: where a seed's redirects end."""
        return self if url in self._pages else Scope(self.kind, (*self.seeds, url))

    @cached_property
    def _pages(self) -> frozenset[str]:
        return frozenset(self.seeds)

    @cached_property
    def _hosts(self) -> frozenset[str]:
        return frozenset(split(seed).host.removeprefix(_WWW) for seed in self.seeds)

    @cached_property
    def _domains(self) -> frozenset[str]:
        return frozenset(registrable_domain(split(seed).host) for seed in self.seeds)

    @cached_property
    def _prefixes(self) -> dict[str, tuple[str, ...]]:
        """The folders of the seeds, by every authority of their host classes."""
        folders: dict[str, set[str]] = {}
        for seed in self.seeds:
            parts = split(seed)
            path = parts.path_query.partition("?")[0]
            for authority in _host_class(parts):
                folders.setdefault(authority, set()).add(path[: path.rindex("/") + 1])
        return {authority: tuple(found) for authority, found in folders.items()}


def _authority(url: str) -> str:
    """Scheme, host and port of a canonical URL, as it begins."""
    return url[: url.index("/", 8)]


def _host(authority: str) -> str:
    """The host of an authority, without port and brackets."""
    server = authority[authority.index("/") + 2 :]
    return server[1:].partition("]")[0] if server.startswith("[") else server.partition(":")[0]


def _host_class(seed: SplitUrl) -> Iterator[str]:
    """Every authority that counts as the seed's."""
    server = seed.authority.partition("://")[2]
    port = "" if seed.port == DEFAULT_PORTS[seed.scheme] else f":{seed.port}"
    name = server.removesuffix(port) if port else server
    apex = name.removeprefix(_WWW)
    if "." not in apex:
        apex = name  # "www.localhost" and "www.com" are no other spelling of a top-level name
    for scheme in DEFAULT_PORTS:
        yield f"{scheme}://{apex}{port}"
        yield f"{scheme}://{_WWW}{apex}{port}"
