"""Part `crawl`: a whole crawl of the `bench` web at full speed, from its first request to its last."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from origin import OriginProcess, Policy, Verdict, examine, read_events, requests_by_url
from scenarios.calibration import gzip_ms
from scenarios.crawling import OWNED, Ended, LimpetProcess, LogTail, Sample, bytes_below
from scenarios.figures import Result
from scenarios.procfs import monotonic_seconds

SAMPLE_SECONDS: Final = 0.5
STEADY_SHARE: Final = (0.1, 0.9)  # of the pages: what lies between counts as the steady part
VIOLATIONS_SHOWN_MAX: Final = 10
MIB: Final = 1 << 20
Say = Callable[[str], None]


class BenchFailed(Exception):
    """The crawl that was to be measured was no whole crawl: its figures would mean nothing."""


@dataclass(frozen=True, slots=True)
class Crawled:
    """A finished crawl of the bench web."""

    pages: int
    ended: Ended
    samples: Sequence[Sample]
    verdict: Verdict
    first_ns: int
    last_ns: int
    wire_bytes: int
    state_bytes: int


def measure(directory: Path, *, hosts: int, pages: int, seed: int, say: Say) -> Result:
    """Crawl `pages` pages of each of `hosts` hosts in an empty `directory`. Raises `BenchFailed`."""
    before_ms = gzip_ms()
    crawled = _crawl(directory, hosts=hosts, pages=pages, seed=seed, say=say)
    calibration_ms = min(before_ms, gzip_ms())
    details: dict[str, Any] = {"hosts": hosts, "pages_per_host": pages, "seed": seed, "pages": crawled.pages}
    details["processes"] = len(crawled.samples[len(crawled.samples) // 2].limpet)
    details["requests_judged"] = crawled.verdict.requests
    details["rss_mib_by_tenth"] = rss_by_tenth(crawled.samples, crawled.pages)
    details["violations"] = [asdict(violation) for violation in crawled.verdict.violations[:VIOLATIONS_SHOWN_MAX]]
    return Result("crawl", _values(crawled, calibration_ms), details)


def _crawl(directory: Path, *, hosts: int, pages: int, seed: int, say: Say) -> Crawled:
    log, into, seeds = directory / "origin.jsonl", directory / "crawl", directory / "seeds.txt"
    with OriginProcess("bench", log_path=log, seed=seed, hosts=hosts, pages=pages) as origin:
        seeds.write_text("\n".join(origin.seeds) + "\n")
        arguments = ["crawl", "-i", str(seeds), "--into", str(into), "--owned", OWNED, "--json"]
        with LimpetProcess(arguments, directory / "summary.json") as limpet:
            samples = _watch(limpet, LogTail(log), origin.pid, hosts * pages, say)
            ended = limpet.end()
    summary = _summary(ended)
    say("judging the origin's log")
    events = read_events(log)
    _check_pages(origin, hosts * pages, summary, requests_by_url(events))
    asked_ns = [event.t_ns for event in events if event.EVENT == "requested"]
    return Crawled(
        pages=hosts * pages,
        ended=ended,
        samples=samples,
        verdict=examine(events, Policy(owned=True)),
        first_ns=min(asked_ns),
        last_ns=max(asked_ns),
        wire_bytes=summary["bytes"],
        state_bytes=bytes_below(into / "shards", into / "seen"),
    )


def _watch(limpet: LimpetProcess, tail: LogTail, origin_pid: int, expected: int, say: Say) -> list[Sample]:
    """Look every half second until the crawl is over."""
    samples: list[Sample] = []
    told = monotonic_seconds()
    while limpet.running():
        samples.append(limpet.sample(tail.look(), origin_pid))
        if samples[-1].at - told >= 10:
            told = samples[-1].at
            say(f"{tail.pages:,} of {expected:,} pages")
        time.sleep(SAMPLE_SECONDS)
    return samples


def _summary(ended: Ended) -> dict[str, Any]:
    if ended.code != 0:
        raise BenchFailed(f"the crawl ended with exit code {ended.code}: {ended.output}")
    found: dict[str, Any] = json.loads(ended.output)
    return found


def _check_pages(origin: OriginProcess, expected: int, summary: dict[str, Any], asked: dict[str, int]) -> None:
    """Every page of the web and what it needs was fetched, each of them once."""
    kinds = origin.web.expected()
    urls = [url for url, kind in kinds.items() if kind in ("page", "requisite")]
    if len([url for url in urls if kinds[url] == "page"]) != expected:
        raise BenchFailed(f"the web does not have {expected} pages")
    if summary["ended"] != "done" or summary["pages"] != len(urls):
        raise BenchFailed(f"the crawl ended as {summary['ended']!r} with {summary['pages']} of {len(urls)} URLs")
    strange = [url for url in urls if asked.get(url) != 1]
    if strange:
        raise BenchFailed(f"{len(strange)} URLs were not asked for exactly once, such as {strange[0]}")


def _values(crawled: Crawled, calibration_ms: float) -> dict[str, float]:
    pages, ended = crawled.pages, crawled.ended
    cpu_ms = (ended.user_seconds + ended.system_seconds) * 1000 / pages
    return {
        "cpu_ms_per_page": cpu_ms,
        "cpu_user_ms_per_page": ended.user_seconds * 1000 / pages,
        "cpu_system_ms_per_page": ended.system_seconds * 1000 / pages,
        "cpu_per_calibration": cpu_ms / calibration_ms,
        **steady_values(crawled.samples, pages, len(os.sched_getaffinity(0))),
        "seconds": (crawled.last_ns - crawled.first_ns) / 1e9,
        **memory_values(crawled.samples, pages),
        "wire_bytes_per_page": crawled.wire_bytes / pages,
        "state_bytes_per_url": crawled.state_bytes / pages,
        "violations": len(crawled.verdict.violations),
    }


def steady_values(samples: Sequence[Sample], pages: int, cores: int) -> dict[str, float]:
    """Rates between the moments when 10 % and 90 % of `pages` had been asked for. Raises `BenchFailed` without any."""
    first, last = (next(one for one in samples if one.pages >= share * pages) for share in STEADY_SHARE)
    seconds, done = last.at - first.at, last.pages - first.pages
    if seconds <= 0 or first.limpet.keys() != last.limpet.keys():
        raise BenchFailed("no steady part: the crawl is too short, or a process of it was replaced")
    capacity = seconds * cores
    limpet = last.limpet_cpu_seconds - first.limpet_cpu_seconds
    origin = last.origin_cpu_seconds - first.origin_cpu_seconds
    others = max(0.0, last.machine_busy_seconds - first.machine_busy_seconds - limpet - origin)
    return {
        "cpu_steady_ms_per_page": limpet * 1000 / done,
        "origin_cpu_ms_per_page": origin * 1000 / done,
        "pages_per_second": done / seconds,
        "cores_busy_share": (limpet + origin) / max(capacity - others, limpet + origin),
        "others_busy_share": others / capacity,
    }


def rss_by_tenth(samples: Sequence[Sample], pages: int) -> list[int]:
    """Resident set in MiB of the largest process after each tenth of the crawl: flat, if all is well."""
    found = []
    for tenth in range(1, 11):
        reached = next((one for one in samples if one.pages >= pages * tenth / 10), samples[-1])
        found.append(round(max((one.rss_bytes for one in reached.limpet.values()), default=0) / MIB))
    return found


def memory_values(samples: Sequence[Sample], pages: int) -> dict[str, float]:
    """The largest resident set, and by how much a process's maximum grew in the second half of the crawl."""
    middle = next(one for one in samples if one.pages >= pages / 2)
    ends: dict[int, int] = {}
    for sample in samples:
        for pid, found in sample.limpet.items():
            ends[pid] = max(ends.get(pid, 0), found.rss_bytes_max)
    growth = [ends[pid] - found.rss_bytes_max for pid, found in middle.limpet.items()]
    return {"rss_mib_max": max(ends.values()) / MIB, "rss_growth_mib_max": max(growth) / MIB}
