"""Parts `start` and `resume`: from the launch of the command to the first request that the origin sees."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from origin import OriginProcess
from scenarios import known_urls
from scenarios.crawling import OWNED, LimpetProcess, LogTail, bytes_below
from scenarios.figures import Result
from scenarios.procfs import family, monotonic_seconds, usages
from scenarios.speed import MIB, BenchFailed, Say

WAIT_SECONDS_MAX: Final = 300.0
POLL_SECONDS: Final = 0.02
RESUMES_SECONDS_MAX: Final = 120.0
AT_WORK_SECONDS: Final = 3.0  # what a resumed crawl works before it is stopped again


def start(directory: Path, *, rounds: int, hosts: int, seed: int, say: Say) -> Result:
    """New crawls, each in a folder of its own; one more before them that is not counted. Raises `BenchFailed`."""
    log = directory / "origin.jsonl"
    with OriginProcess("bench", log_path=log, seed=seed, hosts=hosts, pages=10) as origin:
        one = _starts(directory, origin.seeds[:1], log, rounds, say)
        many = _starts(directory, origin.seeds, log, rounds, say)
    values = {
        "start_seconds": statistics.median(one),
        "start_seconds_max": max(one),
        "start_many_seconds": statistics.median(many),
    }
    return Result(
        "start", values, {"rounds": rounds, "seeds": len(origin.seeds), "one": _rounded(one), "many": _rounded(many)}
    )


def _starts(directory: Path, seeds: Sequence[str], log: Path, rounds: int, say: Say) -> list[float]:
    entries = directory / "seeds.txt"
    entries.write_text("\n".join(seeds) + "\n")
    found = []
    for number in range(rounds + 1):
        into = directory / f"start-{len(seeds)}-{number}"
        arguments = ["crawl", "-i", str(entries), "--into", str(into), "--owned", OWNED, "-q"]
        with LimpetProcess(arguments, directory / "output.txt") as limpet:
            found.append(first_request_seconds(limpet, LogTail(log)))
            limpet.interrupt()
            limpet.end()
    say(f"{rounds} starts with {len(seeds)} seeds: " + ", ".join(f"{one:.2f}" for one in found[1:]) + " s")
    return found[1:]


def resume(directory: Path, *, rounds: int, hosts: int, urls: int, seed: int, say: Say) -> Result:
    """Resume one large crawl again and again, after clean stops, then after kills. Raises `BenchFailed`."""
    log, into = directory / "origin.jsonl", directory / "known"
    with OriginProcess("bench", log_path=log, seed=seed, hosts=hosts, pages=max(2, urls // hosts)) as origin:
        say(f"writing a crawl of {urls:,} known URLs")
        began = monotonic_seconds()
        robots = origin.web.rules("").robots_text().encode()
        known_urls.build(into, origin.seeds, urls, OWNED, robots)
        say(f"written in {monotonic_seconds() - began:.0f} s")
        state_bytes = bytes_below(into / "shards", into / "seen")
        clean = _resumes(into, log, rounds, say, killed=False)
        killed = _resumes(into, log, rounds, say, killed=True)
    values = {
        "resume_seconds": statistics.median(one.start_seconds for one in clean),
        "resume_seconds_max": max(one.start_seconds for one in clean),
        "resume_killed_seconds": statistics.median(one.start_seconds for one in killed),
        "stop_seconds": statistics.median(one.stop_seconds for one in clean),
        "resume_rss_mib_max": max(one.rss_bytes_max for one in (*clean, *killed)) / MIB,
        "resume_state_bytes_per_url": state_bytes / urls,
    }
    details = {
        "rounds": rounds,
        "hosts": hosts,
        "urls": urls,
        "clean": _rounded([one.start_seconds for one in clean]),
        "killed": _rounded([one.start_seconds for one in killed]),
        "stop": _rounded([one.stop_seconds for one in clean]),
    }
    return Result("resume", values, details)


@dataclass(frozen=True, slots=True)
class _Resumed:
    """One resume: how long until its first request, and until its end once it was told to stop."""

    start_seconds: float
    stop_seconds: float
    rss_bytes_max: int


def _resumes(into: Path, log: Path, rounds: int, say: Say, *, killed: bool) -> list[_Resumed]:
    """So many resumes, or as many as fit into some minutes; one more comes first and leaves what they find."""
    give_up = monotonic_seconds() + RESUMES_SECONDS_MAX
    found: list[_Resumed] = []
    for _ in range(rounds + 1):
        found.append(_resume(into, log, killed=killed))
        if monotonic_seconds() > give_up and len(found) > 1:
            break
    how = "kill -9" if killed else "a clean stop"
    shown = ", ".join(f"{one.start_seconds:.2f}" for one in found[1:])
    say(f"{len(found) - 1} resumes after {how}: {shown} s")
    return found[1:]


def _resume(into: Path, log: Path, *, killed: bool) -> _Resumed:
    with LimpetProcess(["crawl", "--into", str(into), "-q"], into.parent / "output.txt") as limpet:
        start_seconds = first_request_seconds(limpet, LogTail(log))
        time.sleep(AT_WORK_SECONDS)
        rss_bytes_max = max(one.rss_bytes_max for one in usages(family(limpet.pid)).values())
        told = monotonic_seconds()
        if killed:
            limpet.kill()
        else:
            limpet.interrupt()
            limpet.end()
    return _Resumed(start_seconds, monotonic_seconds() - told, rss_bytes_max)


def first_request_seconds(limpet: LimpetProcess, tail: LogTail) -> float:
    """From the launch to the first request, both on the clock that all processes share. Raises `BenchFailed`."""
    give_up = monotonic_seconds() + WAIT_SECONDS_MAX
    while not tail.first_ns:
        if monotonic_seconds() > give_up or not limpet.running():
            raise BenchFailed("the crawl sent no request")
        time.sleep(POLL_SECONDS)
        tail.look()
    return (tail.first_ns - limpet.launched_ns) / 1e9


def _rounded(seconds: Sequence[float]) -> list[float]:
    return [round(one, 3) for one in seconds]
