"""`limpet log` and `limpet report` through the real command, while a crawl runs and after it."""

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

from e2e.command import LIMPET, OWNED, assert_complete, expected, limpet, listed, pages, small_web
from e2e.processes import CrawlProcess, wait_until

COLUMNS = 12


class Follower:
    """`limpet log -f` under way, its lines going to a file."""

    def __init__(self, folder: Path, output: Path) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [*LIMPET, "log", str(folder), "-f"], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE
            )

    def lines(self) -> list[str]:
        """Whole lines so far."""
        text = self._output.read_text()
        return text[: text.rfind("\n") + 1].splitlines()

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self._process.send_signal(signal.SIGINT)
        _, stderr = self._process.communicate(timeout=30)
        assert stderr == b""
        return self._process.returncode


def test_a_follower_misses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    """From the middle of a crawl, over a kill -9 of it and its resume, to the end: what it showed is the whole log."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=120) as origin:
        arguments: list[str | Path] = [*origin.seeds, *OWNED, "--delay", "0.05", "--workers", "2", "--into", folder]
        with CrawlProcess(arguments, tmp_path / "log") as crawl:
            wait_until(lambda: pages(folder) > 10, "some pages")
            follower = Follower(folder, tmp_path / "followed")
            wait_until(lambda: len(follower.lines()) > 20, "the follower to show something")
            crawl.kill_group()
            crawl.wait()
        assert limpet("crawl", "--into", folder, "-q").code == 0
        whole = limpet("log", folder)
        assert whole.code == 0
        wanted = whole.stdout.splitlines()
        wait_until(lambda: len(follower.lines()) >= len(wanted), "the follower to show everything")
        assert follower.interrupt() == 130
        assert Counter(follower.lines()) == Counter(wanted)
        assert_complete(folder, origin)
        _check_lines(wanted, expected(origin, "page", "redirect", "gone"), expected(origin, "denied"))
        _check_json(folder, wanted)
    _check_reports(folder)


def _check_lines(lines: list[str], fetched: set[str], denied: set[str]) -> None:
    """By time; each URL is there with its code, and each was reached from a seed."""
    everything = [line.split() for line in lines]
    assert {len(row) for row in everything} == {COLUMNS}
    assert [row[0] for row in everything] == sorted(row[0] for row in everything)
    rows = [row for row in everything if not _is_robots(row)]
    asked = [row for row in everything if _is_robots(row)]
    assert all(row[3].endswith("/robots.txt") and row[5] in {row[3] for row in rows} for row in asked)
    assert {row[3].split("/")[2] for row in rows} == {row[3].split("/")[2] for row in asked}
    assert {row[3] for row in rows if int(row[1]) > 0} == fetched
    assert {row[3] for row in rows if row[1] == "-9998"} == denied
    found_on = {row[3]: row[5] for row in rows}
    seeds = {url for url, via in found_on.items() if via == "-"}
    assert {row[10] for row in rows} <= seeds
    assert all(via in fetched for via in found_on.values() if via != "-")


def _is_robots(row: list[str]) -> bool:
    return row[4].endswith("P")


def _check_json(folder: Path, lines: list[str]) -> None:
    """One object a line, saying the same; records are where it says."""
    objects = [json.loads(line) for line in limpet("log", folder, "--json").stdout.splitlines()]
    assert [(str(one["code"]), one["url"]) for one in objects] == [(row[1], row[3]) for row in map(str.split, lines)]
    record = next(one["record"] for one in objects if one["code"] == 200)
    with (folder / "segments" / record["segment"]).open("rb") as file:
        file.seek(record["offset"])
        assert len(file.read(record["length"])) == record["length"]


def _check_reports(folder: Path) -> None:
    """Sums equal what `status` says, whatever is counted by."""
    status = limpet("status", folder, "--json").json
    found = {by: limpet("report", folder, "--by", by, "--json").json for by in ("host", "status", "mime", "reason")}
    urls = sum(status["urls"].values())
    assert sum(one["urls"] for one in found["host"]) == urls
    assert sum(one["urls"] for one in found["reason"] if "urls" in one) == urls
    states: Counter[str] = Counter()
    for one in found["host"]:
        states.update(one["states"])
    assert dict(states) == status["urls"]
    for by in ("host", "status", "mime"):
        assert sum(one["bytes"] for one in found[by]) == status["bytes"]
    assert len({sum(one["fetches"] for one in found[by]) for by in ("host", "status", "mime")}) == 1
    assert {one["status"] for one in found["status"]} >= {"200", "404"}
    assert [one["urls"] for one in found["host"]] == sorted((one["urls"] for one in found["host"]), reverse=True)
    assert limpet("report", folder, "--by", "host").stdout.startswith("host\tURLs\tfetches\tbytes\n")
    assert sum(one["fetches"] for one in found["status"]) == len(
        [row for row in _rows(folder) if not row[1].startswith("-9998") and not _is_robots(row)]
    )
    assert listed(folder, "leased") == set()


def _rows(folder: Path) -> list[list[str]]:
    return [line.split() for line in limpet("log", folder).stdout.splitlines()]


def test_an_unknown_url_is_told_of_in_json(tmp_path: Path) -> None:
    """`show --json` prints JSON whatever it was asked for; a rule that left the URL out is named."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=10) as origin:
        assert limpet("crawl", *origin.seeds, *OWNED, "--into", folder, "-q").code == 0
        host = origin.seeds[0]
    result = limpet("show", folder, host + "never", "--json")
    assert result.code == 2
    assert result.json == {"url": host + "never", "known": False, "rejected_by": []}
    assert result.stderr == ""
    assert "is not in" in limpet("show", folder, host + "never").complaint
    assert limpet("report", folder).code == 2
    assert "--by" in limpet("report", folder).complaint
    assert "does not exist" in limpet("log", tmp_path / "none").complaint


def test_seeds_of_ones_own_can_be_added_later(tmp_path: Path) -> None:
    """`add --owned` opens the gate for what is added and is remembered; without it a private address is refused."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=30) as origin:
        hosts = [seed.split("/")[2].partition(":")[0] for seed in origin.seeds]
        first = limpet("crawl", origin.seeds[0], "--owned", hosts[0], "--into", folder, "-q")
        assert first.code == 0, first
        assert limpet("add", folder, origin.seeds[1]).code == 2
        added = limpet("add", folder, origin.seeds[1], "--owned", hosts[1], "--json")
        assert (added.code, added.json["new"]) == (0, 1), added
        assert limpet("crawl", "--into", folder, "-q").code == 0
        assert [url for url in listed(folder, "fetched") if f"//{hosts[1]}:" in url]


def test_a_stopped_worker_is_shown(tmp_path: Path) -> None:
    """`status` names a worker that has not been heard of for ten seconds, and none while all is well."""
    folder = tmp_path / "crawl"
    with small_web(tmp_path, pages=400) as origin:
        arguments: list[str | Path] = [*origin.seeds, *OWNED, "--delay", "0.2", "--workers", "2", "--into", folder]
        with CrawlProcess(arguments, tmp_path / "log") as crawl:
            wait_until(lambda: pages(folder) > 5, "some pages")
            assert limpet("status", folder, "--json").json["silent_workers"] == []
            stopped = crawl.workers()[0]
            os.kill(stopped.pid, signal.SIGSTOP)
            wait_until(lambda: limpet("status", folder, "--json").json["silent_workers"] != [], "the silence", 25.0)
            assert "has not been heard of for" in limpet("status", folder).stdout
            os.kill(stopped.pid, signal.SIGCONT)
            wait_until(lambda: limpet("status", folder, "--json").json["silent_workers"] == [], "its return", 15.0)
