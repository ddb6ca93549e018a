"""What a web is to the origin: hosts with rules declared as data, and answers computed from a request alone."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal
from urllib.parse import unquote

from origin.wire import Answer, Request

Kind = Literal[
    "page",  # answers 200, sooner or later
    "redirect",  # answers 3xx; its target is another key
    "gone",  # answers 404 or 410
    "denied",  # linked, but robots.txt disallows it: must never be requested
    "unlicensed",  # linked, but the host never gives a valid robots.txt: must never be requested
    "trap",  # linked, but only one step of an endless trail: must be stopped by a rule, not requested
    "requisite",  # image or style sheet: a crawler may or may not fetch it
    "truncated",  # answers 200, never whole
    "failed",  # answers something that is not HTTP
    "hostile",  # answers at the edge of the protocol: the crawler must survive, the outcome is its choice
]
Option = int | float | bool


@dataclass(frozen=True, slots=True)
class HostRules:
    """What a polite crawler owes one host, as data, so that the judge needs no robots.txt parser.

    `robots_paths` are the targets of a robots retrieval, redirect hops included; the complete answer to the last
    of them licenses the host, unless `robots_licenses` is false (a chain too long to be followed).
    """

    disallowed: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    crawl_delay_seconds: float = 0.0
    robots_paths: tuple[str, ...] = ("/robots.txt",)
    robots_licenses: bool = True

    def forbids(self, target: str) -> bool:
        """Whether path and query fall under a disallowed prefix; the longer match wins (RFC 9309, 2.2.2)."""
        if target.partition("?")[0] in self.robots_paths:
            return False
        spellings = {target, unquote(target)}
        return any(_longest(self.disallowed, text) > _longest(self.allowed, text) for text in spellings)

    def robots_text(self) -> str:
        """The rules as a robots.txt; a decoy group shows whether a crawler reads a group that is not its own."""
        lines = ["User-agent: decoy-bot", "Disallow: /", "", "User-agent: *"]
        lines += [f"Disallow: {prefix}" for prefix in self.disallowed]
        lines += [f"Allow: {prefix}" for prefix in self.allowed]
        if self.crawl_delay_seconds:
            lines.append(f"Crawl-delay: {self.crawl_delay_seconds:g}")
        return "\n".join(lines) + "\n"


def _longest(prefixes: tuple[str, ...], text: str) -> int:
    return max((len(prefix) for prefix in prefixes if text.startswith(prefix)), default=0)


class Web(ABC):
    """Many hosts on one loopback port. Subclasses take options as keyword arguments with defaults."""

    name: ClassVar[str]

    def __init__(self, *, seed: int, port: int) -> None:
        self.seed = seed
        self.port = port

    @abstractmethod
    def seeds(self) -> tuple[str, ...]:
        """URLs from which everything in `expected` is found."""

    @abstractmethod
    def rules(self, host: str) -> HostRules:
        """What is owed to `host` (name without port); an unknown host has no rules."""

    @abstractmethod
    def answer(self, request: Request) -> Answer:
        """The answer to one request; bounded work, never raises."""

    @abstractmethod
    def expected(self) -> dict[str, Kind]:
        """Every URL that seeds and links name, robots.txt excluded, with what it must end as."""

    def warm(self) -> None:  # noqa: B027 (most webs have nothing to make ahead)
        """Make ahead what answers are made from; called once before the origin says that it is ready."""

    def url(self, host: str, target: str = "/") -> str:
        """The absolute URL of a target of a host."""
        return f"http://{host}:{self.port}{target}"


def options_of(web: Callable[..., Web]) -> dict[str, Option]:
    """Options a web takes, with their defaults."""
    parameters = inspect.signature(web).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def create(webs: Mapping[str, Callable[..., Web]], name: str, *, seed: int, port: int, **options: Option) -> Web:
    """Build the web called `name`. ValueError names an unknown web or option and what there is instead."""
    if name not in webs:
        raise ValueError(f"unknown web {name!r}; there are: {', '.join(sorted(webs))}")
    known = options_of(webs[name])
    for option in options:
        if option not in known:
            raise ValueError(f"web {name!r} has no option {option!r}; it has: {', '.join(sorted(known)) or 'none'}")
    return webs[name](seed=seed, port=port, **options)
