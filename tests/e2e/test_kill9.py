"""Kill -9 for real: a crawl of thousands of pages by several processes, killed dozens of times, loses nothing.

`LIMPET_EVIDENCE=1 pytest -m slow tests/e2e/test_kill9.py` also writes the figures to loadtest/evidence/kill9.json.
"""

import json
import os
import platform
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from e2e.command import limpet
from e2e.inflight import WitnessLog
from e2e.killing import VICTIMS, Siege, Victim
from e2e.killreport import (
    assert_sound,
    assert_survived,
    crawl_arguments,
    deserved_states,
    figures,
    judged,
    states_by_state,
    table,
)
from e2e.processes import CrawlProcess
from origin import OriginProcess

PAGES = 3000
HOSTS = 12
LATENCY_MS = 150.0
"""So that the crawl outlasts its kills on any machine: 12 hosts give 80 pages a second, 3,000 pages take 38 seconds
of undisturbed work, and 30 kills at work, 0.75 s apart on average, are through after 23 s of it. Longer answers would
be cut off by five kills in a row now and then, and that is what review is for."""
KILLS = 30
SEED = 20261130
STARTS_IN_A_ROW = 4
LIMIT = 100
EVIDENCE = Path(__file__).parents[2] / "loadtest" / "evidence" / "kill9.json"

pytestmark = pytest.mark.slow


def origin_of(path: Path, port: int = 0) -> OriginProcess:
    """The web on which it happens."""
    log = path / "origin.log"
    return OriginProcess("kill", log_path=log, port=port, pages=PAGES, hosts=HOSTS, latency_ms=LATENCY_MS)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, str]]:
    """Port of the web, and URL -> state as a crawl finds them that nobody disturbs."""
    path = tmp_path_factory.mktemp("undisturbed")
    with origin_of(path) as origin:
        result = limpet("crawl", *crawl_arguments(origin, path / "crawl", workers=2), "--json")
    assert result.code == 0, result
    assert result.json["pages"] == PAGES
    return origin.port, states_by_state(path / "crawl")


@pytest.fixture(scope="module")
def evidence() -> Iterator[dict[str, Any]]:
    """Figures by name of the case, written down at the end if that is asked for."""
    found: dict[str, Any] = {}
    yield found
    if os.environ.get("LIMPET_EVIDENCE") and found:
        about = {
            "command": "LIMPET_EVIDENCE=1 python -m pytest -m slow tests/e2e/test_kill9.py",
            "what": "a crawl of a seeded web under kill -9; count = something was in flight; see tests/e2e/killing.py",
            "pages": PAGES,
            "hosts": HOSTS,
            "python": platform.python_version(),
            "cores": len(os.sched_getaffinity(0)),
        }
        EVIDENCE.parent.mkdir(exist_ok=True)
        EVIDENCE.write_text(json.dumps({**about, **found}, indent=2) + "\n")


def kill_many_times(siege: Siege, chance: random.Random) -> CrawlProcess:
    """All kills: at work until enough of them count, and twice a row of deaths at the start and within recovery."""
    rounds = 0
    while len(siege.counted) < KILLS:
        for victim in chance.sample(VICTIMS, len(VICTIMS)):
            siege.strike_at_work(victim, seconds_max=1.5)
        rounds += 1
        if rounds in (3, 7):
            kill_many_starts(siege, chance)
    return siege.run()


def kill_many_starts(siege: Siege, chance: random.Random) -> None:
    """Deaths in a row while the crawl comes up: within its first 300 ms, then while it recovers."""
    both: tuple[Victim, ...] = ("supervisor", "group")
    siege.strike_at_work("group", seconds_max=1.0)
    for _ in range(STARTS_IN_A_ROW):
        siege.strike_at_start(chance.choice(both), seconds_max=0.3)
    for _ in range(STARTS_IN_A_ROW):
        siege.strike_in_recovery(chance.choice(both), seconds_max=0.3)


@pytest.mark.parametrize(("workers", "replicas"), [(2, 1), (3, 2)])
def test_a_crawl_killed_dozens_of_times_ends_as_if_nothing_had_happened(
    workers: int,
    replicas: int,
    tmp_path: Path,
    undisturbed: tuple[int, dict[str, str]],
    evidence: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After at least thirty kills that hit something, of one worker, of the supervisor, of all at once, the crawl has
    exactly the pages of one that nobody disturbed; nothing was asked twice without need, and no host was wronged.
    """
    port, states = undisturbed
    folder, begun_ns = tmp_path / "crawl", monotonic_ns()
    with origin_of(tmp_path, port) as origin:
        witness = WitnessLog(origin.log_path)
        arguments = [*crawl_arguments(origin, folder, workers=workers), "--replicas", str(replicas)]
        siege = Siege(arguments, folder, witness, SEED + workers)
        try:
            last = kill_many_times(siege, random.Random(SEED * workers))
            assert last.wait(300.0) == 0, last.text
        finally:
            siege.close()
    seconds = (monotonic_ns() - begun_ns) / 1e9
    assert_survived(siege, witness)
    verdict = judged(origin, siege.kills)
    name = f"{workers} workers, {replicas} replicas"
    evidence[name] = found = figures(siege, verdict, seconds)
    with capsys.disabled():
        sys.stdout.write(f"\nkill -9 with {name}\n{table(found)}\n")
    assert verdict.violations == []
    assert states_by_state(folder) == deserved_states(origin) == states
    assert_sound(folder)


def test_a_limit_is_kept_under_kills(tmp_path: Path) -> None:
    """Permits that die with a worker come back, pages that recovery adopts are charged: the limit is met exactly."""
    folder = tmp_path / "crawl"
    with OriginProcess("kill", log_path=tmp_path / "origin.log", pages=300, hosts=8, latency_ms=200.0) as origin:
        witness = WitnessLog(origin.log_path)
        arguments = [*crawl_arguments(origin, folder, workers=2), "--limit", str(LIMIT)]
        siege = Siege(arguments, folder, witness, SEED)
        try:
            for victim in VICTIMS:
                siege.strike_at_work(victim, seconds_max=0.3)
            last = siege.run()
            assert last.wait(120.0) == 0, last.text
        finally:
            siege.close()
    assert f"Stopped at the limit of {LIMIT} pages." in last.text
    assert limpet("status", folder, "--json").json["pages"] == LIMIT
    assert_survived(siege, witness)
    assert judged(origin, siege.kills).violations == []
    assert_sound(folder)
