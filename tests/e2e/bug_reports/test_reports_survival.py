"""Reports G22, G24, G25: a full disk, deaths and interrupts, and servers that this crawl has no use for.

The same at scale: tests/e2e/test_full_disk.py, test_kill9.py and test_interrupts.py; each single point between two
durable steps (after the response, after the record): tests/crash/test_crash_points.py.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest

from e2e.bug_reports.shared_inputs import PATIENCE, whole
from e2e.command import limpet
from e2e.processes import CrawlProcess, wait_until
from e2e.raw_site import RawCrawl, RawSites, Site, ok
from e2e.test_full_disk import DISK_BYTES, assert_told, mount
from limpet.testing.web import Pause

MEGABYTE = 1 << 20
ROOM_BYTES = 4 * MEGABYTE
CHANCE = random.Random(22)
PAGES = {f"/{number}": CHANCE.randbytes(MEGABYTE) for number in range(10)}
LARGE = CHANCE.randbytes(12 * MEGABYTE)
KIND = b"Content-Type: application/octet-stream"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "limpet-test", place):
        pytest.skip("mounting a small file system takes the rights of the superuser")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def squeeze(disk: Path) -> Path:
    """A file that leaves `ROOM_BYTES`."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(disk).free - ROOM_BYTES))
    return ballast


@pytest.mark.slow
def test_g22_a_disk_that_fills_up_within_a_record_costs_no_page(small_disk: Path) -> None:
    """Megabytes of noise, and a body larger than all the room there is: exit code 4 with the fix, state readable,
    nothing torn; with space again every body is stored once, as it was sent.
    """
    answers = {target: whole(body, b"HTTP/1.1 200 OK", KIND) for target, body in PAGES.items()}
    answers["/large"] = whole(LARGE, b"HTTP/1.1 200 OK", KIND)
    with RawSites({"noise": Site(answers, list(answers)), "small": Site({"/": ok(b"x")})}) as sites:
        config = "min_free_bytes = 0\n[work]\nhealth_seconds_max = 5.0\n"
        crawl = RawCrawl(small_disk, sites, *PATIENCE, "--limit", "1", config=config)
        assert crawl.result.code == 0, crawl.result
        ballast = squeeze(small_disk)
        full, _ = crawl.run(*PATIENCE)
        assert full.code == 4, full
        assert_told(full, crawl.folder, "full", "free some space")
        assert limpet("status", crawl.folder, "--json").json["urls"]["due"] > 0
        ballast.unlink()
        last, _ = crawl.run(*PATIENCE)
        assert last.code == 0, last
    for target, body in {**PAGES, "/large": LARGE}.items():
        assert crawl.state("noise", target) == ("fetched", "")
        assert crawl.one("noise", target).payload == body
    assert crawl.verify() == []


def test_g22_a_start_without_room_is_refused(tmp_path: Path) -> None:
    """At once, with what to do, and nobody is asked for anything."""
    with RawSites({"one": Site({"/": ok(b"x")})}) as sites:
        crawl = RawCrawl(tmp_path, sites, "--min-free", "9000T")
        assert crawl.result.code == 4, crawl.result
        assert "free" in crawl.result.stderr
        assert sites.heads("one") == []


HOSTS = 5
LATENCY_SECONDS = 0.5
INTERRUPTED = 130


def slow_web() -> dict[str, Site]:
    """A seed with ten links, two to each of five hosts, each answer half a second late."""
    page = (Pause(LATENCY_SECONDS), ok(b"<p>whole</p>"))
    return {f"h{number}": Site({"/a": page, "/b": page}, []) for number in range(HOSTS)}


