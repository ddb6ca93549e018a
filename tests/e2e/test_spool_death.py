"""Death while a large body arrives, and while it waits for the archive: nothing is lost, and nothing is left lying."""

import os
import signal
import time
from pathlib import Path

from e2e.command import Running, limpet
from e2e.raw_site import RawSites, Site, Steps, answer
from limpet.testing.web import Pause

LINKED = b'<!doctype html><title>x</title><a href="/next">next</a>'
BODY = LINKED + b"<p>a line of a long page</p>\n" * 60_000
SECONDS_MAX = 30.0


def slow_once(visit: int) -> Steps:
    """The first time it comes in pieces, with pauses; later at once."""
    whole = answer(b"200 OK", BODY, b"Content-Type: text/html", b"Content-Length: %d" % len(BODY))
    if visit:
        return [whole]
    return [step for at in range(0, len(whole), 200_000) for step in (whole[at : at + 200_000], Pause(0.3))]


def test_a_killed_large_body_is_fetched_again_and_its_file_taken_away(tmp_path: Path) -> None:
    """Kill -9 of all processes in the middle of the body; the next run ends as if nothing had happened."""
    folder = tmp_path / "crawl"
    spool = folder / "run" / "spool"
    site = Site({"/": slow_once, "/next": answer(b"200 OK", b"n", b"Content-Length: 1")})
    with RawSites({"site": site}) as sites:
        words = ("crawl", sites.url("site"), "--into", folder, "--owned", "127.0.0.0/8", "--workers", "1")
        running = Running(*words)
        until = time.monotonic() + SECONDS_MAX  # noqa: TID251 - a test watches real processes
        while not (spool.is_dir() and any(path.stat().st_size for path in spool.iterdir())):
            assert time.monotonic() < until, "no body was ever spooled"  # noqa: TID251 - as above
            time.sleep(0.02)
        os.killpg(running.process.pid, signal.SIGKILL)
        running.end()
        assert list(spool.iterdir()), "the file outlives its process"
        again = limpet(*words, "--patience", "20s", "--json")
        assert again.code == 0, again
        assert again.json["urls"] == {"fetched": 2}
        assert list(spool.iterdir()) == []
        assert sites.asked("site").count("/") == 2
    checked = limpet("verify", folder, "--links", "--json")
    assert checked.json["findings"] == []
