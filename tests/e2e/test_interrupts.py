"""Ctrl-C once, SIGTERM, Ctrl-C twice: what they cost, judged by the site."""

import signal
from pathlib import Path
from time import monotonic_ns

from e2e.inflight import WitnessLog, look
from e2e.killing import INTERRUPTED, SHARDS, Siege
from e2e.killreport import assert_survived, crawl_arguments, deserved_states, judged, states_of
from origin import OriginProcess

DRAIN_SECONDS_MAX = 10.0
AT_ONCE_SECONDS_MAX = 5.0


def assert_ends_in_good_order(siege: Siege, witness: WitnessLog, folder: Path, *, terminal: bool) -> None:
    """The first signal: what is in flight is finished, what was claimed is handed back."""
    run = siege.await_work()
    if terminal:
        run.send_to_group(signal.SIGINT)
    else:
        run.send(signal.SIGTERM)
    assert run.wait(DRAIN_SECONDS_MAX) == INTERRUPTED, run.text
    assert "Interrupted; nothing is lost." in run.text
    assert all(visit.complete for visit in witness.visits())
    seen = look(folder, SHARDS, folder.with_name("siege"))
    assert (seen.tokens, list((folder / "segments").glob("*.open"))) == (set(), [])


def test_interrupts_lose_nothing_and_ask_for_nothing_twice(tmp_path: Path) -> None:
    """SIGINT once and SIGTERM finish what is in flight: exit code 130, no request cut off, none repeated. SIGINT twice
    ends at once and costs no more than a kill. The same command goes on each time, and ends with every page.
    """
    folder = tmp_path / "crawl"
    with OriginProcess("kill", log_path=tmp_path / "origin.log", pages=120, hosts=3, latency_ms=40.0) as origin:
        witness = WitnessLog(origin.log_path)
        siege = Siege(crawl_arguments(origin, folder, workers=2), folder, witness, seed=1)
        try:
            assert_ends_in_good_order(siege, witness, folder, terminal=True)
            assert_ends_in_good_order(siege, witness, folder, terminal=False)
            siege.await_work()
            begun_ns = monotonic_ns()
            siege.strike_at_work("interrupts", seconds_max=0.2)
            assert (monotonic_ns() - begun_ns) / 1e9 < AT_ONCE_SECONDS_MAX
            assert "stopped at once; nothing is lost" in siege.runs[-1].text
            last = siege.run()
            assert last.wait(60.0) == 0, last.text
        finally:
            siege.close()
    assert_survived(siege, witness)
    assert judged(origin, siege.kills).violations == []
    assert states_of(folder) == deserved_states(origin)
