"""Verbs read a folder and a cluster through one interface, and hear the same of the same crawl."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from integration.crawl_maker import Sent, answer, make_crawl, robots
from limpet.assembly.hostjudge import HostNow
from limpet.assembly.places import shard_of_host
from limpet.cli.arguments import REPORTS, parse_arguments
from limpet.cli.clusterview import ClusterView
from limpet.cli.crawlview import CrawlView, Known
from limpet.cli.folderview import FolderView
from limpet.cli.naming import BOTH, NEITHER
from limpet.cli.printing import print_json, print_json_list
from limpet.cluster.remote import RemoteCrawl
from limpet.config import Settings
from limpet.embedded.folder import Folder
from limpet.embedded.sums import Sum
from limpet.embedded.views import ShardViews
from limpet.model.errors import UsageError
from limpet.model.events import DocumentFetched, encode
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.politeness.orders import NO_ORDER, HostOrder
from limpet.robots import HttpAnswer, RobotsState, Settled, advance, next_step
from limpet.segments import Location
from limpet.urlstore import DAMAGED_SEGMENT, AuthorityRow, Candidate, Completion, Job, Reject, RobotsFetch
from unit.cli.folder_crawl import FolderCrawl

SENT = (
    robots(0.0),
    Sent(url="http://a.test/", at=2.0, links=2),
    Sent(url="http://a.test/again", at=4.0, again=True),
    Sent(url="http://a.test/again", at=6.0),
    Sent(url="http://a.test/gone", at=8.0, wire=answer(410)),
    robots(0.5, host="b.test"),
    Sent(url="http://b.test/", at=3.0, again=True),
)
LEFT_OUT = "http://a.test/x/x/x/x"


@contextmanager
def views(folder: Folder) -> Iterator[tuple[FolderView, ClusterView]]:
    """Both views of one crawl."""
    with ShardViews(folder) as shards, asyncio.Runner() as loop:
        crawl = FolderCrawl(folder)
        try:
            remote = ClusterView(cast("RemoteCrawl", crawl), loop, Path("limpet.toml"), Settings())
            yield FolderView(folder, shards), remote
        finally:
            loop.run(crawl.close())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A crawl with something of everything that verbs tell."""
    made = make_crawl(tmp_path_factory.mktemp("crawl") / "made", SENT)

    async def fill() -> None:
        crawl = FolderCrawl(made)
        page = DocumentFetched(
            crawl="made",
            fp=b"f" * 16,
            fetched_us=9,
            url="http://a.test/odd",
            depth=0,
            hops="",
            seed=True,
            location=Location("A-1.warc.gz", 0, 1),
            status=200,
            payload_sha256="",
        )
        for shard in range(made.facts.shards):
            store = crawl.store(shard)
            await store.count_rejects([Reject(host="a.test", rule="repeats", count=1, sample=LEFT_OUT)])
            await store.notify(DAMAGED_SEGMENT, "", f"A-{shard}.warc.gz at byte 5", "", 10)
        job = Job(fp=page.fp, fetched_us=9, event=encode(page), attempt=3, due_us=0, reason="odd", state="review")
        await crawl.store(0).put_job(job)
        settled = next_step(0, HttpAnswer(200, body=b"<html>no rules here</html>"))
        assert isinstance(settled, Settled)
        kept = msgspec.msgpack.encode(advance(RobotsState(), settled, 10**15, 0.0))
        row = AuthorityRow(authority="http://b.test", host="b.test", robots=kept, robots_digest=settled.digest)
        await crawl.store(shard_of_host("b.test", made.facts)).put_authority(row)
        await crawl.close()

    asyncio.run(fill())
    return made


def listed(view: CrawlView) -> dict[str, object]:
    """What the listings tell."""
    return {
        "all": sorted((row.url, row.state, row.latest_us) for row in view.rows()),
        "gone": [row.url for row in view.rows((State.GONE,))],
        "unparsed": list(view.unparsed()),
        "damages": view.damages(),
        "orders": view.order("a.test"),
        "rules": view.rejected_by(LEFT_OUT),
    }


def test_both_views_list_the_same(folder: Folder) -> None:
    """Rows, those of one state, unparsed pages, damage, rules."""
    with views(folder) as (local, remote):
        told = listed(local)
        assert told == listed(remote)
    assert told["gone"] == ["http://a.test/gone"]
    assert [len(cast("list[object]", told[name])) for name in ("all", "unparsed", "damages")] == [4, 1, 2]
    assert told["rules"] == ["repeats"]


@pytest.mark.parametrize("url", ["http://a.test/", "http://a.test/again", "http://b.test/"])
def test_both_views_know_the_same_of_a_url(folder: Folder, url: str) -> None:
    """Row, outcomes, outputs, robots and politeness."""
    with views(folder) as (local, remote):
        known = local.known(url)
        assert isinstance(known, Known)
        assert known == remote.known(url)
        assert len(known.outcomes) == (2 if url.endswith("again") else 1)
        assert local.known(LEFT_OUT) is remote.known(LEFT_OUT) is None


