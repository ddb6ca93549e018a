"""The state machine of getting robots.txt: what answers mean, how long to wait, when to give up."""

import hashlib
from typing import get_args

import msgspec
import pytest

from limpet.robots import (
    BODY_BYTES_MAX,
    Fetch,
    Follow,
    HttpAnswer,
    License,
    NetworkFailure,
    RetryPolicy,
    RobotsAnswer,
    RobotsCopy,
    RobotsJudge,
    RobotsState,
    Settled,
    Wait,
    advance,
    copy_of,
    digest,
    gives_up,
    next_step,
    usable_copy,
)
from limpet.robots.retrieval import FailureKind

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
T0 = 1_800_000_000 * SECOND
URL = "http://example.com/x"
OPEN = b"User-agent: *\nDisallow:\n"


def _settle(answer: RobotsAnswer, *, hops: int = 0, strict: bool = False) -> Settled:
    step = next_step(hops, answer, strict_401_403=strict)
    assert isinstance(step, Settled)
    return step


def _after(*answers: RobotsAnswer, start_us: int = T0) -> tuple[RobotsState, int]:
    """The state after answers, each asked for at the very instant the last one's wait ended."""
    state, now_us = RobotsState(), start_us
    for answer in answers:
        now_us = max(now_us, state.retry_at_us)
        state = advance(state, _settle(answer), now_us, 0.0)
    return state, now_us


def _until_given_up(answer: RobotsAnswer) -> int:
    """Microseconds of steady failure, retried as planned, until giving up."""
    state, now_us = _after(answer)
    while gives_up(state, now_us) is None:
        now_us = state.retry_at_us
        state = advance(state, _settle(answer), now_us, 0.5)
        assert now_us < T0 + 60 * DAY, "never gave up"
    return now_us - T0


@pytest.mark.parametrize("status", [200, 203, 206, 299])
def test_success_means_rules(status: int) -> None:
    """RFC 9309 section 2.3.1.1: 2xx, the body is what is parsed, capped."""
    body = OPEN + b"#" * BODY_BYTES_MAX
    settled = _settle(HttpAnswer(status, body=body))
    assert (settled.status, settled.body, settled.digest) == ("rules", OPEN, digest(OPEN))
    assert settled.reason == "too_large"
    assert _settle(HttpAnswer(status, body=OPEN)).reason == f"http_{status}"


@pytest.mark.parametrize("body", [b"\xff\xfeU\x00", b"\xfe\xff\x00U", b"User-agent: *\nDisallow: /\x00"])
def test_a_file_nobody_can_read_is_called_unparseable(body: bytes) -> None:
    """UTF-16 and NUL bytes are said to the operator; lines that can be parsed still count."""
    settled = _settle(HttpAnswer(200, body=body))
    assert (settled.status, settled.reason) == ("rules", "unparseable")


@pytest.mark.parametrize("status", [400, 404, 408, 410, 418, 451, 499])
def test_4xx_means_unavailable(status: int) -> None:
    """RFC 9309 section 2.3.1.3: anything may be fetched; the digest is that of a marker."""
    settled = _settle(HttpAnswer(status, body=b"User-agent: *\nDisallow: /\n"))
    marker = hashlib.sha256(b"allow_all:%d" % status).hexdigest()
    assert settled == Settled("allow_all", b"", marker, f"http_{status}")


@pytest.mark.parametrize("status", [401, 403])
def test_denied_access_is_flagged_and_strictly_a_complete_disallow(status: int) -> None:
    """By default 401 and 403 are 4xx like others, with a flag for the log; the strict option forbids everything."""
    lax = _settle(HttpAnswer(status))
    assert (lax.status, lax.access_denied) == ("allow_all", True)
    strict = _settle(HttpAnswer(status), strict=True)
    assert strict.access_denied
    licensed = RobotsJudge().license(advance(RobotsState(), strict, T0, 0.0), "limpet", URL, T0)
    assert licensed == License(allowed=False, digest=strict.digest, rule="Disallow: /")
    assert not _settle(HttpAnswer(404), strict=True).access_denied


