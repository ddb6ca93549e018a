"""What the benchmark makes of what it saw."""

from pathlib import Path

import pytest

from scenarios.crawling import LogTail, Sample
from scenarios.figures import DEFINITIONS, PARTS, Definition, Result, lines, number
from scenarios.procfs import Usage
from scenarios.speed import MIB, BenchFailed, memory_values, steady_values


def look(at: float, pages: int, cpu: dict[int, float], *, origin: float = 0.0, machine: float = 0.0) -> Sample:
    """A sample in which every process has the same memory."""
    limpet = {pid: Usage(seconds, 50 * MIB, 50 * MIB) for pid, seconds in cpu.items()}
    return Sample(at, pages, limpet, origin, machine)


def weigh(pages: int, rss_mib_max: dict[int, int]) -> Sample:
    """A sample of memory alone."""
    return Sample(0.0, pages, {pid: Usage(0.0, mib * MIB, mib * MIB) for pid, mib in rss_mib_max.items()}, 0.0, 0.0)


def test_the_steady_part_lies_between_a_tenth_and_nine_tenths_of_the_pages() -> None:
    """Start and end of a crawl count neither as pages nor as CPU nor as time of the steady part."""
    samples = [
        look(0.0, 0, {1: 5.0}),
        look(10.0, 100, {1: 6.0}, origin=1.0, machine=100.0),
        look(20.0, 900, {1: 8.0}, origin=1.5, machine=104.0),
        look(30.0, 1000, {1: 99.0}),
    ]
    values = steady_values(samples, 1000, cores=1)
    assert values["pages_per_second"] == pytest.approx(80.0)
    assert values["cpu_steady_ms_per_page"] == pytest.approx(2.5)
    assert values["origin_cpu_ms_per_page"] == pytest.approx(0.625)


def test_what_others_use_is_not_held_against_the_crawl() -> None:
    """Cores are kept busy when nothing is idle that others leave; what others use is told beside it."""
    samples = [look(0.0, 100, {1: 0.0}), look(10.0, 900, {1: 2.0}, origin=0.5, machine=4.0)]
    values = steady_values(samples, 1000, cores=1)
    assert values["others_busy_share"] == pytest.approx(0.15)
    assert values["cores_busy_share"] == pytest.approx(2.5 / 8.5)


@pytest.mark.parametrize("last", [look(0.0, 950, {1: 1.0}), look(9.0, 950, {2: 1.0})])
def test_a_crawl_without_a_steady_part_gives_no_figures(last: Sample) -> None:
    """Neither a crawl over within one look nor one whose worker was replaced has rates that mean anything."""
    with pytest.raises(BenchFailed, match="no steady part"):
        steady_values([look(0.0, 100, {1: 0.0}), last], 1000, cores=2)


def test_memory_is_the_largest_of_all_processes_and_the_worst_growth_since_the_middle() -> None:
    """The peak of one process and the growth of another are both reported."""
    samples = [weigh(0, {1: 10, 2: 10}), weigh(500, {1: 90, 2: 40}), weigh(900, {1: 91, 2: 55}), weigh(1000, {1: 91})]
    assert memory_values(samples, 1000) == {"rss_mib_max": 91.0, "rss_growth_mib_max": 15.0}


def test_requests_are_counted_from_a_log_that_grows_in_the_middle_of_lines(tmp_path: Path) -> None:
    """A line counts once, when it is whole; robots.txt is a request and no page; the first request's time is kept."""
    log = tmp_path / "log"
    log.write_bytes(b'{"event":"requested","t_ns":1,"path":"/"}\n')
    tail = LogTail(log)
    with log.open("ab", buffering=0) as stream:
        stream.write(b'{"event":"opened","t_ns":5}\n{"event":"requested","t_ns":77,"path":"/robo')
        assert (tail.look(), tail.requests, tail.first_ns) == (0, 0, 0)
        stream.write(b'ts.txt"}\n{"event":"requested","t_ns":78,"path":"/"}\n{"event":"req')
        assert (tail.look(), tail.requests, tail.first_ns) == (1, 2, 77)
        stream.write(b'uested","t_ns":79,"path":"/b"}\n')
        assert (tail.look(), tail.requests, tail.first_ns) == (2, 3, 77)


def test_targets_are_bounds_that_the_value_itself_may_reach() -> None:
    """A figure without a target always holds."""
    assert Definition("crawl", "", "", most=3.0).holds(3.0)
    assert not Definition("crawl", "", "", most=3.0).holds(3.001)
    assert Definition("crawl", "", "", least=0.9).holds(0.9)
    assert not Definition("crawl", "", "", least=0.9).holds(0.89)
    assert Definition("crawl", "", "").holds(1e9)


def test_a_part_is_shown_after_the_command_that_gives_it() -> None:
    """Every figure of a part comes with the command, and a missed target says so."""
    result = Result("start", {"start_seconds": 1.5, "start_seconds_max": 2.0}, {})
    shown = lines(result, " --quick")
    assert shown[0].endswith("scenarios.bench --only start --quick")
    assert "MISSED" in shown[1]
    assert "MISSED" not in shown[2]
    assert result.missed() == ["start_seconds"]


def test_every_figure_belongs_to_a_part() -> None:
    """No figure is defined for a part that is never run."""
    assert {definition.part for definition in DEFINITIONS.values()} == set(PARTS)


@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (2.4871, "2.487"), (155.04, "155.0"), (29_611.2, "29,611")])
def test_numbers_have_the_digits_that_mean_something(value: float, shown: str) -> None:
    """Four digits at most, thousands grouped."""
    assert number(value) == shown