class Disturbed:
    """Runs of one crawl command that end before their time."""

    def __init__(self, crawl: RawCrawl, leaves: RawSites, path: Path) -> None:
        self._words: list[str | Path] = ["--into", crawl.folder, "--owned", "127.0.0.0/8", "--workers", "3", *PATIENCE]
        self._leaves, self._path = leaves, path

    def asked(self) -> int:
        """Pages asked for so far."""
        return sum(len(self._leaves.asked(f"h{number}")) for number in range(HOSTS))

    def run(self, name: str, more: int, *signals: signal.Signals) -> int:
        """Signal all processes once `more` pages have been asked for; the exit code."""
        wanted = self.asked() + more
        with CrawlProcess(self._words, self._path / f"{name}.log") as run:
            wait_until(lambda: self.asked() >= wanted or run.exit_code is not None, f"{more} requests")
            for number in signals:
                run.send_to_group(number)
                sleep(0.05)
            return run.wait()


@pytest.mark.slow
def test_g24_deaths_and_interrupts_lose_nothing(tmp_path: Path) -> None:
    """Kill -9 with requests open, kill -9 of the restart, Ctrl-C once, Ctrl-C twice; then the command runs to its end:
    all eleven pages have a whole record, and what was asked twice was in flight at a kill.
    """
    with RawSites(slow_web()) as leaves:
        targets = [leaves.url(f"h{number}", page) for number in range(HOSTS) for page in ("/a", "/b")]
        seed = ok("".join(f'<a href="{target}">x</a>' for target in targets).encode())
        with RawSites({"seed": Site({"/": seed}, host="127.0.9.100")}) as start:
            crawl = RawCrawl(tmp_path, start, "--scope", "any", "--depth", "2", "--time-limit", "0s")
            siege = Disturbed(crawl, leaves, tmp_path)
            assert siege.run("killed", 3, signal.SIGKILL) == -signal.SIGKILL
            assert siege.run("killed-at-start", 0, signal.SIGKILL) == -signal.SIGKILL
            assert siege.run("once", 1, signal.SIGINT) == INTERRUPTED
            assert siege.run("twice", 1, signal.SIGINT, signal.SIGINT) in {0, INTERRUPTED}
            last, _ = crawl.run("--workers", "3", *PATIENCE)
        assert last.code == 0, last
        assert last.json["urls"] == {"fetched": 1 + len(targets)}
        in_flight_max = 2 * HOSTS  # at the first kill and at the second Ctrl-C: one request a host
        assert siege.asked() <= len(targets) + in_flight_max
    for target in targets:
        assert {record.payload for record in crawl.archive[target]} == {b"<p>whole</p>"}
    assert crawl.verify() == []


SERVERS = ("redis", "valkey", "confluent_kafka", "kafka", "cassandra", "pika", "psycopg", "hdfs_native")
DENIED = "raise SystemExit('the embedded form has no use for this')\n"


class Listener:
    """A port where a server might be, and whether anybody came."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_server(("127.0.0.1", port))
        self._socket.setblocking(False)

    def close(self) -> bool:
        """Whether anybody came."""
        try:
            self._socket.accept()[0].close()
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            self._socket.close()


def test_g25_one_machine_needs_no_server(tmp_path: Path) -> None:
    """With drivers that break at import, and Redis's port watched, a crawl is what it always is."""
    drivers = tmp_path / "drivers"
    drivers.mkdir()
    for name in SERVERS:
        (drivers / f"{name}.py").write_text(DENIED)
    try:
        watched = Listener(6379)
    except OSError:
        pytest.skip("a server has Redis's port here")
    came = True
    try:
        with RawSites({"one": Site({"/": ok(b'<a href="/b">x</a>'), "/b": ok(b"x")})}) as sites:
            path = [str(drivers), *filter(None, [os.environ.get("PYTHONPATH")])]
            crawl = RawCrawl(tmp_path, sites, *PATIENCE, env={"PYTHONPATH": os.pathsep.join(path)})
    finally:
        came = watched.close()
    assert crawl.result.code == 0, crawl.result
    assert crawl.result.json["urls"] == {"fetched": 2}
    assert not came
