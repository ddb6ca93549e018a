"""Was the crawler polite? Judged from the origin's own log and the rules its web declares, and nothing else."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise, takewhile
from typing import Literal

from origin.events import Event
from origin.visits import Span, Visit, by_host, spans_of, visits_of
from origin.web import HostRules
from origin.webs import web_of

ViolationKind = Literal[
    "robots", "gap", "concurrency", "retry_after", "method", "identity", "referer", "cookie", "residual"
]
_DAY_NS = 86_400 * 10**9
_WAIT_STATUSES = frozenset({429, 503})
_ROBOTS_BYTES = 500 << 10


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule; `detail` names the URL and the figures."""

    kind: ViolationKind
    host: str
    detail: str


@dataclass(frozen=True, slots=True)
class Policy:
    """What the crawler promised.

    `owned` takes away the default floor and the latency multiple, and nothing else; a floor given holds all the
    same. `kills_ns` are the instants (monotonic clock) at which the crawler was killed; for each, a Retry-After
    whose headers left less than `residual_seconds` before may be forgotten: one request is excused, and if the host
    answers that one well, its wait counts as over. A host whose answer was cut off by a kill is left alone for
    `takeover_seconds`. `tolerance_seconds` forgives timer jitter in gaps, waits and overlaps of idle connections.
    """

    agent: str = "limpet"
    floor_seconds: float | None = None
    latency_multiple: float = 5.0
    latency_gap_seconds_max: float = 30.0
    owned: bool = False
    tolerance_seconds: float = 0.010
    kills_ns: tuple[int, ...] = ()
    residual_seconds: float = 1.0
    takeover_seconds: float = 0.0

    def gap_seconds(self, before: Visit, rules: HostRules) -> float:
        """What must pass between the end of `before` and the next request to its host."""
        floor = self.floor_seconds
        if floor is None:
            floor = 0.0 if self.owned else 1.0
        if not before.complete:
            cut_off = any(before.received_ns <= kill_ns <= before.end_ns for kill_ns in self.kills_ns)
            return max(floor, rules.crawl_delay_seconds, self.takeover_seconds if cut_off else 0.0)
        took = 0.0 if self.owned else (before.end_ns - before.received_ns) / 1e9
        slow = min(self.latency_gap_seconds_max, self.latency_multiple * took)
        return max(floor, rules.crawl_delay_seconds, slow)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything found. `residuals` are the documented exceptions after a kill; they are no violations."""

    violations: list[Violation] = field(default_factory=list)
    residuals: list[Violation] = field(default_factory=list)
    requests: int = 0
    hosts: int = 0


RulesOf = Callable[[str], HostRules]


def examine(events: Sequence[Event], policy: Policy, rules_of: RulesOf | None = None) -> Verdict:
    """Judge a whole log; violations come host by host, in order of time.

    Rules are those of the web named in the log unless others are given. LookupError if it names none.
    """
    rules_of = rules_of or web_of(events).rules
    visits = by_host(visits_of(events))
    spans = by_host(spans_of(events))
    verdict = Verdict(requests=sum(map(len, visits.values())), hosts=len(visits))
    for host in sorted(visits.keys() | spans.keys()):
        for found in _examine_host(host, visits.get(host, []), spans.get(host, []), policy, rules_of(host)):
            (verdict.residuals if found.kind == "residual" else verdict.violations).append(found)
    return verdict


def judge(events: Sequence[Event], policy: Policy, rules_of: RulesOf | None = None) -> list[Violation]:
    """The violations in a log; empty when the crawler was polite throughout."""
    return examine(events, policy, rules_of).violations


def _examine_host(
    host: str, visits: Sequence[Visit], spans: Sequence[Span], policy: Policy, rules: HostRules
) -> Iterator[Violation]:
    yield from _robots(visits, rules)
    yield from _gaps(visits, rules, policy)
    yield from _crowding(host, visits, spans, policy)
    yield from _waits(visits, policy)
    yield from _manners(visits, policy)


def _robots(visits: Sequence[Visit], rules: HostRules) -> Iterator[Violation]:
    """Pages need a robots.txt that was answered in full, with 2xx or 4xx, within the last 24 hours.

    Of a huge one 500 KiB will do (RFC 9309, 2.5). A 5xx or 429 gives none and takes none away: a copy under 24 hours
    old may go on serving (RFC 9309, 2.3.1.4). The licence is kept per authority, for which alone robots.txt speaks.
    """
    copies: dict[str, list[Visit]] = {}
    for visit in visits:
        authority = visit.asked.authority
        if visit.asked.path in rules.robots_paths:
            copies.setdefault(authority, []).append(visit)
            continue
        if rules.forbids(visit.target):
            yield Violation("robots", visit.host, f"{visit.url} is disallowed")
        if not any(_licenses(copy, visit, rules) for copy in copies.get(authority, [])):
            yield Violation("robots", visit.host, f"{visit.url} without a licence: {_why(copies.get(authority))}")


def _licenses(copy: Visit, visit: Visit, rules: HostRules) -> bool:
    return (
        rules.robots_licenses
        and copy.asked.path == rules.robots_paths[-1]
        and (copy.complete or copy.size_bytes > _ROBOTS_BYTES)
        and (200 <= copy.status < 300 or (400 <= copy.status < 500 and copy.status != 429))
        and copy.end_ns <= visit.received_ns <= copy.end_ns + _DAY_NS
    )


def _why(copies: Sequence[Visit] | None) -> str:
    if not copies:
        return "robots.txt was never requested"
    last = copies[-1]
    return f"robots.txt last answered {last.status}" + ("" if last.complete else ", cut off")


def _gaps(visits: Sequence[Visit], rules: HostRules, policy: Policy) -> Iterator[Violation]:
    """From the end of one response to the next request: the largest gap promised to this host."""
    for before, after in pairwise(visits):
        wanted = policy.gap_seconds(before, rules)
        waited = (after.received_ns - before.end_ns) / 1e9
        if wanted and waited < wanted - policy.tolerance_seconds:
            yield Violation("gap", after.host, f"{after.url} after {waited:.3f} s instead of {wanted:.3f} s")


def _crowding(host: str, visits: Sequence[Visit], spans: Sequence[Span], policy: Policy) -> Iterator[Violation]:
    """One request and one connection at a time. Requests get no tolerance: their stamps need none."""
    busy_until = 0
    for visit in visits:
        if visit.received_ns < busy_until:
            yield Violation("concurrency", host, f"{visit.url} while another request was being answered")
        busy_until = max(busy_until, visit.end_ns)
    open_until = 0
    for span in spans:
        if open_until - span.opened_ns > policy.tolerance_seconds * 1e9:
            yield Violation("concurrency", host, "a connection was opened while another was open")
        open_until = max(open_until, span.closed_ns)


def _waits(visits: Sequence[Visit], policy: Policy) -> Iterator[Violation]:
    """No request before the end of a Retry-After, unless a kill may have made the crawler forget it.

    Then one request is excused; those after it only if it was not refused again, for then the crawler has been told.
    """
    for place, refused in enumerate(visits):
        if refused.retry_after_seconds is None or refused.head_ns is None or refused.status not in _WAIT_STATUSES:
            continue
        until_ns = refused.head_ns + int((refused.retry_after_seconds - policy.tolerance_seconds) * 1e9)
        early = _before(until_ns, islice(visits, place + 1, None))
        excused = next((at for at, visit in enumerate(early) if _forgotten(refused, visit, policy)), len(early))
        told_again = any(visit.status in _WAIT_STATUSES for visit in early[excused : excused + 1])
        for at, visit in enumerate(early):
            left = (until_ns - visit.received_ns) / 1e9
            kind: ViolationKind = "residual" if at == excused or (at > excused and not told_again) else "retry_after"
            yield Violation(kind, visit.host, f"{visit.url} {left:.3f} s before the end of a Retry-After")


def _before(until_ns: int, visits: Iterable[Visit]) -> list[Visit]:
    return list(takewhile(lambda visit: visit.received_ns < until_ns, visits))


def _forgotten(refused: Visit, visit: Visit, policy: Policy) -> bool:
    """Whether the crawler died so soon after these headers that it may not have written them down."""
    assert refused.head_ns is not None
    fresh_ns = int(policy.residual_seconds * 1e9)
    return any(
        refused.received_ns <= kill_ns <= visit.received_ns and kill_ns - refused.head_ns < fresh_ns
        for kill_ns in policy.kills_ns
    )


def _manners(visits: Sequence[Visit], policy: Policy) -> Iterator[Violation]:
    """GET only, with a product token that robots.txt can name; nothing that tells one site about another."""
    identity = re.compile(rf"{re.escape(policy.agent)}/[^\s()]+( \(\+[^()]+\))?")
    for visit in visits:
        asked = visit.asked
        if asked.method != "GET":
            yield Violation("method", visit.host, f"{asked.method} {visit.url}")
        if not identity.fullmatch(asked.user_agent or ""):
            yield Violation("identity", visit.host, f"{visit.url} as {asked.user_agent!r}")
        if asked.referer:
            yield Violation("referer", visit.host, f"{visit.url} with a Referer")
        if asked.cookie:
            yield Violation("cookie", visit.host, f"{visit.url} with a cookie")
