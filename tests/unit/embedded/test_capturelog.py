"""The log of captures over shard files: by time, whole, bounded, and while their owner writes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.msgpack import encode
from msgspec.structs import replace

from limpet.cli.log import annotations, as_line, as_object, code_of
from limpet.clock import SystemClock
from limpet.config import Facts
from limpet.embedded.capturelog import CODING_ODDITIES, CaptureLog, Entry, Mark
from limpet.embedded.folder import Folder
from limpet.embedded.sums import (
    NO_TYPE,
    ODD_TYPE,
    OTHER,
    SPELLINGS_MAX,
    by_host,
    by_mime,
    by_reason,
    by_status,
    essence_of,
    odd_robots,
)
from limpet.embedded.views import ShardViews
from limpet.model.lifecycle import State
from limpet.model.outcome import Outcome
from limpet.parser import decode
from limpet.robots import HttpAnswer, RobotsState, Settled, advance, next_step
from limpet.runtime import InlineRunner
from limpet.runtime.sqlitefile import SqliteFile
from limpet.schemas.sqlite import shard_schema
from limpet.segments import Location
from limpet.testing.chance import SeededRandom
from limpet.urlstore import AuthorityRow, Candidate, Completion, ParseOutput, RobotsFetch
from limpet.urlstore.sqlite import SqliteUrlStore

FACTS = Facts(crawl="0123456789abcdef", hash_seed=b"s" * 16, suffix_list_digest="d" * 64)
SEGMENT = "limpet-20261101000000000-00001-0123456789abcdef.warc.gz"


def candidate(number: int, via: int | None = None) -> Candidate:
    """One URL of a.example."""
    url = f"http://a.example/{number}"
    return Candidate(
        fp=number.to_bytes(16, "big"),
        key=url,
        url=url,
        host="a.example",
        authority="http://a.example",
        depth=0 if via is None else 1,
        hops="" if via is None else "L",
        kind="navigation",
        seed=via is None,
        via=b"" if via is None else via.to_bytes(16, "big"),
        due_us=1,
    )


class Owner:
    """Owns some shards of a folder, as a worker would, while views look on."""

    def __init__(self, folder: Folder, shards: tuple[int, ...]) -> None:
        self.files = {shard: self._open(folder.shard_file(shard)) for shard in shards}
        self.stores = {shard: SqliteUrlStore(file, shard, SeededRandom(1)) for shard, file in self.files.items()}

    def _open(self, path: Path) -> SqliteFile:
        return SqliteFile(path, schema=shard_schema(), runner=InlineRunner(), clock=SystemClock(), synchronous="OFF")

    async def fetch(self, shard: int, number: int, fetched_us: int, via: int | None = None, **outcome: Any) -> None:
        """Admit a URL, claim it and end the claim."""
        store, one = self.stores[shard], candidate(number, via)
        await store.admit([one], 1)
        (claim,) = await store.claim(one.authority, limit=1, now_us=10**9, lease_us=2 * 10**9, holder="h")
        values: dict[str, Any] = {
            "fp": one.fp,
            "fetched_us": fetched_us,
            "url": one.url,
            "status": 200,
            "wire_bytes": 10,
        } | outcome
        end = Completion(claim=claim, state=State.FETCHED, now_us=10**9, outcome=Outcome(**values))
        assert await store.complete(end)

    async def robots(self, shard: int, fetched_us: int, cause: int, **outcome: Any) -> bool:
        """Ask a.example for its robots.txt, because of a URL."""
        values: dict[str, Any] = {"fp": b"", "fetched_us": fetched_us, "url": "http://a.example/robots.txt"}
        one = Outcome(**(values | {"status": 200} | outcome))
        url = candidate(cause)
        fetch = RobotsFetch(outcome=one, hops="LP", via=url.url, cause=url.fp)
        return await self.stores[shard].put_robots_fetch(fetch)

    async def deny(self, shard: int, number: int, now_us: int) -> None:
        """Admit a URL that robots.txt disallows."""
        store, one = self.stores[shard], candidate(number)
        await store.admit([one], 1)
        (claim,) = await store.claim(one.authority, limit=1, now_us=now_us, lease_us=2 * 10**9, holder="h")
        assert await store.complete(Completion(claim=claim, state=State.DENIED, now_us=now_us, reason="/private"))


def with_owner(path: Path, script: Callable[[Owner, Folder, ShardViews], Awaitable[None]]) -> None:
    """Run `script` beside an owner of shards 3 and 5."""

    async def main() -> None:
        folder = Folder.create(path / "crawl", FACTS)
        owner = Owner(folder, (3, 5))
        with ShardViews(folder) as views:
            await script(owner, folder, views)
        for file in owner.files.values():
            await file.close()

    asyncio.run(main())


def urls(entries: Iterable[Entry]) -> list[str]:
    """The last part of each URL."""
    return [entry.url.rpartition("/")[2] for entry in entries]


def test_the_log_is_by_time_over_shards_whatever_the_order_of_completion(tmp_path: Path) -> None:
    """Also where so many keys come that runs are spilled; equal times stay in one order."""

    async def script(owner: Owner, folder: Folder, views: ShardViews) -> None:
        times = [50, 10, 40, 40, 20, 30, 60]
        for number, at in enumerate(times):
            await owner.fetch(3 if number % 2 else 5, number, at)
        await owner.deny(3, 9, now_us=35)
        wanted = [str(n) for n, _ in sorted(enumerate(times), key=lambda pair: (pair[1], pair[0] % 2 == 0, pair[0]))]
        wanted.insert(3, "9")
        for keys_a_run_max in (1, 2, 3, 1000):
            log = CaptureLog(views, folder.facts.shards, keys_a_run_max=keys_a_run_max)
            found = list(log.between({}, log.now()))
            assert [entry.at_us for entry in found] == [10, 20, 30, 35, 40, 40, 50, 60]
            assert sorted(urls(found)) == sorted(wanted)
            assert [entry.at_us for entry in found] == sorted(entry.at_us for entry in found)

    with_owner(tmp_path, script)


def test_what_comes_later_is_found_once_and_nothing_is_missed(tmp_path: Path) -> None:
    """Marks cut the log between any two completions; an older fetch time that comes late is not lost."""

    async def script(owner: Owner, folder: Folder, views: ShardViews) -> None:
        log = CaptureLog(views, folder.facts.shards)
        seen, marks = [], log.now()
        assert set(marks.values()) == {Mark()}
        for number in range(12):
            await owner.fetch(3 + 2 * (number % 2), number, 1000 - number)
            if number % 4 == 3:
                await owner.deny(5, 100 + number, now_us=number + 1)
            if number % 3 == 0:
                until = log.now()
                seen += urls(log.between(marks, until))
                marks = until
        seen += urls(log.between(marks, log.now()))
        assert sorted(map(int, seen)) == [*range(12), 103, 107, 111]
        assert list(log.between(log.now(), log.now())) == []

    with_owner(tmp_path, script)


def test_an_entry_names_where_it_was_found_and_the_seed(tmp_path: Path) -> None:
    """Over any number of pages, and over shards."""

    async def script(owner: Owner, folder: Folder, views: ShardViews) -> None:
        await owner.fetch(3, 0, 100)
        await owner.fetch(3, 1, 200, via=0)
        await owner.fetch(5, 2, 300, via=1)
        await owner.fetch(5, 3, 400, via=77)
        log = CaptureLog(views, folder.facts.shards)
        found = [(entry.hops, entry.via, entry.source) for entry in log.between({}, log.now())]
        root = "http://a.example/"
        assert found == [
            ("", "", root + "0"),
            ("L", root + "0", root + "0"),
            ("L", root + "1", root + "0"),
            ("L", "", root + "3"),
        ]

    with_owner(tmp_path, script)


def test_requests_for_robots_stand_among_the_rest(tmp_path: Path) -> None:
    """By time, with what waited for them and the seed of that; those that come later are found once."""

    async def script(owner: Owner, folder: Folder, views: ShardViews) -> None:
        await owner.fetch(3, 0, 100)
        await owner.fetch(3, 1, 300, via=0)
        await owner.robots(3, 200, cause=1)
        log = CaptureLog(views, folder.facts.shards)
        marks = log.now()
        found = [(entry.at_us, entry.hops, entry.via, entry.source) for entry in log.between({}, marks)]
        root = "http://a.example/"
        assert found == [
            (100, "", "", root + "0"),
            (200, "LP", root + "1", root + "0"),
            (300, "L", root + "0", root + "0"),
        ]
        await owner.robots(5, 50, cause=1, status=0, failure="timeout")
        (late,) = log.between(marks, log.now())
        assert (late.at_us, code_of(late), late.source) == (50, -4, root + "0")

    with_owner(tmp_path, script)


def test_requests_for_robots_are_let_go_of_after_90_days(tmp_path: Path) -> None:
    """As new ones come, at most two for each; a reader whom that overtakes goes on without them."""

    async def script(owner: Owner, folder: Folder, views: ShardViews) -> None:
        day_us = 86_400_000_000
        for number in range(5):
            assert await owner.robots(3, number, cause=1)
        log = CaptureLog(views, folder.facts.shards)
        marks, store = log.now(), owner.stores[3]
        under_way = log.between({}, marks)
        assert next(under_way).at_us == 0
        for number, kept in ((89, 6), (90, 5), (91, 4)):
            assert await owner.robots(3, number * day_us + 4, cause=1)
            assert len(await store.robots_fetches()) == kept, number
        assert [entry.at_us for entry in under_way] == [4]
        assert [await store.requests(day) for day in (0, 89)] == [5, 1]
        assert len(list(log.between(marks, log.now()))) == 3

    with_owner(tmp_path, script)


def entry(**changes: Any) -> Entry:
    """A line of the log."""
    values: dict[str, Any] = {
        "at_us": 1_800_000_000_123_456,
        "url": "http://a.example/",
        "hops": "",
        "via": "",
        "source": "s",
    } | changes
    return Entry(**values)


def answer(**changes: Any) -> Outcome:
    """What came of a send."""
    values: dict[str, Any] = {
        "fp": b"f" * 16,
        "fetched_us": 1_800_000_000_123_456,
        "url": "http://a.example/",
    } | changes
    return Outcome(**values)


def test_a_line_has_the_columns_of_heritrix() -> None:
    """Twelve of them, split by blanks, `-` where there is nothing."""
    outcome = answer(
        status=200,
        wire_bytes=1234,
        mime="text/html",
        duration_us=5_999,
        payload_sha1="ABC",
        location=Location(SEGMENT, 1, 2),
        robots_digest="0123456789abcdef",
        remote_ip="192.0.2.1",
    )
    line = as_line(entry(outcome=outcome, hops="LR", via="http://a.example/via", source="http://a.example/seed"))
    assert line == (
        "2027-01-15T08:00:00.123Z   200       1234 http://a.example/ LR http://a.example/via text/html "
        "#0123456789abcdef 20270115080000123+5 sha1:ABC http://a.example/seed ip:192.0.2.1,robots:0123456789ab"
    )
    bare = as_line(entry(state=State.DENIED, reason="/private"))
    assert bare.split() == [
        *("2027-01-15T08:00:00.123Z", "-9998", "-", "http://a.example/", "-", "-", "-", "#-", "-", "-", "s"),
        "denied,/private",
    ]
    assert len(line.split()) == len(bare.split()) == 12


def test_what_has_no_status_has_the_code_of_heritrix() -> None:
    """Each kind of failure, and each way to leave the queue without a request."""
    kinds = ("dns", "refused", "connect", "tls", "proxy", "reset", "protocol", "timeout", "gate", "unheard of")
    codes = [code_of(entry(outcome=answer(failure=kind))) for kind in kinds]
    assert codes == [-1, -2, -2, -2, -2, -3, -3, -4, -5001, -5]
    assert code_of(entry(outcome=answer(status=404))) == 404
    assert code_of(entry(state=State.DENIED, reason="/x")) == -9998
    assert code_of(entry(state=State.CANCELLED, reason="operator")) == -6000
    assert code_of(entry(state=State.FAILED, reason="robots_unreachable")) == -61
    assert code_of(entry(state=State.FAILED, reason="host_unreachable")) == -2


def test_nothing_from_the_web_ends_a_column_or_a_line() -> None:
    """Content types and rules of robots.txt come from sites."""
    hostile = "text/html;\n charset\t=\u2028x\x1b[31m"
    line = as_line(entry(outcome=answer(status=200, mime=hostile)))
    assert line.isprintable()
    assert len(line.split()) == 12
    assert len(as_line(entry(state=State.DENIED, reason="/a b\nc")).split()) == 12


def test_the_object_says_at_least_as_much() -> None:
    """For programs."""
    outcome = answer(failure="dns", detail="no such name")
    shown = as_object(entry(outcome=outcome))
    assert (shown["code"], shown["failure"], shown["detail"]) == (-1, "dns", "no such name")
    assert annotations(entry(outcome=outcome)) == ["failure:dns"]
    assert as_object(entry(state=State.DENIED, reason="/x"))["reason"] == "/x"


def test_annotations_tell_tries_cuts_bombs_and_certificates() -> None:
    """In one order, and nothing where all was well."""
    plain = Outcome(fp=b"f", fetched_us=1, url="http://a.example/", status=200)
    assert annotations(entry(outcome=plain)) == []
    odd = replace(plain, truncated="length", insecure_tls=True, remote_ip="192.0.2.1")
    told = entry(outcome=odd, tries=3, oddities=("decoded_limit",))
    assert annotations(told) == ["3t", "truncated:length", "decoded_limit", "invalid_certificate", "ip:192.0.2.1"]
    assert (as_object(told)["tries"], as_object(told)["invalid_certificate"]) == (3, True)


def test_coding_oddities_are_what_the_decoder_calls_them() -> None:
    """Every flag of a decoder that did not come to a good end."""
    flags = {name: value for name, value in vars(decode).items() if name.isupper() and isinstance(value, str)}
    assert set(flags.values()) - {decode.TRAILING_BYTES} == CODING_ODDITIES


def test_tries_are_counted_since_the_url_was_last_settled(tmp_path: Path) -> None:
    """Attempts that left it due count, up to one that did not; what was parsed tells of its coding."""

    async def script(owner: Owner, folder: Folder, views: ShardViews) -> None:
        store, one = owner.stores[3], candidate(1)
        await store.admit([one], 1)
        for at, state in ((10, State.DUE), (20, State.DUE), (30, State.FETCHED), (40, State.DUE), (50, State.FETCHED)):
            (claim,) = await store.claim(one.authority, limit=1, now_us=10**9, lease_us=2 * 10**9, holder="h")
            done = Outcome(fp=one.fp, fetched_us=at, url=one.url, status=200)
            assert await store.complete(Completion(claim=claim, state=state, now_us=10**9, due_us=5, outcome=done))
        flags = ("decoded_limit", "html")
        await store.accept_outputs([ParseOutput(fp=one.fp, fetched_us=50, parser_version=1, links=0, flags=flags)])
        log = CaptureLog(views, folder.facts.shards)
        found = [(one.tries, one.oddities) for one in log.between({}, log.now())]
        assert found == [(1, ()), (2, ()), (3, ()), (1, ()), (2, ("decoded_limit",))]

    with_owner(tmp_path, script)


# -- sums --------------------------------------------------------------------------------------------------------------
def test_sums_equal_the_rows(tmp_path: Path) -> None:
    """By host and by reason every row counts once, leased and clashing ones as such; fetches and bytes add up."""

    async def script(owner: Owner, folder: Folder, _: ShardViews) -> None:
        await owner.fetch(3, 0, 100, mime="text/html")
        await owner.fetch(5, 1, 100, status=404, mime="text/plain", wire_bytes=5)
        await owner.fetch(5, 2, 100, status=0, failure="dns", wire_bytes=0)
        await owner.deny(3, 3, now_us=5)
        store = owner.stores[3]
        await store.admit([candidate(4), candidate(5), candidate(0, via=9)], 1)
        await store.admit([_clash()], 1)
        assert len(await store.claim("http://a.example", limit=1, now_us=5, lease_us=9, holder="h")) == 1
        host = by_host(folder)
        assert list(host) == ["a.example"]
        total = host["a.example"]
        assert (total.urls, total.fetches, total.wire_bytes) == (7, 3, 15)
        states = {name: count for name, count in total.states.items() if count}
        assert states == {"fetched": 3, "denied": 1, "due": 1, "leased": 1, "review": 1}
        reasons = {name: one.urls for name, one in by_reason(folder).items()}
        assert reasons == {"fetched": 3, "denied /private": 1, "due": 1, "leased": 1, "review clash": 1}
        statuses = {name: (one.urls, one.fetches, one.wire_bytes) for name, one in by_status(folder).items()}
        assert statuses == {"200": (1, 1, 10), "404": (1, 1, 5), "dns": (1, 1, 0)}
        mimes = {name: one.fetches for name, one in by_mime(folder).items()}
        assert mimes == {"text/html": 1, "text/plain": 1, NO_TYPE: 1}

    with_owner(tmp_path, script)


def _clash() -> Candidate:
    url = "http://a.example/other"
    return Candidate(
        fp=(0).to_bytes(16, "big"),
        key=url,
        url=url,
        host="a.example",
        authority="http://a.example",
        depth=0,
        hops="",
        kind="navigation",
    )


def test_sites_cannot_make_a_report_endless(tmp_path: Path) -> None:
    """Beyond the bound on names the rest is one line, and nothing is lost from the sums."""

    async def script(owner: Owner, folder: Folder, _: ShardViews) -> None:
        store = owner.stores[3]
        count = SPELLINGS_MAX + 7
        await store.admit([candidate(number) for number in range(count)], 1)
        claims = await store.claim("http://a.example", limit=count, now_us=5, lease_us=99, holder="h")
        ends = [
            Completion(
                claim=claim,
                state=State.FETCHED,
                now_us=6,
                outcome=Outcome(fp=claim.fp, fetched_us=6, url=claim.url, status=200, mime=f"x/y{number}"),
            )
            for number, claim in enumerate(claims)
        ]
        await asyncio.gather(*(store.complete(end) for end in ends))
        found = by_mime(folder)
        assert len(found) == SPELLINGS_MAX + 1
        assert (found[OTHER].fetches, found[OTHER].urls) == (7, 7)
        assert sum(one.fetches for one in found.values()) == count

    with_owner(tmp_path, script)


@pytest.mark.parametrize(
    ("spelt", "essence"),
    [
        ("text/html", "text/html"),
        (" Text/HTML ; charset=utf-8", "text/html"),
        ("application/vnd.a+xml", "application/vnd.a+xml"),
        ("", NO_TYPE),
        ("; charset=utf-8", NO_TYPE),
        ("html", ODD_TYPE),
        ("text/", ODD_TYPE),
        ("/html", ODD_TYPE),
        ("*/*", ODD_TYPE),
        ("a/b/c", ODD_TYPE),
        ("text/html, text/html", ODD_TYPE),
        ("text/h\ttml", ODD_TYPE),
        ("text/ht\xe9l", ODD_TYPE),
    ],
)
def test_media_types_are_told_by_their_essence(spelt: str, essence: str) -> None:
    """However a site spells it; what is no media type has one name."""
    assert essence_of(spelt) == essence


def test_spellings_of_one_type_add_up(tmp_path: Path) -> None:
    """Over shards, and with what is older than the rule."""

    async def script(owner: Owner, folder: Folder, _: ShardViews) -> None:
        for number, mime in enumerate(("text/html", "Text/html;charset=x", "text/html, text/html", "what ever", "")):
            await owner.fetch(3 if number % 2 else 5, number, 100, mime=mime)
        found = {name: (one.urls, one.fetches, one.wire_bytes) for name, one in by_mime(folder).items()}
        assert found == {"text/html": (2, 2, 20), ODD_TYPE: (2, 2, 20), NO_TYPE: (1, 1, 10)}

    with_owner(tmp_path, script)


def test_odd_robots_txt_are_counted_by_server(tmp_path: Path) -> None:
    """Equal copies are read once and count for each of their servers."""

    async def script(owner: Owner, folder: Folder, _: ShardViews) -> None:
        for shard, number, body in (
            (3, 1, b"<html>"),
            (3, 2, b"<html>"),
            (5, 3, b"<html>"),
            (5, 4, b"a\0b"),
            (5, 5, b""),
        ):
            name = f"http://h{number}.example"
            one = replace(candidate(number), url=f"{name}/", key=f"{name}/", host=name[7:], authority=name)
            await owner.stores[shard].admit([one], 1)
            settled = next_step(0, HttpAnswer(200, body=body))
            assert isinstance(settled, Settled)
            state = advance(RobotsState(), settled, 10**15, 0.0)
            row = AuthorityRow(authority=name, host=name[7:], robots=encode(state), robots_digest=settled.digest)
            await owner.stores[shard].put_authority(row)
        assert odd_robots(folder) == {"binary": 1, "html": 3}

    with_owner(tmp_path, script)
