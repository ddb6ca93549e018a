"""Hosts that want hours between two requests: a run ends, says so, and the next one goes on when the time has come."""

from pathlib import Path

import pytest

from e2e.command import limpet
from e2e.raw_site import RawCrawl, RawSites, Site, answer, moved, ok
from limpet.testing.web import Pause

DELAY_SECONDS = 7_200


def sites() -> RawSites:
    """A slow host, one whose robots.txt lies on it, and one that wants more seconds than a date can hold."""
    delayed = answer(b"200 OK", b"User-agent: *\nCrawl-delay: %d\n" % DELAY_SECONDS, b"Content-Type: text/plain")
    slow = Site({"/": ok(b"<a href=/a>x</a>"), "/robots.txt": delayed}, port=18_097)
    late = Pause(1.5)  # so that the slow host has had its say before
    led = Site({"/": ok(b"x"), "/robots.txt": (late, moved(b"http://127.0.9.1:18097/rules"))})
    never = answer(b"200 OK", b"User-agent: *\nCrawl-delay: 1e300\n", b"Content-Type: text/plain")
    return RawSites({"slow": slow, "led": led, "mad": Site({"/": ok(b"<a href=/a>x</a>"), "/robots.txt": never})})


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_long_crawl_delay_ends_a_run_and_is_told(tmp_path: Path, workers: str) -> None:
    """By patience, with exit code 3; `status` and `hosts` say when and why, and a new run ends as soon."""
    with sites() as raw:
        crawl = RawCrawl(tmp_path, raw, "--workers", workers, "--patience", "2s", "--time-limit", "60s")
        assert (crawl.result.code, crawl.result.json["ended"]) == (3, "done"), crawl.result
        assert crawl.waits[f"http://{raw.authority('slow')}"] == "crawl-delay"
        assert crawl.waits[f"http://{raw.authority('led')}"] == "robots_redirect_to_waiting_host"
        assert crawl.waits[f"http://{raw.authority('mad')}"] == "crawl-delay"
        assert "died" not in crawl.log
        status = limpet("status", crawl.folder, "--json").json
        (host,) = [one for one in limpet("hosts", crawl.folder, "--json").json if one["host"] == "127.0.9.1"]
        assert (host["next_reason"], host["slow"]) == ("crawl-delay", True)
        assert "now" not in limpet("status", crawl.folder).stdout.split()
        assert status["next_reason"] in {"crawl-delay", "robots_redirect_to_waiting_host"}
        asked = len(raw.heads("slow"))
        again, _ = crawl.run("--workers", workers, "--patience", "2s", "--time-limit", "60s")
        assert (again.code, again.json["ended"]) == (3, "done")
        assert len(raw.heads("slow")) == asked
        later = [one for one in limpet("hosts", crawl.folder, "--json").json if one["host"] == "127.0.9.1"]
        assert abs(later[0]["next_us"] - host["next_us"]) < 1_000_000, "a start does not begin the delay anew"
        assert crawl.verify() == crawl.audit() == []
