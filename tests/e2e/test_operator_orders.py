"""`limpet hosts pause|slow|block|resume` on crawls that run, judged by the log of the site that is crawled."""

import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from e2e.command import OWNED, Result, Running, assert_complete, limpet, listed, pages, small_web
from e2e.processes import CrawlProcess, wait_until
from origin.process import OriginProcess
from origin.visits import Visit, visits_of

OBEYED_SECONDS = 3.0
"""An order is in force by then: a running crawl looks for orders every two seconds."""
PACE = ("--delay", "0.1", "--workers", "2")


def host_of(origin: OriginProcess, number: int) -> str:
    """The number-th host of the web."""
    return origin.seeds[number].split("/")[2].partition(":")[0]


def visits(origin: OriginProcess, host: str) -> list[Visit]:
    """What one host has been asked so far."""
    return [visit for visit in visits_of(origin.events()) if visit.host == host]


def order(folder: Path, *words: str) -> Result:
    """One order, which must be taken."""
    result = limpet("hosts", folder, *words)
    assert result.code == 0, result
    return result


def now_ns() -> int:
    """The clock that the site's log goes by."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def since(origin: OriginProcess, host: str, begun_ns: int) -> list[Visit]:
    """What one host was asked since then."""
    return [visit for visit in visits(origin, host) if visit.received_ns >= begun_ns]


def test_a_paused_host_is_asked_nothing_until_it_goes_on(tmp_path: Path) -> None:
    """The others go on, its URLs wait with the reason; after resume the crawl is whole and no rule was broken."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=110) as origin:
        host, other = host_of(origin, 0), host_of(origin, 1)
        with CrawlProcess([*origin.seeds, *OWNED, *PACE, "--into", folder], tmp_path / "log") as crawl:
            wait_until(lambda: pages(folder) > 5, "some pages")
            assert "in force within seconds" in order(folder, "pause", host).stdout
            time.sleep(OBEYED_SECONDS)
            quiet_ns = now_ns()
            wait_until(lambda: len(since(origin, other, quiet_ns)) > 5, "the others to go on", 20.0)
            assert since(origin, host, quiet_ns) == []
            found = limpet("hosts", folder, host, "--json").json
            assert (found["order"], found["next_us"], found["next_reason"]) == (
                "operator_pause",
                None,
                "operator_pause",
            )
            assert found["queued"] > 0
            shown = limpet("show", folder, min(url for url in listed(folder, "due") if f"//{host}:" in url))
            assert "paused by the operator" in shown.stdout
            assert crawl.exit_code is None
            order(folder, "resume", host)
            wait_until(lambda: since(origin, host, quiet_ns) != [], "the host to be asked again", 10.0)
            assert crawl.wait() == 0
        assert_complete(folder, origin)
    assert limpet("audit", folder).code == 0


def test_a_pause_keeps_no_crawl_from_ending(tmp_path: Path) -> None:
    """Beyond patience the run ends with 3 and says who waits and how to go on; the next run goes on after resume."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=110) as origin:
        host = host_of(origin, 0)
        with CrawlProcess(
            [*origin.seeds, *OWNED, *PACE, "--into", folder, "--patience", "3s"], tmp_path / "log"
        ) as crawl:
            wait_until(lambda: pages(folder) > 2, "some pages")
            order(folder, "pause", host)
            assert crawl.wait() == 3
            assert "paused by the operator" in crawl.text
            assert f"limpet hosts {folder} resume {host}" in crawl.text
        again = limpet("crawl", "--into", folder, "--patience", "1s", "--json")
        assert again.code == 3
        waiting = again.json["waiting"]
        assert {(one["until_us"], one["reason"]) for one in waiting} == {(None, "operator_pause")}
        assert again.json["pages_this_run"] == 0
        assert "in force when the crawl starts again" in order(folder, "resume", host).stdout
        assert limpet("crawl", "--into", folder, "-q").code == 0


def test_a_slowed_host_keeps_the_gap(tmp_path: Path) -> None:
    """From the order on at least so long from the end of one answer to the next request, and never less than before."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=110) as origin:
        host = host_of(origin, 0)
        running = Running("crawl", *origin.seeds, *OWNED, *PACE, "--into", folder)
        wait_until(lambda: pages(folder) > 5, "some pages")
        order(folder, "slow", host, "--gap", "1.5")
        time.sleep(OBEYED_SECONDS)
        begun_ns = now_ns()
        assert limpet("hosts", folder, host, "--json").json["gap_reason"] == "operator"
        wait_until(lambda: len(since(origin, host, begun_ns)) >= 4, "a few slow requests", 20.0)
        running.interrupt()
        assert running.end().code == 130
        slow = since(origin, host, begun_ns)
    gaps = [(after.received_ns - before.end_ns) / 1e9 for before, after in pairwise(slow)]
    assert min(gaps) >= 1.5