@pytest.mark.parametrize("status", [0, 100, 304, 305, 429, 500, 502, 503, 504, 599, 600, 999])
def test_5xx_429_and_the_unknown_are_unreachable(status: int) -> None:
    """RFC 9309 section 2.3.1.4: complete disallow; what no section covers is treated alike."""
    settled = _settle(HttpAnswer(status, body=OPEN))
    assert (settled.status, settled.body, settled.failing) == ("unreachable", b"", "http")
    assert settled.whole_host is (status in (429, 503))


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_five_redirects_are_followed_and_no_more(status: int) -> None:
    """RFC 9309 section 2.3.1.2; the sixth ends in complete disallow."""
    answer = HttpAnswer(status, location=b"//other/\xffr b")
    assert [next_step(hops, answer) for hops in range(5)] == [Follow(b"//other/\xffr b")] * 5
    settled = _settle(answer, hops=5)
    assert (settled.status, settled.reason, settled.failing) == ("unreachable", "too_many_redirects", "http")


@pytest.mark.parametrize("location", [None, b""])
def test_a_redirect_to_nowhere_is_unreachable(location: bytes | None) -> None:
    """Without a Location there is nothing to follow and nothing to obey."""
    settled = _settle(HttpAnswer(302, location=location))
    assert (settled.status, settled.reason) == ("unreachable", "redirect_without_location")


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_network_failure_is_unreachable(kind: FailureKind) -> None:
    """RFC 9309 section 2.3.1.4: no failure opens a site."""
    for hops in (0, 3):
        settled = _settle(NetworkFailure(kind), hops=hops)
        assert (settled.status, settled.reason) == ("unreachable", kind)


def test_which_clock_a_failure_runs_on() -> None:
    """Our own faults and NXDOMAIN run none, unless the site redirected us there."""
    clocks = {kind: _settle(NetworkFailure(kind)).failing for kind in get_args(FailureKind)}
    connection = dict.fromkeys(
        ("dns", "refused", "connect", "tls", "tls_certificate", "timeout", "reset"), "connection"
    )
    assert clocks == {**connection, "protocol": "http", "gate": None, "proxy": None}
    assert _settle(NetworkFailure("dns", nxdomain=True)).failing is None
    assert _settle(NetworkFailure("dns", nxdomain=True), hops=1).failing == "connection"
    assert _settle(NetworkFailure("gate"), hops=1).failing == "http"
    assert _settle(NetworkFailure("proxy"), hops=1).failing is None


def test_waits_double_from_five_minutes_to_a_day() -> None:
    """Back-off of one authority, without jitter."""
    state, waits = RobotsState(), []
    for _ in range(12):
        state = advance(state, _settle(NetworkFailure("timeout")), T0, 0.0)
        waits.append((state.retry_at_us - T0) / MINUTE)
    assert waits[:9] == [5, 10, 20, 40, 80, 160, 320, 640, 1280]
    assert set(waits[9:]) == {waits[-1]}
    assert 21 * 60 < waits[-1] <= 24 * 60


@pytest.mark.parametrize("failures", [0, 3, 20, 10_000])
def test_jitter_spreads_waits_upwards_and_stays_below_a_day(failures: int) -> None:
    """No retry comes before its planned wait, none later than 24 hours, and they do differ."""
    state = RobotsState(failures=failures)
    settled = _settle(HttpAnswer(500))
    waits = [advance(state, settled, T0, jitter).retry_at_us - T0 for jitter in (0.0, 0.5, 0.999_999)]
    assert 5 * MINUTE <= waits[0] < waits[1] < waits[2] <= DAY


