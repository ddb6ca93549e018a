"""The log retold: which host saw which request from when to when, and which connections were open meanwhile."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from origin.events import Closed, Event, Opened, Requested, Responded, Started, Stopped

NEVER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Visit:
    """One request and what became of it; `end_ns` is `NEVER_NS` while its answer is under way.

    `size_bytes` were sent, head included; how many of them a client took that went away is not known.
    """

    asked: Requested
    head_ns: int | None
    end_ns: int
    status: int
    retry_after_seconds: float | None
    complete: bool
    size_bytes: int = 0

    @property
    def host(self) -> str:
        """The host asked, without port, and without the dot that may end it: the same machine answers."""
        return self.asked.host.removesuffix(".")

    @property
    def target(self) -> str:
        """Path and query as sent."""
        return f"{self.asked.path}?{self.asked.query}" if self.asked.query else self.asked.path

    @property
    def received_ns(self) -> int:
        """When the request had arrived."""
        return self.asked.t_ns

    @property
    def url(self) -> str:
        """The absolute URL."""
        return f"http://{self.asked.authority}{self.target}"


@dataclass(frozen=True, slots=True)
class Span:
    """A connection's life; its host is the one first asked over it, or the address if none was."""

    host: str
    opened_ns: int
    closed_ns: int


def visits_of(events: Iterable[Event]) -> list[Visit]:
    """All requests in order of arrival. What a dead origin left open ended with it, at the latest."""
    asked: dict[int, Requested] = {}
    answered: dict[int, Responded] = {}
    over: dict[int, int] = {}
    for event in events:
        match event:
            case Requested():
                asked[event.request] = event
            case Responded():
                answered[event.request] = event
            case Started() | Stopped():
                for request in asked.keys() - answered.keys() - over.keys():
                    over[request] = event.t_ns
            case _:
                pass
    visits = [_visit(event, answered.get(key), over.get(key, NEVER_NS)) for key, event in asked.items()]
    return sorted(visits, key=lambda visit: visit.received_ns)


def _visit(asked: Requested, answered: Responded | None, over_ns: int) -> Visit:
    if answered is None:
        return Visit(asked, None, over_ns, 0, None, complete=False)
    return Visit(
        asked,
        answered.head_ns,
        answered.t_ns,
        answered.status,
        answered.retry_after_seconds,
        answered.complete,
        answered.bytes,
    )


def spans_of(events: Iterable[Event]) -> list[Span]:
    """All connections in order of opening."""
    opened: dict[int, Opened] = {}
    hosts: dict[int, str] = {}
    closed: dict[int, int] = {}
    for event in events:
        match event:
            case Opened():
                opened[event.connection] = event
            case Requested():
                hosts.setdefault(event.connection, event.host.removesuffix("."))
            case Closed():
                closed.setdefault(event.connection, event.t_ns)
            case Started() | Stopped():
                for key in opened.keys() - closed.keys():
                    closed[key] = event.t_ns
            case _:
                pass
    spans = [Span(hosts.get(key, event.local), event.t_ns, closed.get(key, NEVER_NS)) for key, event in opened.items()]
    return sorted(spans, key=lambda span: span.opened_ns)


_Hosted = TypeVar("_Hosted", Visit, Span)


def by_host(things: Iterable[_Hosted]) -> Mapping[str, list[_Hosted]]:
    """The same visits or spans, host by host, order kept."""
    groups: defaultdict[str, list[_Hosted]] = defaultdict(list)
    for thing in things:
        groups[thing.host].append(thing)
    return groups


def requests_by_url(events: Iterable[Event]) -> Counter[str]:
    """How often each URL was requested, answered or not."""
    return Counter(visit.url for visit in visits_of(events))
