"""A crawl of hosts that each misbehave in one way: every answer has its outcome, its record, and its bound."""

import gzip
import hashlib
from base64 import b32encode

import pytest

from e2e.command import limpet
from e2e.rudecrawl import BODY_BYTES_MAX, TRIES_MAX, WALL_SECONDS_MAX, RudeCrawl
from origin import Policy, examine

RELENTING = ("retry-seconds", "retry-date", "retry-429", "retry-slow-body")
GOOD = ("chunked", "gzip", "bare-status", "crawl-delay", "robots-404", "robots-2mb", "robots-chain-5")


def test_no_rude_host_is_wronged(rude: RudeCrawl) -> None:
    """Whatever a host does, robots.txt, gaps, Retry-After and one connection at a time are kept."""
    verdict = examine(rude.origin.events(), Policy(owned=True))
    assert verdict.violations == []
    assert verdict.residuals == []


def test_the_archive_of_a_rude_web_is_intact(rude: RudeCrawl) -> None:
    """`verify` finds nothing wrong with what was stored of it."""
    assert limpet("verify", rude.folder, "--json").json["findings"] == []


def test_decent_hosts_do_not_suffer_from_rude_ones(rude: RudeCrawl) -> None:
    """Their pages are fetched once and stored as they are."""
    for habit in GOOD:
        assert rude.show(habit)["state"] == "fetched", habit
        assert rude.asked(habit) == 1, habit
        assert [record.status for record in rude.archived(habit)] == ["200"], habit
        assert rude.archived(habit)[0].truncated == "", habit
    for target in ("/two", "/three"):
        assert rude.show("crawl-delay", target)["state"] == "fetched"


@pytest.mark.parametrize("habit", RELENTING)
def test_a_refusal_is_waited_for_and_costs_the_url_nothing(rude: RudeCrawl, habit: str) -> None:
    """503 and 429 with Retry-After: both answers are archived, the second one is the page."""
    shown = rude.show(habit)
    assert (shown["state"], shown["failures"]) == ("fetched", 0)
    assert rude.asked(habit) == 2
    assert [record.status for record in rude.archived(habit)] == ["429" if habit == "retry-429" else "503", "200"]


@pytest.mark.parametrize("habit", ["cut-body", "cut-chunked"])
def test_a_cut_body_is_kept_and_tried_three_times(rude: RudeCrawl, habit: str) -> None:
    """G03: what arrived is stored and marked, the third attempt stands as truncated, never as plain success."""
    shown = rude.show(habit)
    assert (shown["state"], shown["reason"]) == ("fetched", "truncated")
    assert [outcome["truncated"] for outcome in shown["outcomes"]] == ["disconnect"] * TRIES_MAX
    assert rude.asked(habit) == TRIES_MAX
    records = rude.archived(habit)
    body = rude.web.body(rude.web.host(habit))
    assert [record.truncated for record in records] == ["disconnect"] * TRIES_MAX
    for record in records:
        assert body.startswith(record.payload)
        assert len(body) * 2 // 5 < len(record.payload) < len(body)
        assert record.digest == _sha1(record.payload)


def test_a_cut_coding_is_flagged_and_tried_three_times(rude: RudeCrawl) -> None:
    """G08: the transport was complete, so the record is not marked; the outcome is, and it is not plain success."""
    shown = rude.show("cut-gzip")
    assert (shown["state"], shown["reason"]) == ("fetched", "truncated")
    assert rude.asked("cut-gzip") == TRIES_MAX
    assert [outcome["detail"] for outcome in shown["outcomes"]] == ["content coding cut short"] * TRIES_MAX
    assert [record.truncated for record in rude.archived("cut-gzip")] == [""] * TRIES_MAX


def test_an_endless_body_is_bounded(rude: RudeCrawl) -> None:
    """The size limit ends it; what arrived is stored once and marked."""
    shown = rude.show("endless")
    assert (shown["state"], shown["reason"], rude.asked("endless")) == ("fetched", "truncated", 1)
    (record,) = rude.archived("endless")
    assert record.truncated == "length"
    assert len(record.payload) == BODY_BYTES_MAX
    assert shown["outcomes"][0]["wire_bytes"] < BODY_BYTES_MAX + 1_000


def test_a_slow_drip_is_cut_off(rude: RudeCrawl) -> None:
    """Bytes keep coming, so only the wall clock ends it."""
    shown = rude.show("drip")
    assert (shown["state"], shown["reason"], rude.asked("drip")) == ("fetched", "truncated", 1)
    assert rude.archived("drip")[0].truncated == "time"
    assert shown["outcomes"][0]["duration_us"] == pytest.approx(WALL_SECONDS_MAX * 1e6, rel=0.4)


@pytest.mark.parametrize("habit", ["http-0.9", "header-bomb"])
def test_what_is_not_http_fails_at_once(rude: RudeCrawl, habit: str) -> None:
    """No status line, or a head without bounds: asked once, failed with the reason, nothing stored."""
    shown = rude.show(habit)
    assert (shown["state"], shown["reason"], rude.asked(habit)) == ("failed", "protocol", 1)
    assert rude.archived(habit) == []


def test_a_silent_host_fails_after_three_timeouts(rude: RudeCrawl) -> None:
    """Timeouts are transient failures: delayed retries, and an end."""
    shown = rude.show("silent")
    assert (shown["state"], shown["reason"], rude.asked("silent")) == ("failed", "timeout", TRIES_MAX)


def test_codings_are_stored_as_sent_and_digested_without_transfer_coding(rude: RudeCrawl) -> None:
    """G21: chunk framing stays in the block and out of the digest; a content coding is part of both."""
    (chunked,) = rude.archived("chunked")
    assert chunked.headers["transfer-encoding"] == "chunked"
    assert chunked.payload == rude.web.body(rude.web.host("chunked"))
    assert chunked.digest == _sha1(chunked.payload)
    (coded,) = rude.archived("gzip")
    assert coded.headers["content-encoding"] == "gzip"
    assert gzip.decompress(coded.payload) == rude.web.body(rude.web.host("gzip"))
    assert coded.digest == _sha1(coded.payload)


def test_links_behind_every_framing_are_found(rude: RudeCrawl) -> None:
    """A page that names a disallowed folder has a row for it, which was never asked for."""
    assert rude.show("robots-2mb", "/private/")["state"] == "denied"
    assert rude.asked("robots-2mb", "/private/") == 0


def test_a_rude_web_ends_with_its_failures_told(rude: RudeCrawl) -> None:
    """Exit code 3, and every seed that ended badly is in the summary."""
    assert rude.result.code == 3
    failed = {seed["url"]: seed["reason"] for seed in rude.result.json["failed_seeds"]}
    assert failed == {
        rude.url("http-0.9"): "protocol",
        rude.url("header-bomb"): "protocol",
        rude.url("silent"): "timeout",
    }


def _sha1(payload: bytes) -> str:
    return "sha1:" + b32encode(hashlib.sha1(payload).digest()).decode()  # noqa: S324 - what WARC uses