def test_retry_after_is_a_least_wait_and_binds_the_host() -> None:
    """429 and 503: at least what Retry-After says, on the whole host; a shorter one does not shorten the back-off."""
    for status in (429, 503):
        settled = _settle(HttpAnswer(status, retry_after_us=2 * HOUR))
        assert settled.host_wait_us == 2 * HOUR
        state = advance(RobotsState(), settled, T0, 0.0)
        assert state.retry_at_us == state.host_until_us == T0 + 2 * HOUR
        state = advance(RobotsState(), _settle(HttpAnswer(status, retry_after_us=SECOND)), T0, 0.0)
        assert state.retry_at_us == state.host_until_us == T0 + 5 * MINUTE
    settled = _settle(HttpAnswer(500, retry_after_us=HOUR))
    state = advance(RobotsState(), settled, T0, 0.0)
    assert (settled.host_wait_us, state.retry_at_us, state.host_until_us) == (0, T0 + HOUR, 0)


@pytest.mark.parametrize(("asked_us", "waited_us"), [(-5, 5 * MINUTE), (10**30, 3_650 * DAY)])
def test_absurd_retry_after_is_cut_to_size(asked_us: int, waited_us: int) -> None:
    """Negative waits are none; endless ones end in ten years, inside 64 bits."""
    state, _ = _after(HttpAnswer(503, retry_after_us=asked_us))
    assert state.retry_at_us == T0 + waited_us


def test_a_usable_answer_clears_all_failures() -> None:
    """One good answer starts from nothing again."""
    state, now_us = _after(HttpAnswer(503), NetworkFailure("tls"), HttpAnswer(404))
    copy = copy_of(_settle(HttpAnswer(404)), now_us)
    assert state == RobotsState(copy=copy, digest=copy.digest, last_attempt_us=now_us, reason="http_404")


def test_the_digest_outlives_the_copy() -> None:
    """Rules that changed while the site was down are seen to have changed, so denied URLs can be re-armed."""
    state, _ = _after(HttpAnswer(200, body=OPEN))
    for day in range(1, 4):
        state = advance(state, _settle(HttpAnswer(500)), T0 + day * DAY, 0.0)
    assert (state.copy, state.digest) == (None, digest(OPEN))


def test_faults_of_ours_do_not_push_a_site_back() -> None:
    """A proxy outage neither doubles the wait nor counts as failure of the site."""
    state, now_us = _after(*[NetworkFailure("proxy")] * 12)
    assert (state.failures, state.first_failure_us, state.failing) == (0, None, None)
    assert state.retry_at_us == now_us + 5 * MINUTE


def test_a_copy_under_a_day_old_serves_while_the_site_fails() -> None:
    """RFC 9309 section 2.4; afterwards nothing is allowed until an answer comes."""
    judge = RobotsJudge()
    state, _ = _after(HttpAnswer(200, body=OPEN))
    state = advance(state, _settle(HttpAnswer(503)), T0 + 23 * HOUR, 0.0)
    last_us = T0 + DAY - 1
    assert judge.license(state, "limpet", URL, last_us) == License(allowed=True, digest=digest(OPEN), rule=None)
    assert judge.license(state, "limpet", URL, T0 + DAY) == Fetch()
    state = advance(state, _settle(HttpAnswer(503)), T0 + DAY, 0.0)
    assert state.copy is None
    assert judge.license(state, "limpet", URL, T0 + DAY) == Wait(T0 + DAY + 10 * MINUTE, "http_503")
    assert judge.license(state, "limpet", URL, T0 + DAY + 10 * MINUTE) == Fetch()


@pytest.mark.parametrize("fetched_us", [T0 + 1, T0 - DAY, T0 - 30 * DAY])
def test_copies_from_the_future_or_too_old_license_nothing(fetched_us: int) -> None:
    """Whatever `expires_us` says: a copy lives 24 hours at most, and a clock that jumped back makes its age unknown."""
    copy = RobotsCopy("rules", OPEN, digest(OPEN), fetched_us, T0 + 365 * DAY, "http_200")
    state = RobotsState(copy=copy)
    assert usable_copy(state, T0) is None
    assert RobotsJudge().license(state, "limpet", URL, T0) == Fetch()
    assert RobotsJudge().rules(state, T0) is None


