"""The judge finds every planted impoliteness, and none in a polite log."""

from dataclasses import dataclass, field

import pytest

from origin.events import Closed, Event, Opened, Requested, Responded, Started, Stopped
from origin.judge import Policy, Violation, examine, judge
from origin.visits import requests_by_url
from origin.web import HostRules

HOST = "127.0.0.2"
RULES = HostRules(disallowed=("/private/", "/search?"), allowed=("/private/open/",))
OWNED = Policy(owned=True)


@dataclass
class Story:
    """Writes a log in seconds; by default of a polite crawler that has a fresh robots.txt."""

    events: list[Event] = field(default_factory=list)
    licensed: bool = True
    host: str = HOST
    _count: int = 0

    def __post_init__(self) -> None:
        if self.licensed:
            self.fetch(0.0, "/robots.txt")

    def fetch(
        self,
        at: float,
        target: str = "/",
        *,
        took: float = 0.0,
        status: int = 200,
        host: str | None = None,
        port: int = 80,
        method: str = "GET",
        agent: str | None = "limpet/0.1 (+me@example.org)",
        referer: bool = False,
        cookie: bool = False,
        retry_after: float | None = None,
        answer: str = "whole",
        size_bytes: int = 1,
        open_for: float | None = None,
    ) -> None:
        """One request over a connection of its own."""
        self._count += 1
        number, name = self._count, host or self.host
        path, _, query = target.partition("?")
        begin, end = _ns(at), _ns(at + took)
        closed = end if open_for is None else _ns(at + open_for)
        self.events += [
            Opened(begin, 0, number, name, "127.0.0.1:1"),
            Requested(begin, 0, number, number, name, f"{name}:{port}", method, path, query, agent, referer, cookie),
        ]
        if answer != "none":
            whole = answer == "whole"
            self.events += [
                Responded(end, 0, number, number, begin if whole else None, status, size_bytes, retry_after, whole),
                Closed(closed, 0, number, "server"),
            ]

    def kinds(self, policy: Policy, rules: HostRules = RULES) -> list[str]:
        """The kinds of violations found."""
        return [found.kind for found in self.judged(policy, rules)]

    def judged(self, policy: Policy, rules: HostRules = RULES) -> list[Violation]:
        """The violations found."""
        return judge(self.events, policy, lambda _: rules)


def _ns(seconds: float) -> int:
    return 1_000_000_000_000 + int(seconds * 1e9)


def test_a_polite_log_is_clean() -> None:
    """Robots first, gaps kept, allowed targets only: nothing to complain about."""
    story = Story()
    for turn in range(1, 6):
        story.fetch(1.1 * turn, f"/{turn}", took=0.01)
    story.fetch(8.0, "/private/open/door")
    story.fetch(8.0, "/robots.txt", host="127.0.0.3")
    verdict = examine(story.events, Policy(), lambda _: RULES)
    assert (verdict.violations, verdict.residuals, verdict.requests, verdict.hosts) == ([], [], 8, 2)


@pytest.mark.parametrize("target", ["/private/", "/private/x?y", "/%70rivate/x", "/search?q=1", "/private/openly"])
def test_disallowed_paths(target: str) -> None:
    """A request below a disallowed prefix is a violation, escaped or not, unless a longer allowance covers it."""
    story = Story()
    story.fetch(2.0, target)
    assert story.kinds(Policy()) == ["robots"]


@pytest.mark.parametrize("status", [200, 204, 404, 403])
def test_answers_that_license(status: int) -> None:
    """A complete 2xx or 4xx robots.txt licenses its host (RFC 9309, 2.3.1.1 and 2.3.1.3)."""
    story = Story(licensed=False)
    story.fetch(0.0, "/robots.txt", status=status)
    story.fetch(2.0)
    assert story.kinds(Policy()) == []


@pytest.mark.parametrize("status", [500, 503, 429, 301])
def test_answers_that_do_not_license(status: int) -> None:
    """Under 5xx, 429 or an unfollowed redirect everything is disallowed (RFC 9309, 2.3.1.4)."""
    story = Story(licensed=False)
    story.fetch(0.0, "/robots.txt", status=status)
    story.fetch(2.0)
    assert story.kinds(Policy()) == ["robots"]
    assert f"robots.txt last answered {status}" in story.judged(Policy())[0].detail


def test_a_page_before_robots() -> None:
    """A page requested before robots.txt, or while it is under way, or after it was cut off, has no licence."""
    before, meanwhile, cut = Story(licensed=False), Story(licensed=False), Story(licensed=False)
    before.fetch(0.0)
    before.fetch(2.0, "/robots.txt")
    assert before.kinds(Policy()) == ["robots"]
    meanwhile.fetch(0.0, "/robots.txt", took=1.0)
    meanwhile.fetch(0.5)
    assert "robots" in meanwhile.kinds(Policy())
    cut.fetch(0.0, "/robots.txt", answer="cut")
    cut.fetch(2.0)
    assert cut.kinds(Policy()) == ["robots"]


