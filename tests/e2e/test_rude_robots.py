"""What each answer to robots.txt means, through the command line: nothing is ever asked without a licence."""

import pytest

from e2e.command import limpet
from e2e.rudecrawl import RudeCrawl, show
from limpet.robots import ODDITIES, Oddity

SECOND_US = 1_000_000
MINUTES_5_US = 300_000_000
SLACK_US = 30_000_000  # a run lasts that long at most
UNREACHABLE = {
    "robots-500": "robots_http_500",
    "robots-timeout": "robots_timeout",
    "robots-429": "robots_http_429",
    "robots-chain-6": "robots_too_many_redirects",
}
OPEN = ("robots-404", "robots-403", "robots-html", "robots-chain-5", "robots-2mb")


def authority(rude: RudeCrawl, habit: str) -> str:
    return rude.url(habit).rstrip("/")


@pytest.mark.parametrize("habit", UNREACHABLE)
def test_an_unreachable_robots_txt_stops_everything_and_is_waited_for(rude: RudeCrawl, habit: str) -> None:
    """5xx, 429, no answer, six redirects: no page is asked for, the URL stays due, at no cost of its own."""
    assert rude.asked(habit) == 0
    shown = rude.show(habit)
    assert (shown["state"], shown["failures"], shown["outcomes"]) == ("due", 0, [])
    wait = rude.waits(rude.result)[authority(rude, habit)]
    assert wait["reason"] == UNREACHABLE[habit]
    ended_us = max(entry["until_us"] for entry in rude.result.json["waiting"]) - MINUTES_5_US
    assert wait["until_us"] > ended_us - SLACK_US


def test_a_refused_connection_stops_everything_too(rude: RudeCrawl) -> None:
    """A port where nobody listens has no robots.txt that could allow anything."""
    assert show(rude.folder, rude.refusing + "/")["state"] == "due"
    assert rude.waits(rude.result)[rude.refusing]["reason"] == "robots_refused"


def test_waits_are_all_that_is_left_and_are_told(rude: RudeCrawl) -> None:
    """Exit code 3; each wait is listed with its reason, and nobody else waits."""
    assert rude.result.code == 3
    expected = {authority(rude, habit) for habit in UNREACHABLE} | {rude.refusing}
    assert set(rude.waits(rude.result)) == expected
    assert rude.result.json["urls"]["due"] == len(expected)


def test_waits_outlive_the_run(rude: RudeCrawl) -> None:
    """The same command again asks nobody for anything, and ends the same way."""
    assert rude.again.code == 3
    before, after = rude.waits(rude.result), rude.waits(rude.again)
    assert {name: wait["reason"] for name, wait in after.items()} == {n: wait["reason"] for n, wait in before.items()}
    for name, wait in after.items():
        assert wait["until_us"] == pytest.approx(before[name]["until_us"], abs=SECOND_US)
    assert rude.requests_again.total() == 0


@pytest.mark.parametrize("habit", OPEN)
def test_a_robots_txt_that_allows_is_asked_once(rude: RudeCrawl, habit: str) -> None:
    """4xx and a page of HTML open the site (RFC 9309, 2.3.1.3); rules count where they were found."""
    assert rude.asked(habit, "/robots.txt") == 1
    assert rude.asked(habit) == 1
    outcomes = rude.show(habit)["outcomes"]
    assert [outcome["status"] for outcome in outcomes if "status" in outcome] == [200]
    assert outcomes[0]["robots_digest"]


@pytest.mark.parametrize("habit", UNREACHABLE)
def test_an_unreachable_robots_txt_is_asked_once_a_wait(rude: RudeCrawl, habit: str) -> None:
    """A host in trouble is not hammered for its robots.txt."""
    assert rude.asked(habit, "/robots.txt") == 1


@pytest.mark.parametrize(("habit", "oddity"), [("robots-html", "html"), ("robots-2mb", "too_large")])
def test_a_robots_txt_that_is_none_is_shown_where_the_operator_looks(
    rude: RudeCrawl, habit: str, oddity: Oddity
) -> None:
    """In the list of hosts, of a URL, and among the sums; the crawl goes by what lines there are."""
    assert rude.show(habit)["robots_oddity"] == oddity
    host = authority(rude, habit).partition("://")[2].partition(":")[0]
    listed = {one["host"]: one["robots_oddities"] for one in limpet("hosts", rude.folder, "--json").json}
    assert listed[host] == [oddity]
    assert f"robots_{oddity}" in limpet("hosts", rude.folder).stdout
    assert ODDITIES[oddity] in limpet("hosts", rude.folder, host).stdout
    assert ODDITIES[oddity] in limpet("show", rude.folder, rude.url(habit)).stdout
    sums = {
        one["reason"]: one.get("servers", 0) for one in limpet("report", rude.folder, "--by", "reason", "--json").json
    }
    assert sums[f"robots.txt {oddity}"] == 1
    assert f"robots.txt {oddity}\t1 server\t" in limpet("report", rude.folder, "--by", "reason").stdout


def test_five_redirects_are_followed_and_no_sixth(rude: RudeCrawl) -> None:
    """RFC 9309, 2.3.1.2: rules at the end of five hops count; a longer chain is no robots.txt at all."""
    hops = [f"/robots-{hop}.txt" for hop in range(1, 7)]
    assert [rude.asked("robots-chain-5", hop) for hop in hops] == [1, 1, 1, 1, 1, 0]
    assert [rude.asked("robots-chain-6", hop) for hop in hops] == [1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize("habit", ["robots-chain-5", "robots-2mb"])
def test_what_robots_txt_disallows_is_never_asked_for(rude: RudeCrawl, habit: str) -> None:
    """Rules behind redirects and rules at the head of a huge file are rules."""
    shown = rude.show(habit, "/private/")
    assert (shown["state"], shown["reason"]) == ("denied", "Disallow: /private/")
    assert rude.asked(habit, "/private/") == 0


def test_every_answer_to_robots_txt_is_archived(rude: RudeCrawl) -> None:
    """Whatever its status, hops included; a huge file as far as it is read."""
    status = {"robots-500": "500", "robots-429": "429", "robots-404": "404", "robots-403": "403", "robots-html": "200"}
    for habit, code in status.items():
        assert [record.status for record in rude.archived(habit, "/robots.txt")] == [code], habit
    assert [record.status for record in rude.archived("robots-chain-5", "/robots-4.txt")] == ["302"]
    (huge,) = rude.archived("robots-2mb", "/robots.txt")
    assert huge.truncated == "length"
    assert 500 << 10 <= len(huge.payload) < 2 << 20