def test_a_copy_may_expire_before_its_day_is_over() -> None:
    """`expires_us` can shorten the life of a copy."""
    copy = RobotsCopy("rules", OPEN, digest(OPEN), T0, T0 + HOUR, "http_200")
    assert usable_copy(RobotsState(copy=copy), T0 + HOUR - 1) == copy
    assert usable_copy(RobotsState(copy=copy), T0 + HOUR) is None


def test_an_unreachable_copy_never_licenses() -> None:
    """Even stored where only usable copies belong."""
    copy = msgspec.structs.replace(copy_of(_settle(HttpAnswer(500)), T0), expires_us=T0 + DAY)
    assert copy_of(_settle(HttpAnswer(500)), T0).expires_us == T0
    assert copy.digest == hashlib.sha256(b"unreachable:http_500").hexdigest()
    assert RobotsJudge().license(RobotsState(copy=copy), "limpet", URL, T0) == Fetch()


def test_a_fresh_authority_is_fetched_first() -> None:
    """Nothing known: nothing allowed, nothing to wait for."""
    assert RobotsJudge().license(RobotsState(), "limpet", URL, T0) == Fetch()


@pytest.mark.parametrize("kind", ["refused", "timeout", "tls", "connect", "reset", "dns"])
def test_gives_up_after_seven_days_without_a_connection(kind: FailureKind) -> None:
    """And not a day before."""
    assert 7 * DAY <= _until_given_up(NetworkFailure(kind)) < 8 * DAY


@pytest.mark.parametrize(
    "answer", [HttpAnswer(500), HttpAnswer(429), HttpAnswer(503, retry_after_us=3 * DAY), NetworkFailure("protocol")]
)
def test_gives_up_after_thirty_days_of_http_errors(answer: RobotsAnswer) -> None:
    """A long Retry-After that was kept counts as time unreachable."""
    assert 30 * DAY <= _until_given_up(answer) < 34 * DAY


def test_a_name_that_does_not_exist_is_given_up_after_three_tries_over_a_day() -> None:
    """Half a day between them; an answer in between forgets them, and after the third it is tried again in its time."""
    missing = NetworkFailure("dns", nxdomain=True)
    state, now_us = _after(missing, missing)
    assert gives_up(state, now_us) is None
    assert state.retry_at_us - now_us >= DAY // 2
    state, now_us = _after(missing, missing, missing)
    assert now_us - T0 >= DAY
    assert gives_up(state, now_us) == gives_up(state, state.retry_at_us - 1) == "dns_nxdomain"
    assert gives_up(state, state.retry_at_us) is None
    state, now_us = _after(missing, missing, NetworkFailure("dns"), missing)
    assert gives_up(state, now_us) is None
    state, now_us = _after(HttpAnswer(200, body=OPEN), *[missing] * 2)
    assert gives_up(state, now_us) is None


@pytest.mark.parametrize("answer", [NetworkFailure("proxy"), NetworkFailure("gate")])
def test_other_rules_decide_on_our_own_faults(answer: RobotsAnswer) -> None:
    """Sixty days of it, and still None."""
    state, now_us = _after(*[answer] * 2_000, start_us=T0)
    assert gives_up(state, now_us + 60 * DAY) is None


def test_a_server_that_the_gate_refuses_is_given_up_until_the_next_attempt() -> None:
    """Its URLs end as its pages would; a copy from before the refusal still serves, and a redirect is the site's."""
    state, now_us = _after(NetworkFailure("gate"))
    assert gives_up(state, now_us) == gives_up(state, state.retry_at_us - 1) == "refused_by_gate"
    assert gives_up(state, state.retry_at_us) is None
    opened, now_us = _after(HttpAnswer(200, body=OPEN), NetworkFailure("gate"))
    assert gives_up(opened, now_us) is None
    led = next_step(1, NetworkFailure("gate"))
    assert isinstance(led, Settled)
    assert gives_up(advance(RobotsState(), led, T0, 0.5), T0) is None