def test_a_huge_robots_txt_may_be_cut_off() -> None:
    """A crawler has to read 500 KiB of it (RFC 9309, 2.5): with that much it has its licence."""
    for size_bytes, kinds in ((500 << 10, ["robots"]), ((500 << 10) + 1, [])):
        story = Story(licensed=False)
        story.fetch(0.0, "/robots.txt", answer="cut", size_bytes=size_bytes)
        story.fetch(2.0)
        assert story.kinds(Policy()) == kinds


def test_a_licence_lasts_a_day() -> None:
    """Within 24 hours a copy serves even if a newer retrieval failed; then it does not."""
    story = Story()
    story.fetch(3600.0, "/robots.txt", status=503)
    story.fetch(86_000.0)
    assert story.kinds(Policy()) == []
    story.fetch(86_402.0)
    assert story.kinds(Policy()) == ["robots"]


def test_a_licence_is_for_one_authority() -> None:
    """The robots.txt of one port does not license another port of the same host."""
    story = Story()
    story.fetch(2.0, port=81)
    assert story.kinds(Policy()) == ["robots"]


def test_only_the_last_robots_hop_licenses() -> None:
    """Hops of a robots retrieval need no licence, and only their last answer gives one, if any does."""
    rules = HostRules(robots_paths=("/robots.txt", "/hop.txt"))
    story = Story(licensed=False)
    story.fetch(0.0, "/robots.txt", status=302)
    story.fetch(2.0, "/hop.txt")
    story.fetch(4.0)
    assert story.kinds(Policy(), rules) == []
    never = HostRules(robots_paths=("/robots.txt", "/hop.txt"), robots_licenses=False)
    assert story.kinds(Policy(), never) == ["robots"]


def test_gaps() -> None:
    """The gap counts from the end of the response, with a small tolerance for timers."""
    story = Story()
    story.fetch(2.0, "/a", took=0.1)
    story.fetch(3.095, "/b", took=0.1)
    assert story.kinds(Policy()) == []
    story.fetch(4.15, "/c")
    assert story.kinds(Policy()) == ["gap"]
    assert story.judged(Policy())[0].detail.endswith("after 0.955 s instead of 1.000 s")
    assert story.kinds(OWNED) == []
    assert story.kinds(Policy(owned=True, floor_seconds=1.0)) == ["gap"]


def test_crawl_delay_binds_owned_hosts_too() -> None:
    """Owning a host takes the floor away and not the crawl-delay."""
    story = Story()
    story.fetch(0.15)
    assert story.kinds(OWNED, HostRules(crawl_delay_seconds=0.2)) == ["gap"]
    assert story.kinds(OWNED, HostRules(crawl_delay_seconds=0.15)) == []


def test_slow_hosts_get_longer_gaps() -> None:
    """The gap is five times the response time, thirty seconds at most; owned hosts are exempt."""
    story = Story()
    story.fetch(5.0, "/a", took=2.0)
    story.fetch(12.0, "/b", took=60.0)
    story.fetch(102.0, "/c")
    assert story.kinds(Policy()) == ["gap"]
    assert story.kinds(OWNED) == []


def test_gap_after_an_answer_cut_by_a_kill() -> None:
    """A host whose answer was cut off by a kill is left alone for the take-over time, if one was promised."""
    story = Story()
    story.fetch(2.0, "/a", took=0.5, answer="cut")
    story.fetch(3.2, "/b")
    assert story.kinds(OWNED) == []
    assert story.kinds(Policy(owned=True, takeover_seconds=1.0, kills_ns=(_ns(2.4),))) == ["gap"]
    assert story.kinds(Policy(owned=True, takeover_seconds=0.7, kills_ns=(_ns(2.4),))) == []
    assert story.kinds(Policy(owned=True, takeover_seconds=1.0, kills_ns=(_ns(9.0),))) == []


def test_requests_at_the_same_time() -> None:
    """A request during another's answer is one too many, by however little, even on one connection."""
    story = Story()
    story.fetch(2.0, "/a", took=0.002)
    story.fetch(2.001, "/b")
    assert story.kinds(OWNED) == ["concurrency"]
    other = Story()
    other.fetch(2.0, "/a", took=1.0)
    other.fetch(2.5, "/robots.txt", host="127.0.0.9")
    assert other.kinds(OWNED) == []


def test_a_request_never_answered_blocks_its_host() -> None:
    """While an answer is under way its host is busy; the end of the origin's run ends it."""
    story = Story()
    story.fetch(2.0, "/a", answer="none")
    story.fetch(99.0, "/b")
    assert story.kinds(OWNED) == ["concurrency", "concurrency"]
    stopped = Story()
    stopped.fetch(2.0, "/a", answer="none")
    stopped.events += [Stopped(_ns(3.0), 0), Started(_ns(4.0), 0, "demo", 7, 80)]
    stopped.fetch(99.0, "/b")
    assert stopped.kinds(OWNED) == []


def test_connections_at_the_same_time() -> None:
    """Two open connections are one too many even when idle; an overlap within the tolerance is forgiven."""
    story = Story()
    story.fetch(2.0, "/a", open_for=5.0)
    story.fetch(4.0, "/b")
    assert story.kinds(OWNED) == ["concurrency"]
    brief = Story()
    brief.fetch(2.0, "/a", open_for=1.005)
    brief.fetch(3.0, "/b", open_for=1.0)
    assert brief.kinds(OWNED) == []