def test_both_views_log_the_same_captures(tmp_path: Path) -> None:
    """With where each was found, from which seed, and after how many tries; a request for a robots.txt, too."""
    made = make_crawl(tmp_path / "made", ())
    seed, middle, deep = (f"http://c.test/{name}" for name in ("", "middle", "deep"))

    async def fill() -> None:
        crawl = FolderCrawl(made)
        store = crawl.store(shard_of_host("c.test", made.facts))
        chain = [(seed, ""), (middle, seed), (deep, middle)]
        await store.admit([found_on(url, via) for url, via in chain], 1)
        for number, state in enumerate((State.DUE, State.DUE, State.FETCHED)):
            claims = await store.claim("http://c.test", limit=9, now_us=10 + number, lease_us=99, holder="h")
            for claim in claims:
                outcome = Outcome(fp=claim.fp, fetched_us=10 + number, url=claim.url, status=200)
                await store.complete(Completion(claim=claim, state=state, now_us=20, due_us=1, outcome=outcome))
        asked = Outcome(fp=b"", fetched_us=5, url="http://c.test/robots.txt", status=404)
        await store.put_robots_fetch(RobotsFetch(outcome=asked, hops="LLP", via=deep, cause=found_on(deep, "").fp))
        await crawl.close()

    asyncio.run(fill())
    with views(made) as (local, remote):
        found = list(local.captures())
        assert sorted(map(repr, remote.captures())) == sorted(map(repr, found))
    come = {entry.url: (entry.via, entry.source) for entry in found}
    assert come[deep] == (middle, seed)
    assert come["http://c.test/robots.txt"] == (deep, seed)
    assert [entry.tries for entry in found if entry.url == deep] == [1, 2, 3]


def found_on(url: str, via: str) -> Candidate:
    """A candidate that was found on `via`."""
    return Candidate(
        fp=hashlib.md5(url.encode(), usedforsecurity=False).digest(),
        key=url,
        url=url,
        host="c.test",
        authority="http://c.test",
        depth=0,
        hops="",
        kind="navigation",
        seed=not via,
        via=hashlib.md5(via.encode(), usedforsecurity=False).digest() if via else b"",
        due_us=1,
    )


@pytest.mark.parametrize("by", REPORTS)
def test_both_views_add_up_the_same(folder: Folder, by: str) -> None:
    """URLs with their states, fetches and bytes; links that rules turned away; servers with an odd robots.txt."""
    with views(folder) as (local, remote):
        found = local.sums(by)
        assert {name: told(one) for name, one in found.items()} == {
            name: told(one) for name, one in remote.sums(by).items()
        }
        assert sum(one.urls for one in found.values()) == 4
        assert (by == "reason") or sum(one.fetches for one in found.values()) == 5
        assert local.rejected() == remote.rejected() == {"repeats": 2}
        assert local.odd_robots() == remote.odd_robots() == {"html": 1}


def told(one: Sum) -> tuple[int, int, int, dict[str, int]]:
    """A sum, without states that nothing is in."""
    return one.urls, one.fetches, one.wire_bytes, {state: urls for state, urls in one.states.items() if urls}


def held_back(host: HostNow) -> HostNow:
    """But for when it was looked at."""
    assert host.next_us is not None
    return msgspec.structs.replace(host, next_us=0)


def test_both_views_hold_a_host_back_alike(folder: Folder) -> None:
    """In full; in a listing a cluster counts no queues. What is ordered of a stranger is listed, too."""
    with views(folder) as (local, remote):
        local.change_order("strange.test", lambda _: HostOrder(gap_seconds=9.0))
        remote.change_order("a.test", lambda _: HostOrder(gap_seconds=7.0))
        for name in ("a.test", "b.test", "strange.test"):
            one, other = local.host(name), remote.host(name)
            assert one is not None
            assert other is not None
            assert held_back(one) == held_back(other)
            assert one.order == "operator_slow" or name == "b.test"
        listed_here = {host.host: host for host in local.hosts()}
        listed_there = {host.host: host for host in remote.hosts()}
        assert listed_here.keys() == listed_there.keys() == {"a.test", "b.test", "strange.test"}
        assert [host.queued for host in listed_there.values() if host.authorities] == [None, None]
        assert [listed_there[name].gaps for name in listed_here] == [host.gaps for host in listed_here.values()]
        assert local.host("nowhere.test") is remote.host("nowhere.test") is None
        assert (local.met("b.test"), remote.met("b.test"), remote.met("strange.test")) == (True, True, False)
        for view, name in ((local, "a.test"), (remote, "strange.test")):
            view.change_order(name, lambda _: NO_ORDER)
            assert view.order(name) == NO_ORDER


@pytest.mark.parametrize("words", [["urls"], ["show"], ["failures", "--retry"], ["status", "--json"], ["add"]])
def test_a_crawl_that_is_not_named_is_asked_for(words: list[str]) -> None:
    """One message for all verbs."""
    with pytest.raises(UsageError) as complaint:
        parse_arguments(words)
    assert str(complaint.value) == NEITHER


@pytest.mark.parametrize(
    "words", [["urls", "DIR"], ["show", "DIR", "http://a.test/"], ["failures", "DIR"], ["status", "DIR"]]
)
def test_a_crawl_that_is_named_twice_is_refused(words: list[str]) -> None:
    """One message for all verbs."""
    with pytest.raises(UsageError) as complaint:
        parse_arguments([*words, "--config", "limpet.toml"])
    assert str(complaint.value) == BOTH


def test_words_may_stand_between_flags() -> None:
    """Whatever argparse makes of it."""
    for words in (["DIR", "--json", "URL"], ["DIR", "URL", "--json"], ["--json", "DIR", "URL"]):
        found = parse_arguments(["show", *words])
        assert (found.folder, found.urls, found.json) == (Path("DIR"), ["URL"], True)
    for words in (["URL", "--config", "F"], ["--config", "F", "URL"]):
        found = parse_arguments(["show", *words])
        assert (found.folder, found.config, found.urls) == (None, Path("F"), ["URL"])


@pytest.mark.parametrize("values", [[], [1], [{"a": [1, {"b": "x\ny"}]}, {}, {"c": None}]])
def test_a_list_that_comes_piece_by_piece_prints_the_same(
    values: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte."""
    print_json(values)
    whole = capsys.readouterr().out
    assert print_json_list(iter(values)) == len(values)
    assert capsys.readouterr().out == whole
    assert json.loads(whole) == values