def test_time_in_which_nobody_looked_does_not_count() -> None:
    """A crawl that stood still for a year has not seen a site fail for a year."""
    state, _ = _after(NetworkFailure("refused"), NetworkFailure("refused"))
    later_us = T0 + 365 * DAY
    assert gives_up(state, later_us) is None
    state = advance(state, _settle(NetworkFailure("refused")), later_us, 0.0)
    assert gives_up(state, later_us) is None


def test_an_http_answer_starts_the_seven_days_again_but_not_the_thirty() -> None:
    """A site that flaps between refusing and failing is given up after thirty days in all."""
    state, now_us = _after(NetworkFailure("refused"))
    turn = 0
    while gives_up(state, now_us) is None:
        turn += 1
        now_us = state.retry_at_us
        answer: RobotsAnswer = HttpAnswer(502) if turn % 5 == 0 else NetworkFailure("refused")
        state = advance(state, _settle(answer), now_us, 0.0)
    assert 30 * DAY <= now_us - T0 < 32 * DAY


def test_giving_up_allows_nothing() -> None:
    """The URLs end as failed; the licence stays refused."""
    state, now_us = _after(*[HttpAnswer(500)] * 60)
    assert gives_up(state, now_us) == "robots_unreachable"
    assert isinstance(RobotsJudge().license(state, "limpet", URL, now_us), Wait)


def test_the_policy_is_a_setting() -> None:
    """Waits and limits can be set; the defaults are those of the tests above."""
    policy = RetryPolicy(first_us=SECOND, us_max=4 * SECOND, connection_give_up_us=10 * SECOND)
    state, now_us = RobotsState(), T0
    for _ in range(6):
        state = advance(state, _settle(NetworkFailure("refused")), now_us, 0.0, policy)
        now_us = state.retry_at_us
    assert now_us - T0 < 6 * 4 * SECOND
    assert gives_up(state, now_us, policy) == "robots_unreachable"
    assert gives_up(state, now_us) is None


def test_state_survives_storage() -> None:
    """What the authority's row holds comes back equal, in both of msgspec's formats."""
    state, _ = _after(HttpAnswer(200, body=b"User-agent: *\nDisallow: /\xff\x00"), NetworkFailure("reset"))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=RobotsState) == state
    assert msgspec.json.decode(msgspec.json.encode(state), type=RobotsState) == state


def test_the_judge_compiles_a_body_once_and_keeps_a_bounded_number() -> None:
    """Least recently used goes first; both the number and the bytes are bounded; an allow-all needs no room."""
    judge = RobotsJudge(rules_max=2, body_bytes_max=1_000)
    states = [_after(HttpAnswer(200, body=b"User-agent: *\nDisallow: /%d\n" % number))[0] for number in range(3)]
    first = judge.rules(states[0], T0)
    assert first is not None
    judge.rules(states[1], T0)
    assert judge.rules(states[0], T0) is first
    judge.rules(states[2], T0)
    assert len(judge) == 2
    assert judge.rules(states[0], T0) is first
    large, _ = _after(HttpAnswer(200, body=OPEN + b"#" * 2_000 + b"\nUser-agent: limpet\nDisallow: /\n"))
    assert judge.license(large, "limpet", URL, T0) == License(
        allowed=False, digest=large.copy.digest if large.copy else "", rule="Disallow: /"
    )
    assert len(judge) == 0
    gone, _ = _after(HttpAnswer(404))
    assert isinstance(judge.license(gone, "limpet", URL, T0), License)
    assert len(judge) == 0


def test_the_digest_of_the_licence_is_that_of_the_stored_copy() -> None:
    """An auditor finds the copy that licensed a URL by this digest."""
    body = b"User-agent: limpet\nDisallow: /x\nAllow: /x/y\n"
    state, _ = _after(HttpAnswer(200, body=body))
    judge = RobotsJudge()
    assert judge.license(state, "limpet", URL, T0) == License(allowed=False, digest=digest(body), rule="Disallow: /x")
    assert judge.license(state, "limpet", URL + "/y", T0) == License(
        allowed=True, digest=digest(body), rule="Allow: /x/y"
    )