def test_an_idle_connection_counts_for_its_address() -> None:
    """A connection over which nothing was asked counts as one to the address it was made to."""
    story = Story()
    story.fetch(2.0, "/a", open_for=5.0)
    story.events += [Opened(_ns(3.0), 0, 99, HOST, "127.0.0.1:9"), Closed(_ns(3.5), 0, 99, "client")]
    assert story.kinds(OWNED) == ["concurrency"]


@pytest.mark.parametrize("status", [429, 503])
def test_requests_before_the_end_of_a_wait(status: int) -> None:
    """Until Retry-After is over the whole host is left alone, robots.txt included, owned or not."""
    story = Story()
    story.fetch(2.0, "/a", status=status, retry_after=5.0)
    story.fetch(4.0, "/robots.txt")
    story.fetch(6.5, "/b")
    assert story.kinds(OWNED) == ["retry_after", "retry_after"]
    patient = Story()
    patient.fetch(2.0, "/a", status=status, retry_after=5.0)
    patient.fetch(6.995, "/b")
    assert patient.kinds(OWNED) == []


def test_a_wait_that_was_lost_in_a_kill_excuses_one_request() -> None:
    """Headers sent less than the residual time before a kill may be forgotten, until the host says it again."""
    story = Story()
    story.fetch(2.0, "/a", status=503, retry_after=5.0)
    story.fetch(4.0, "/b", status=503)
    story.fetch(5.0, "/c")
    killed = Policy(owned=True, kills_ns=(_ns(2.5),))
    verdict = examine(story.events, killed, lambda _: RULES)
    assert [found.kind for found in verdict.residuals] == ["residual"]
    assert [found.kind for found in verdict.violations] == ["retry_after"]
    assert "/c" in verdict.violations[0].detail


def test_a_forgotten_wait_is_over_when_the_host_answers_well() -> None:
    """The crawler knows nothing but that answer; what it sends next is counted, and is no violation."""
    story = Story()
    story.fetch(2.0, "/a", status=503, retry_after=5.0)
    story.fetch(4.0, "/b")
    story.fetch(5.0, "/c")
    verdict = examine(story.events, Policy(owned=True, kills_ns=(_ns(2.5),)), lambda _: RULES)
    assert [found.detail.split()[0] for found in verdict.residuals] == [f"http://{HOST}:80/b", f"http://{HOST}:80/c"]
    assert verdict.violations == []


@pytest.mark.parametrize("kill_at", [1.5, 3.5, 4.5])
def test_other_kills_excuse_nothing(kill_at: float) -> None:
    """A kill before the refused request, long after its headers, or after the early one is no excuse."""
    story = Story()
    story.fetch(2.0, "/a", status=503, retry_after=5.0)
    story.fetch(4.0, "/b")
    assert story.kinds(Policy(owned=True, kills_ns=(_ns(kill_at),))) == ["retry_after"]


def test_method() -> None:
    """Anything but GET is a violation."""
    story = Story()
    story.fetch(2.0, method="HEAD")
    assert story.kinds(Policy()) == ["method"]


@pytest.mark.parametrize(
    "agent", [None, "", "limpet", "Mozilla/5.0", "limpet/1 (me)", "limpet/1 (+a) (+b)", "xlimpet/1"]
)
def test_identity(agent: str | None) -> None:
    """A missing User-Agent, or one that is not TOKEN/VERSION (+CONTACT), is a violation."""
    story = Story()
    story.fetch(2.0, agent=agent)
    assert story.kinds(Policy()) == ["identity"]


def test_identity_follows_the_promised_token() -> None:
    """A crawler under another token is judged by that token; a contact is not required."""
    story = Story(licensed=False)
    story.fetch(0.0, "/robots.txt", agent="crab/2.1")
    assert story.kinds(Policy(agent="crab")) == []
    assert story.kinds(Policy()) == ["identity"]


def test_referer_and_cookie() -> None:
    """Neither a Referer nor a cookie may be sent."""
    story = Story()
    story.fetch(2.0, referer=True, cookie=True)
    assert story.kinds(Policy()) == ["referer", "cookie"]


def test_requests_are_counted_by_url() -> None:
    """Duplicates show as counts, answered or not."""
    story = Story()
    story.fetch(2.0, "/a?b=c")
    story.fetch(4.0, "/a?b=c", answer="none")
    counts = requests_by_url(story.events)
    assert counts == {f"http://{HOST}:80/robots.txt": 1, f"http://{HOST}:80/a?b=c": 2}


def test_rules_come_from_the_web_that_the_log_names() -> None:
    """Without rules given the log's own start says which web's rules hold; without a start nothing can be judged."""
    story = Story()
    story.fetch(2.0, "/office/rota.html")
    with pytest.raises(LookupError, match="no start of an origin"):
        judge(story.events, Policy())
    story.events.insert(0, Started(_ns(-1.0), 0, "demo", 7, 80))
    assert [found.kind for found in judge(story.events, Policy())] == ["robots"]
