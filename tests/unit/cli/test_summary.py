from pathlib import Path
from typing import Any

import msgspec
import pytest

from limpet.cli.reading import BadSeed
from limpet.cli.summary import Summary, as_json, as_text
from limpet.config import Facts
from limpet.embedded.collect import Collected, Rest
from limpet.embedded.folder import Folder
from limpet.embedded.supervisor import Ending, Report, Seeding
from limpet.testing.loop import EPOCH_US
from limpet.urlstore.sqlite import QueueState

FOLDER = Folder(Path("crawl"), Facts(crawl="c", hash_seed=b"s" * 16, suffix_list_digest="d"))
QUEUE = QueueState("http://slow.example", "slow.example", 0, EPOCH_US + 3_600_000_000, "http_429")


def summary(ending: Ending = Ending.DONE, **changes: Any) -> Summary:
    """A run of 20 pages in 10 s on top of 100."""
    rest = Rest(leased=0, jobs=0, repairs=0, unread=0, queues=(), offsets=())
    begin = Collected(at_us=EPOCH_US, shards={0: {"pages": 100, "bytes": 1_000_000}})
    counters = {"pages": 120, "bytes": 1_500_000, "records": 130, "state.fetched": 120, "state.gone": 4}
    end = Collected(at_us=EPOCH_US, shards={0: counters}, rest=rest)
    report = Report(ending=ending, begin=begin, end=end, seeding=Seeding(), elapsed_seconds=10.0)
    plain = Summary(report=report, waiting=(), bad_seeds=(), rejects=(("scope", 1200),), segments="crawl/segments")
    return msgspec.structs.replace(plain, **changes)


def test_a_good_end_exits_with_0() -> None:
    """Pages, bytes, states, rejects, archive and next steps are told."""
    text = as_text(summary(), FOLDER, None)
    assert summary().exit_code == 0
    for part in ("Done.", "20 pages, 500.0 kB in 10 s (2.0 pages/s)", "120 pages, 1.5 MB", "120 fetched, 4 gone"):
        assert part in text
    for part in ("1,200 scope", "crawl/segments", "limpet failures crawl", "limpet verify crawl"):
        assert part in text


@pytest.mark.parametrize(
    "changes",
    [
        {"waiting": (QUEUE,)},
        {"bad_seeds": (BadSeed("http://a.example/", "gone", "http_404"),)},
    ],
    ids=["waiting", "bad seed"],
)
def test_waiting_urls_and_bad_seeds_exit_with_3(changes: dict[str, Any]) -> None:
    """What is not done is told with time and reason."""
    assert summary(**changes).exit_code == 3
    assert summary(Ending.LIMIT, **changes).exit_code == 0
    assert summary(Ending.TIME_LIMIT, **changes).exit_code == 0
    assert summary(Ending.INTERRUPTED, **changes).exit_code == 130
    text = as_text(summary(**changes), FOLDER, None)
    assert "http://slow.example for 1 h (http_429)" in text or "http://a.example/ (gone: http_404)" in text


def test_a_seed_that_a_rule_turned_away_exits_with_3() -> None:
    """A seed without a row is no silent loss."""
    report = msgspec.structs.replace(summary().report, seeding=Seeding(0, 0, (("http://a.example/", "depth_trap"),)))
    turned_away = summary(report=report)
    assert turned_away.exit_code == 3
    assert "http://a.example/ (left out by rule depth_trap)" in as_text(turned_away, FOLDER, None)


def test_what_is_parked_is_named_with_its_rule() -> None:
    """Nothing is held back without a word; a cap names the flag that raises it."""
    held = summary(parked=(("host_cap", 1200), ("operator", 1)))
    assert as_json(held)["parked"] == {"host_cap": 1200, "operator": 1}
    text = as_text(held, FOLDER, None)
    assert "1,200 URLs (host_cap, a higher --host-limit lets them go): limpet failures crawl [--retry]" in text
    assert "1 URL (operator)" in text
    assert held.exit_code == 0


def test_damage_is_named_at_every_end() -> None:
    """What a disk changed does not become better by being told once."""
    hurt = summary(damaged=("A-1.warc.gz at byte 5000",))
    assert as_json(hurt)["damaged"] == ["A-1.warc.gz at byte 5000"]
    text = as_text(hurt, FOLDER, None)
    assert "damaged    A-1.warc.gz at byte 5000: what was stored has changed; see limpet verify crawl" in text
    assert "limpet failures crawl" in text


def test_pages_that_nobody_could_parse_exit_with_3() -> None:
    """Their links have no rows: no plain success."""
    end = msgspec.structs.replace(summary().report.end, shards={0: {"pages": 120, "jobs_review": 2}})
    blind = summary(report=msgspec.structs.replace(summary().report, end=end))
    assert blind.exit_code == 3
    assert as_json(blind)["unparsed"] == 2
    assert "2 pages could not be parsed" in as_text(blind, FOLDER, None)
    assert "limpet failures crawl" in as_text(blind, FOLDER, None)


@pytest.mark.parametrize(
    ("ending", "line"),
    [
        (Ending.LIMIT, "Stopped at the limit of 120 pages."),
        (Ending.TIME_LIMIT, "Stopped at the time limit."),
        (Ending.INTERRUPTED, "Interrupted; nothing is lost."),
    ],
)
def test_an_early_end_says_why_and_how_to_go_on(ending: Ending, line: str) -> None:
    """The first line names the reason, a later one the command that goes on."""
    text = as_text(summary(ending), FOLDER, 120)
    assert text.startswith(line)
    assert "limpet crawl --into crawl" in text


def test_long_lists_are_cut_and_counted() -> None:
    """Ten lines and a number are enough for people; JSON has them all."""
    many = summary(waiting=(QUEUE,) * 25)
    assert as_text(many, FOLDER, None).count("slow.example") == 10
    assert "and 15 more" in as_text(many, FOLDER, None)
    assert len(as_json(many)["waiting"]) == 25


def test_the_json_is_one_object_with_the_same_facts() -> None:
    """Programs get what people get."""
    found = msgspec.json.decode(msgspec.json.encode(as_json(summary(waiting=(QUEUE,)))))
    assert (found["ended"], found["exit_code"], found["pages"], found["pages_this_run"]) == ("done", 3, 120, 20)
    assert found["urls"] == {"fetched": 120, "gone": 4}
    assert found["waiting"] == [
        {"authority": "http://slow.example", "until_us": EPOCH_US + 3_600_000_000, "reason": "http_429"}
    ]
