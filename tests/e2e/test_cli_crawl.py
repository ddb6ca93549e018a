"""A crawl from the command line: to its end, to its limits, through interrupts and deaths, and questions about it."""

import os
import pty
import signal
import time
from collections.abc import Callable
from pathlib import Path

from e2e.command import LIMPET, OWNED, Running, assert_complete, expected, limpet, listed, pages, small_web
from origin.events import Opened
from origin.visits import requests_by_url


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until `true()` holds."""
    give_up = time.monotonic() + seconds  # noqa: TID251 - a test waits for another process
    while not true():
        assert time.monotonic() < give_up, "waited in vain"  # noqa: TID251 - see above
        time.sleep(0.02)


def test_a_crawl_runs_to_its_end_and_answers_questions(tmp_path: Path) -> None:
    """Every page of the site is there and nothing else; each verb tells of it; a second run finds nothing to do."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path) as origin:
        begun = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        result = limpet("crawl", *origin.seeds, *OWNED, "--into", folder)
        assert result.code == 0, result
        assert result.stdout.startswith("Done.\n")
        first = min(event.t_ns for event in origin.events() if isinstance(event, Opened))
        assert (first - begun) / 1e9 < 10, "a start takes about a second; this bound only catches needless work"
        assert_complete(folder, origin)
        assert len(listed(folder, "fetched")) >= 60
        _check_status(folder)
        _check_show(folder, origin.seeds[0])
        _check_judges(folder)
        _check_failures(folder, expected(origin, "gone"))
        again = limpet("crawl", "--into", folder, "--json")
        assert again.code == 0, again
        assert (again.json["ended"], again.json["pages_this_run"]) == ("done", 0)
        assert again.stderr == ""


def _check_status(folder: Path) -> None:
    found = limpet("status", folder, "--json").json
    total = sum(found["urls"].values())
    assert found["urls"]["fetched"] + found["urls"]["gone"] + found["urls"]["denied"] == total
    assert found["records"] == total - found["urls"]["denied"]
    assert found["today"]["fetches"] > found["records"], "robots.txt counts too"
    assert found["bytes"] > 10_000
    assert found["running"] is False
    assert "not running" in limpet("status", folder).stdout


def _check_show(folder: Path, url: str) -> None:
    """The record is where `show` says it is, and the licence is named."""
    found = limpet("show", folder, url, "--json").json
    assert (found["state"], found["seed"], len(found["outcomes"])) == ("fetched", True, 1)
    outcome = found["outcomes"][0]
    place = outcome["location"]
    with (folder / "segments" / place["segment"]).open("rb") as segment:
        segment.seek(place["offset"])
        member = segment.read(place["length"])
    assert len(member) == place["length"]
    assert member[:2] == b"\x1f\x8b"
    assert outcome["robots_digest"]
    text = limpet("show", folder, url).stdout
    assert place["segment"] in text
    assert outcome["robots_digest"] in text


def _check_judges(folder: Path) -> None:
    """`verify`, `verify --links` and `audit` looked at everything and found nothing."""
    for words in (["verify", str(folder)], ["verify", str(folder), "--links"], ["audit", str(folder)]):
        result = limpet(*words, "--json")
        assert result.code == 0, result
        assert result.json["ok"] is True
        assert result.json["findings"] == []
        assert sum(result.json["checked"].values()) > 60
    assert limpet("verify", folder, "--links").stdout.endswith(": nothing is lost\n")


def _check_failures(folder: Path, gone: set[str]) -> None:
    result = limpet("failures", folder)
    assert result.code == 1, result
    assert {line.split("\t")[2] for line in result.stdout.splitlines()} == gone
    retried = limpet("failures", folder, "--retry", "--json")
    assert retried.json == {"retried": len(gone)}
    assert listed(folder, "due") == gone
    assert limpet("failures", folder).code == 0


def test_limits_stop_a_run_in_good_order(tmp_path: Path) -> None:
    """`--limit` counts fetched pages exactly, over workers and over runs; limits end with 0 and a line, and go on."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path) as origin:
        result = limpet("crawl", *origin.seeds, *OWNED, "--into", folder, "--limit", "17", "--workers", "2")
        assert result.code == 0, result
        assert result.stdout.startswith("Stopped at the limit of 17 pages.\n")
        assert pages(folder) == 17
        result = limpet("crawl", "--into", folder, "--time-limit", "1s")
        assert result.code == 0, result
        assert result.stdout.startswith("Stopped at the time limit.\n")
        assert listed(folder, "leased") == set()
        result = limpet("crawl", "--into", folder, "-q")
        assert (result.code, result.stdout, result.stderr) == (0, "", "")
        assert_complete(folder, origin)


def test_an_interrupted_crawl_hands_back_and_resumes(tmp_path: Path) -> None:
    """SIGTERM: exit code 130, nothing leased, nothing unsealed; a resume fetches the rest and nothing twice."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=400) as origin:
        running = Running("crawl", *origin.seeds, *OWNED, "--into", folder, "--workers", "2")
        until(lambda: pages(folder) > 5)
        running.interrupt(signal.SIGTERM)
        result = running.end()
        assert result.code == 130, result
        assert result.stdout.startswith("Interrupted; nothing is lost.\n")
        assert listed(folder, "leased") == set()
        assert list((folder / "segments").glob("*.open")) == []
        assert limpet("crawl", "--into", folder, "-q").code == 0
        assert_complete(folder, origin)
    asked = requests_by_url(origin.events())
    twice = [url for url, count in asked.items() if count > 1 and not url.endswith("/robots.txt")]
    assert twice == [], "an interrupt in good order costs no request"


