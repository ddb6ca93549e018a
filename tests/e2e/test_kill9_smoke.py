"""The short form of the proof that kill -9 loses nothing; the long one is in test_kill9.py."""

import sys
from pathlib import Path
from time import monotonic_ns

import pytest

from e2e.inflight import WitnessLog
from e2e.killing import Siege, Victim
from e2e.killreport import (
    assert_sound,
    assert_survived,
    crawl_arguments,
    deserved_states,
    figures,
    judged,
    states_of,
    table,
)
from origin import OriginProcess

KILLS = 5
ORDER: tuple[Victim, ...] = ("worker", "supervisor", "group", "worker", "supervisor")


def brisk_web(log: Path) -> OriginProcess:
    """All roles of the kill web; those that take long take less long."""
    return OriginProcess(
        "kill",
        log_path=log,
        pages=240,
        hosts=8,
        latency_ms=80.0,
        slow_ms=80.0,
        crawl_delay_seconds=0.1,
        busy_answers=2,
        retry_after_seconds=1.0,
    )


def test_a_killed_crawl_ends_as_if_nothing_had_happened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five kills that hit something, one during a start: every page in the end, and no host wronged."""
    folder, begun_ns = tmp_path / "crawl", monotonic_ns()
    with brisk_web(tmp_path / "origin.log") as origin:
        witness = WitnessLog(origin.log_path)
        siege = Siege(crawl_arguments(origin, folder, workers=2), folder, witness, seed=1)
        try:
            for victim in ORDER:
                siege.strike_at_work(victim, seconds_max=0.4)
            siege.strike_at_start("supervisor", seconds_max=0.3)
            while len(siege.counted) < KILLS:
                siege.strike_at_work("group", seconds_max=0.2)
            last = siege.run()
            assert last.wait(60.0) == 0, last.text
        finally:
            siege.close()
    assert_survived(siege, witness)
    verdict = judged(origin, siege.kills)
    with capsys.disabled():
        sys.stdout.write(f"\nkill -9\n{table(figures(siege, verdict, (monotonic_ns() - begun_ns) / 1e9))}\n")
    assert verdict.violations == []
    assert states_of(folder) == deserved_states(origin)
    assert_sound(folder)