def test_a_blocked_host_is_cancelled_and_comes_back(tmp_path: Path) -> None:
    """Its rows are cancelled(operator), nothing is sent, new links to it too; resume makes the crawl whole."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=110) as origin:
        host = host_of(origin, 1)
        with CrawlProcess([*origin.seeds, *OWNED, *PACE, "--into", folder], tmp_path / "log") as crawl:
            wait_until(lambda: pages(folder) > 5, "some pages")
            order(folder, "block", host)
            time.sleep(OBEYED_SECONDS)
            quiet_ns = now_ns()
            assert crawl.wait() == 0
            assert since(origin, host, quiet_ns) == []
        cancelled = listed(folder, "cancelled")
        assert cancelled
        assert {url.split("/")[2].partition(":")[0] for url in cancelled} == {host}
        assert not [url for state in ("due", "leased") for url in listed(folder, state)]
        rows = [row for row in limpet("urls", folder, "--json").json if row["state"] == "cancelled"]
        assert {row["reason"] for row in rows} == {"operator"}
        assert limpet("verify", folder, "--links").code == 0
        order(folder, "resume", host)
        assert limpet("crawl", "--into", folder, "-q").code == 0
        assert listed(folder, "cancelled") == set()
        assert_complete(folder, origin)


def test_a_part_of_a_host_is_blocked_and_comes_back(tmp_path: Path) -> None:
    """URLs that begin so are cancelled and not sent, the rest of the host is fetched; resume makes the crawl whole."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=110) as origin:
        host = host_of(origin, 1)
        with CrawlProcess([*origin.seeds, *OWNED, *PACE, "--into", folder], tmp_path / "log") as crawl:
            wait_until(lambda: pages(folder) > 5, "some pages")
            start = origin.seeds[1].rstrip("/") + "/page/1"
            assert f"{host}/page/1 blocked: URLs that begin so are cancelled" in order(folder, "block", start).stdout
            time.sleep(OBEYED_SECONDS)
            quiet_ns = now_ns()
            assert crawl.wait() == 0
            asked = [visit.asked.path for visit in since(origin, host, quiet_ns)]
        assert [target for target in asked if target.startswith("/page/1")] == []
        rest = {url for url in listed(folder, "fetched") if f"//{host}:" in url and not url.startswith(start)}
        assert len(rest) > 5
        cancelled = listed(folder, "cancelled")
        assert cancelled
        assert all(url.startswith(start) for url in cancelled)
        assert not [url for state in ("due", "leased") for url in listed(folder, state)]
        assert limpet("hosts", folder, host, "--json").json["blocked_paths"] == ["/page/1"]
        assert limpet("status", folder, "--json").json["hosts_ordered"] == {host: "operator_block_urls"}
        assert limpet("verify", folder, "--links").code == 0
        assert "nothing was ordered" in order(folder, "resume", f"{host}/page").stdout
        order(folder, "resume", start)
        assert limpet("crawl", "--into", folder, "-q").code == 0
        assert listed(folder, "cancelled") == set()
        assert_complete(folder, origin)


@pytest.mark.parametrize("verb", [pytest.param("pause", marks=pytest.mark.slow), "block"])
def test_an_order_outlives_a_death_before_its_effect(tmp_path: Path, verb: str) -> None:
    """Everything is killed between the acknowledged order and its effect: the next run obeys from its first request."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=110) as origin:
        host = host_of(origin, 0)
        with CrawlProcess([*origin.seeds, *OWNED, *PACE, "--into", folder], tmp_path / "log") as crawl:
            wait_until(lambda: pages(folder) > 5, "some pages")
            crawl.send_to_group(signal.SIGSTOP)  # nobody can obey
            order(folder, verb, host)
            crawl.kill_group()
            crawl.wait()
        killed_ns = now_ns()
        time.sleep(0.3)
        result = limpet("crawl", "--into", folder, "--patience", "1s", "--json")
        assert result.code == (3 if verb == "pause" else 0), result
        assert since(origin, host, killed_ns) == []
        assert result.json["urls"].get("cancelled", 0) == (len(listed(folder, "cancelled")))
        assert bool(listed(folder, "cancelled")) is (verb == "block")
        order(folder, "resume", host)
        assert limpet("crawl", "--into", folder, "-q").code == 0
        assert since(origin, host, killed_ns)
        assert limpet("verify", folder, "--links").code == 0


def test_a_host_may_be_blocked_before_it_is_met(tmp_path: Path) -> None:
    """While no crawl runs: `hosts` and `status` show it, its URLs are born cancelled, nothing is sent; resume frees."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path) as origin:
        host, other = host_of(origin, 2), origin.seeds[0]
        assert limpet("crawl", other, *OWNED, "--limit", "1", "--scope", "any", "--into", folder, "-q").code == 0
        stranger = "blocked.example"
        told = order(folder, "block", stranger).stdout
        assert "in force when the crawl starts again; the crawl has not met it yet" in told
        assert order(folder, "block", host, "--json").json["order"] == "block"
        found = {one["host"]: one for one in limpet("hosts", folder, "--json").json}
        assert (found[stranger]["order"], found[stranger]["urls"]) == ("operator_block", 0)
        assert limpet("hosts", folder, stranger, "--json").json["next_reason"] == "operator_block"
        assert set(limpet("status", folder, "--json").json["hosts_ordered"]) == {stranger, host}
        begun_ns = now_ns()
        blocked = limpet("crawl", "--into", folder, *PACE, "--limit", "1,000", "--json")
        assert blocked.code == 0, blocked
        assert since(origin, host, begun_ns) == []
        taken = listed(folder, "cancelled")
        assert taken
        assert all(f"//{host}:" in url for url in taken)
        order(folder, "resume", host)
        freed = limpet("crawl", "--into", folder, *PACE, "--limit", "1,000", "--json")
        assert freed.code == 0, freed
        assert since(origin, host, begun_ns)
        assert not listed(folder, "cancelled")
        order(folder, "resume", stranger)
        assert stranger not in {one["host"] for one in limpet("hosts", folder, "--json").json}