def test_killed_processes_come_back_and_leave_nobody(tmp_path: Path) -> None:
    """Kill -9 of a worker: it is replaced. kill -9 of the supervisor, or a second Ctrl-C: no worker is left.

    The resume after all that ends with every page.
    """
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=400) as origin:
        running = Running("crawl", *origin.seeds, *OWNED, "--into", folder, "--workers", "2", "--delay", "1")
        until(lambda: pages(folder) > 5)
        first = running.workers()
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(running.workers()) == 2 and running.workers() != first)
        second = running.workers()
        running.kill()
        until(lambda: not any(_runs(pid) for pid in second), 5)
        running = Running("crawl", "--into", folder)
        until(lambda: len(running.workers()) > 1)
        third = running.workers()
        until(lambda: pages(folder) > 20)
        running.interrupt()
        running.interrupt()
        result = running.end()
        assert result.code == 130, result
        assert "recovering what it left" in result.stderr
        assert not any(_runs(pid) for pid in third)
        assert limpet("crawl", "--into", folder, "--delay", "0", "-q").code == 0
        assert_complete(folder, origin)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_second_process_is_refused_and_reading_is_not(tmp_path: Path) -> None:
    """While a crawl runs: another crawl, `add` and `--retry` are refused by pid; `status`, `urls` and `show` work."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=600) as origin:
        running = Running("crawl", *origin.seeds, *OWNED, "--into", folder, "--delay", "1")
        until(lambda: pages(folder) > 0)
        for words in (
            ["crawl", "--into", str(folder)],
            ["add", str(folder), origin.seeds[0]],
            ["failures", str(folder), "--retry"],
        ):
            result = limpet(*words)
            assert result.code == 2, result
            assert f"in use by process {running.process.pid}" in result.complaint
        assert limpet("status", folder, "--json").json["running"] is True
        assert listed(folder, "fetched") != set()
        assert limpet("show", folder, origin.seeds[0]).code == 0
        running.interrupt()
        assert running.end().code == 130


def test_a_host_that_waits_longer_than_patience_ends_with_3(tmp_path: Path) -> None:
    """A Retry-After of an hour: told with time and reason, and kept for the next run."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=20, busy=True) as origin:
        result = limpet("crawl", *origin.seeds, *OWNED, "--into", folder, "--patience", "30s", "--json")
        assert result.code == 3, result
        assert [queue["reason"] for queue in result.json["waiting"]] != [""]
        assert result.json["urls"]["due"] >= 1


def test_urls_can_be_added_between_runs(tmp_path: Path) -> None:
    """`add` takes arguments and lists; the next run fetches them. A seed that is not there ends the run with 3."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path) as origin:
        words = (*OWNED, "--into", folder, "--scope", "page")
        assert limpet("crawl", origin.seeds[0], *words).code == 0
        listing = "# more\n" + "\n".join(origin.seeds) + "\n"
        result = limpet("add", folder, "-i", "-", "--json", stdin=listing.encode())
        assert result.json == {"new": 2, "known": 1, "rejected": []}
        assert listed(folder, "due") == set(origin.seeds[1:])
        missing = origin.seeds[0] + "missing/none.html"
        moved = min(expected(origin, "redirect"))
        result = limpet("crawl", missing, moved, "--into", folder)
        assert result.code == 3, result
        assert f"{missing} (gone: http_404)" in result.stdout
        assert "(a seed redirected there, so it is one)" in result.stdout
        found = listed(folder, "fetched")
        assert found > {*origin.seeds, moved}
        assert found <= {*origin.seeds} | expected(origin, "page", "redirect")
        assert len(found) <= len(origin.seeds) + 3, "scope page: the seeds and where they lead"


def test_a_terminal_sees_a_live_line_and_ctrl_c_works(tmp_path: Path) -> None:
    """On a real terminal: the line is redrawn, Ctrl-C drains, the summary follows."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=600) as origin:
        words = [*LIMPET, "crawl", *origin.seeds, *OWNED, "--into", str(folder), "--delay", "1"]
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(words[0], words)  # noqa: S606 - the child becomes the command
        seen = _read_until(terminal, b"fetched 3")
        assert b"\r\x1b[2Kfetched " in seen
        os.write(terminal, b"\x03")
        seen = _read_until(terminal, None)
        assert b"stopping: " in seen
        assert b"Interrupted; nothing is lost." in seen
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
        os.close(terminal)


def _read_until(terminal: int, mark: bytes | None) -> bytes:
    """What the terminal shows until `mark`, or until its end."""
    seen = b""
    while mark is None or mark not in seen:
        try:
            data = os.read(terminal, 65_536)
        except OSError:  # how Linux says that the other side has gone
            return seen
        if not data:
            return seen
        seen += data
    return seen