def test_what_cannot_be_ordered_is_said_in_one_line(tmp_path: Path) -> None:
    """No such crawl, unknown hosts, half an order, a damaged file: exit code 2, and nothing is changed."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=10) as origin:
        host = host_of(origin, 0)
        assert limpet("crawl", *origin.seeds, *OWNED, "--into", folder, "-q").code == 0
    for words, complaint in (
        (["pause"], "name one host"),
        (["pause", "not a host"], "is no host name"),
        (["hurry", host], "is no order"),
        (["pause", host, "--gap", "3"], "--gap goes with slow"),
        (["slow", host, "--gap", "soon"], "is not a duration"),
        (["slow", host, "--gap", "0"], "--gap must be above 0"),
        (["slow", host, "--gap", "0.0s"], "--gap must be above 0"),
        (["pause", f"http://{host}/"], f"is no host name: write it as {host}"),
        (["pause", f"{host}/page"], f"is no host name: write it as {host}"),
        ([f"http://{host}:81/"], f"is no host name: write it as {host}"),
        (["pause", "http:///"], "is no host name: write it as example.org"),
        ([host, "--gap", "3"], "--gap goes with slow"),
        (["never.example"], "is not a host of"),
    ):
        result = limpet("hosts", folder, *words)
        assert result.code == 2, result
        assert complaint in result.complaint
    assert "does not exist" in limpet("hosts", tmp_path / "none", "pause", host).complaint
    assert not (folder / "hosts.json").exists()
    assert "nothing was ordered" in order(folder, "resume", host).stdout
    assert order(folder, "slow", host, "--gap", "90s", "--json").json["gap_seconds"] == 90.0
    (folder / "hosts.json").write_bytes(b'{"version":1,"ho')
    commands: list[list[str | Path]] = [
        ["hosts", folder],
        ["hosts", folder, "resume", host],
        ["crawl", "--into", folder],
        ["status", folder],
    ]
    for command in commands:
        result = limpet(*command)
        assert result.code == 2, result
        assert "hosts.json is damaged" in result.complaint


def test_hosts_says_why_each_host_waits(tmp_path: Path) -> None:
    """While the crawl runs and after it: the gap in force and why, a Retry-After with its end, what is queued."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=60, busy=True) as origin:
        arguments: list[str | Path] = [*origin.seeds, *OWNED, "--delay", "0.3", "--into", folder, "--patience", "1s"]
        with CrawlProcess(arguments, tmp_path / "log") as crawl:
            wait_until(lambda: pages(folder) > 5, "some pages")
            running = limpet("hosts", folder, "--json").json
            assert crawl.wait() == 3
    assert {host["gap_reason"] for host in running} == {"delay"}
    assert {host["gap_seconds"] for host in running} == {0.3}
    waiting = [host for host in running if host["next_reason"] not in {"", "http_503"}]
    assert {host["next_reason"] for host in waiting} <= {"rest of the gap", "start wait"}
    after = limpet("hosts", folder, "--json").json
    assert {host["host"] for host in after} == {visit.host for visit in visits_of(origin.events())}
    held = [host for host in after if host["next_reason"]]
    assert [host["next_reason"] for host in held] == ["http_503"]
    left_seconds = held[0]["next_us"] / 1e6 - time.time()  # noqa: TID251 - against the wall clock of another process
    assert 0 < left_seconds <= 3_600
    assert sum(host["queued"] for host in after) == len(listed(folder, "due"))
    text = limpet("hosts", folder).stdout.splitlines()
    assert len(text) == 1 + len(after)
    assert "http_503" in limpet("hosts", folder, held[0]["host"]).stdout
