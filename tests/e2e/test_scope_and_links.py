"""How far a crawl goes, through the command line: whole pages, patterns, depth, redirects, sitemaps, caps, identity."""

import gzip
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from e2e.bug_reports.shared_inputs import CONFIG, PATIENCE
from e2e.command import OWNED, limpet
from e2e.raw_site import Answer, RawCrawl, RawSites, Site, answer, moved, ok

CSS, XML, PNG = b"Content-Type: text/css", b"Content-Type: application/xml", b"Content-Type: image/png"
CHAIN_LENGTH = 14
BIG = b"<a href=/docs/early>x</a>" + b"x" * 4_000 + b"<a href=/docs/late>x</a>"


class Sites:
    """Three sites whose pages name each other: `home`, `cdn`, and `alien`, which is nobody's of ours."""

    def __init__(self) -> None:
        self.sites = RawSites(
            {
                "home": Site(self._home()),
                "cdn": Site(self._cdn(), []),
                "alien": Site({}, [], default=ok(b"x", PNG)),
            }
        )

    def _late(self, text: str, *fields: bytes) -> Callable[[int], Answer]:
        """An answer that names other sites as {cdn} and {alien}, once it is known where they are."""

        def written(_visit: int) -> tuple[bytes, ...]:
            body = text.replace("{cdn}", self.sites.url("cdn", "")).replace("{alien}", self.sites.url("alien", ""))
            return (ok(body.encode(), *fields),)

        return written

    def _home(self) -> dict[str, Any]:
        chain = {f"/r/{number}": moved(b"/r/%d" % (number + 1)) for number in range(CHAIN_LENGTH)}
        sitemaps = "Sitemap: http://@AUTHORITY@/index.xml\nSitemap: {cdn}/index.xml\nSitemap: /relative.txt\n"
        return {
            "/robots.txt": self._late(sitemaps, b"Content-Type: text/plain"),
            "/": self._late(
                '<link rel=stylesheet href="/s.css"><img src="{cdn}/i.png" srcset="/small.png 2x">'
                '<img src="{cdn}/private/i.png"><img src="{alien}/pixel.png">'
                '<link rel=alternate hreflang=cs href="/cs">'
                '<a href="/a">a</a><a href="/never/x">x</a><a href="{cdn}/page">off</a><a href="/off">off</a>'
                '<a href="/moved">moved</a><a href="/r/0">chain</a>'
            ),
            "/s.css": self._late('@import "{cdn}/more.css"; p { background: url(/dot.png) }', CSS),
            "/small.png": ok(b"small", PNG),
            "/dot.png": ok(b"dot", PNG),
            "/cs": ok(b"<p>alternate"),
            "/a": ok(b'<a href="/b">too deep</a><img src="/a.png"><img src="/never/a.png">'),
            "/a.png": ok(b"a", PNG),
            "/off": self._late_redirect("/landing"),
            "/moved": moved(b"/target"),
            "/target": ok(b'<a href="/behind">one deeper than its redirect</a>'),
            "/index.xml": ok(b"<sitemapindex><sitemap><loc>/packed.xml.gz</loc></sitemap></sitemapindex>", XML),
            "/packed.xml.gz": answer(
                b"200 OK",
                gzip.compress(
                    b"<sitemapindex><sitemap><loc>/third.xml</loc></sitemap></sitemapindex>"
                    b"<urlset><url><loc> /listed </loc></url><url><loc>/never/l</loc></url></urlset>"
                ),
                b"Content-Type: application/gzip",
            ),
            "/relative.txt": ok(b"http://@AUTHORITY@/plain\nnot a link\n", b"Content-Type: text/plain"),
            "/listed": ok(b"<a href=/c>too deep</a>"),
            "/plain": ok(b"<p>plain"),
            **chain,
        }

    def _late_redirect(self, target: str) -> Callable[[int], Answer]:
        return lambda _visit: (moved(self.sites.url("cdn", target).encode()),)

    def _cdn(self) -> dict[str, Any]:
        return {
            "/robots.txt": answer(b"200 OK", b"User-agent: *\nDisallow: /private\n", b"Content-Type: text/plain"),
            "/i.png": moved(b"/j.png"),
            "/j.png": ok(b"j", PNG),
            "/more.css": ok(b"@import url(far.css); b { background: url(/private/p.png) }", CSS),
        }


@pytest.fixture(scope="module")
def stack() -> Iterator[ExitStack]:
    """What is to be closed in the end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, stack: ExitStack) -> RawCrawl:
    """Defaults, but for a depth of one and an exclude; two of three sites are owned."""
    sites = stack.enter_context(Sites().sites)
    hosts = [sites.authority(name).partition(":")[0] for name in ("home", "cdn")]
    words = ("--depth", "1", "--exclude", "/never/", "--workers", "2", *PATIENCE)
    return RawCrawl(tmp_path_factory.mktemp("whole"), sites, *words, config=CONFIG, owned=hosts)


def test_pages_are_whole(whole: RawCrawl) -> None:
    """One hop off scope, two through a style sheet, redirects aside; at the greatest depth too; by their own robots."""
    home = set(whole.sites.asked("home"))
    assert {"/", "/s.css", "/small.png", "/dot.png", "/a", "/a.png", "/cs"} <= home
    assert sorted(whole.sites.asked("cdn")) == ["/i.png", "/j.png", "/more.css"]
    assert whole.sites.asked_robots("cdn") == 1
    assert whole.state("cdn", "/private/i.png")[0] == "denied"
    assert whole.show("cdn", "/j.png")["hops"] == "ER"
    assert whole.state("cdn", "/more.css") == ("fetched", "")
    assert whole.sites.url("cdn", "/far.css") not in whole.rows  # three steps from the page


def test_other_peoples_hosts_are_not_asked_by_a_crawl_of_ones_own(whole: RawCrawl) -> None:
    """Not even for robots.txt; what the page needs of them is counted by its own name."""
    assert whole.sites.connections("alien") == 0
    assert whole.result.json["rejected"]["not_owned"] == 1


def test_an_exclude_wins(whole: RawCrawl) -> None:
    """Over links, requisites and entries of sitemaps."""
    assert not [target for target in whole.sites.asked("home") if target.startswith("/never/")]
    assert whole.result.json["rejected"]["excluded"] == 3


def test_a_redirect_off_scope_is_recorded_and_not_followed(whole: RawCrawl) -> None:
    """Outcome and record are there; the target is counted, like the link that leads there directly."""
    assert whole.one("home", "/off").status == 302
    assert whole.state("home", "/off") == ("fetched", "")
    assert whole.sites.url("cdn", "/landing") not in whole.rows
    assert whole.sites.url("cdn", "/page") not in whole.rows


def test_a_redirect_keeps_the_depth(whole: RawCrawl) -> None:
    """What it leads to is as far from the seed as itself, and what that links to is one deeper."""
    assert (whole.show("home", "/moved")["depth"], whole.show("home", "/target")["depth"]) == (1, 1)
    assert "/behind" not in whole.sites.asked("home")


def test_a_chain_of_redirects_ends_after_ten_with_a_reason(whole: RawCrawl) -> None:
    """The link, ten redirects of one depth, and a count with a name."""
    asked = [target for target in whole.sites.asked("home") if target.startswith("/r/")]
    assert asked == [f"/r/{number}" for number in range(11)]
    assert {whole.show("home", target)["depth"] for target in asked} == {1}
    assert whole.result.json["rejected"]["redirect_chain"] == 1


def test_sitemaps_of_robots_txt_are_read(whole: RawCrawl) -> None:
    """Index, gzip and text; entries are one deep; the third level and another site's are not read."""
    asked = whole.sites.asked("home")
    assert {"/index.xml", "/packed.xml.gz", "/relative.txt", "/listed", "/plain"} <= set(asked)
    assert not {"/third.xml", "/c"} & set(asked)
    row = whole.show("home", "/index.xml")
    assert (row["hops"], row["depth"], row["kind"]) == ("M", 0, "sitemap")
    assert whole.show("home", "/packed.xml.gz")["hops"] == "MM"
    assert (whole.show("home", "/listed")["hops"], whole.show("home", "/listed")["depth"]) == ("MML", 1)
    assert whole.result.json["rejected"]["sitemap_chain"] == 1
    assert "/index.xml" not in whole.sites.asked("cdn")


def test_the_archive_is_whole_by_the_same_rules(whole: RawCrawl) -> None:
    """`verify --links` and `audit` find nothing; the crawl is done."""
    assert whole.result.code == 0
    assert whole.verify() == whole.audit() == []


def test_a_sitemap_that_robots_txt_names_and_that_has_no_row_is_found_out(whole: RawCrawl, tmp_path: Path) -> None:
    """`verify --links` reads the copies of robots.txt again."""
    folder = tmp_path / "copy"
    shutil.copytree(whole.folder, folder)
    url = whole.sites.url("home", "/index.xml")
    for shard in (folder / "shards").glob("*.sqlite"):
        with closing(sqlite3.connect(shard)) as connection:
            connection.execute("DELETE FROM url WHERE url = ?", (url,))
            connection.commit()
    result = limpet("verify", folder, "--links", "--json")
    found = [one for one in result.json["findings"] if one["kind"] == "lost_link"]
    assert [(one["subject"], one["detail"].rpartition("/")[2]) for one in found] == [(url, "robots.txt names")]
    assert result.json["checked"]["sitemaps"] == 2


def plain_site() -> RawSites:
    """One site with more pages than some want."""
    docs = "".join(f'<a href="/docs/{number}">x</a>' for number in range(1, 7))
    page = f'{docs}<a href="/other">x</a><img src="/i.png"><a href="/docs/big">x</a>'
    return RawSites({"site": Site({"/": ok(page.encode()), "/docs/big": ok(BIG)}, default=ok(b"<p>page"))})


def test_an_include_narrows_and_requisites_may_be_left_out(tmp_path: Path) -> None:
    """Only what matches is asked for, seeds aside; a resume may repeat the flags and not change them."""
    with plain_site() as sites:
        words = ("--include", "/docs/", "--no-requisites", *PATIENCE)
        crawl = RawCrawl(tmp_path, sites, *words, config=CONFIG)
        targets = ["/docs/big", "/docs/early", "/docs/late", *(f"/docs/{number}" for number in range(1, 7))]
        assert sorted(sites.asked("site")) == ["/", *sorted(targets)]
        assert crawl.result.json["rejected"] == {"not_included": 1}
        assert crawl.verify() == []
        again, _ = crawl.run(*words)
        assert again.code == 0
        refused, _ = crawl.run("--include", "/other/")
        assert refused.code == 2
        assert "--include is '/docs/' in this crawl, not '/other/'" in refused.complaint


def test_a_size_limit_cuts_and_says_so(tmp_path: Path) -> None:
    """The record holds what arrived and is marked; what arrived is parsed."""
    with plain_site() as sites:
        crawl = RawCrawl(tmp_path, sites, "--size-limit", "1k", *PATIENCE, config=CONFIG)
        record = crawl.one("site", "/docs/big")
        assert (len(record.payload), record.truncated) == (1_000, "length")
        assert crawl.state("site", "/docs/big") == ("fetched", "truncated")
        assert "/docs/early" in sites.asked("site")
        assert "/docs/late" not in sites.asked("site")
        assert crawl.verify() == []


def test_beyond_a_host_limit_urls_are_parked_until_there_is_room(tmp_path: Path) -> None:
    """Visible, with the rule; a higher limit lets them go, and the crawl is complete."""
    with plain_site() as sites:
        crawl = RawCrawl(tmp_path, sites, "--host-limit", "4", *PATIENCE, config=CONFIG)
        states = list(crawl.rows.values())
        assert states.count(("fetched", "")) == 4
        assert states.count(("parked", "host_cap")) == 6
        assert len(set(sites.asked("site"))) == 4
        assert crawl.verify() == []
        more, _ = crawl.run("--host-limit", "5", *PATIENCE)
        assert more.json["urls"]["fetched"] == 5, "which one is chance, and so is how many links it has"
        rest, _ = crawl.run("--host-limit", "50", *PATIENCE)
        assert rest.json["urls"] == {"fetched": 12}
        assert crawl.verify() == crawl.audit() == []


def test_what_is_parked_is_listed_by_rule_and_can_be_let_go(tmp_path: Path) -> None:
    """Not among the failures, never forgotten: summary, `status` and `failures` name the rule, `--retry` re-arms."""
    with plain_site() as sites:
        crawl = RawCrawl(tmp_path, sites, "--host-limit", "4", *PATIENCE, config=CONFIG)
        assert crawl.result.json["parked"] == {"host_cap": 6}
        status = limpet("status", crawl.folder)
        assert "6 URLs (host_cap, a higher --host-limit lets them go): limpet failures" in status.stdout
        listed = limpet("failures", crawl.folder)
        assert (listed.code, listed.stdout.count("parked\thost_cap\thttp://")) == (0, 6)
        assert {row["state"] for row in limpet("failures", crawl.folder, "--json").json} == {"parked"}
        assert limpet("failures", crawl.folder, "--retry", "--json").json == {"retried": 6}
        more, _ = crawl.run("--host-limit", "4", *PATIENCE)
        assert more.json["urls"]["fetched"] == 10, "an operator's word goes above the cap"
        assert crawl.verify() == crawl.audit() == []


def test_a_small_budget_ends_a_run_with_its_reason(tmp_path: Path) -> None:
    """No silent hang: the first request goes, then the run ends by patience, and all name the budget and the time."""
    with plain_site() as sites:
        crawl = RawCrawl(tmp_path, sites, "--budget", "10", *PATIENCE, config=CONFIG)
        assert crawl.result.code == 3
        assert {one["reason"] for one in crawl.result.json["waiting"]} == {"budget"}
        assert len(sites.heads("site")) == 1
        again, _ = crawl.run(*PATIENCE)
        assert (again.code, len(sites.heads("site"))) == (3, 1), "what was sent a moment ago is known to the next run"
        status = limpet("status", crawl.folder)
        assert "UTC: the day's budget paces the crawl" in status.stdout
        assert limpet("status", crawl.folder, "--json").json["next_reason"] == "budget"
        free, _ = crawl.run("--budget", "0", *PATIENCE)
        assert free.code == 0, free


def test_exact_urls_and_session_ids(tmp_path: Path) -> None:
    """--exact-urls keeps apart what differs in tracking alone; --drop-session-ids joins what sessions split."""
    page = b"".join(
        b'<a href="%s">x</a>' % target for target in (b"/t", b"/t?utm_source=x", b"/s;jsessionid=1", b"/s;jsessionid=2")
    )
    with RawSites({"site": Site({"/": ok(page)}, default=ok(b"<p>page"))}) as sites:
        crawl = RawCrawl(tmp_path, sites, "--exact-urls", "--drop-session-ids", *PATIENCE, config=CONFIG)
        asked = sites.asked("site")
        assert sorted(asked) == ["/", "/s;jsessionid=1", "/t", "/t?utm_source=x"]
        assert crawl.verify() == []


def test_bad_patterns_and_excluded_seeds_are_one_line(tmp_path: Path) -> None:
    """Before anything is written."""
    seed = "http://127.0.0.1:9/x/"
    for words, complaint in (
        (("--exclude", "("), "--exclude '(' is no pattern: missing )"),
        (("--include", r"(a)\1"), "no back-references"),
        (("--exclude", "/x/"), f"{seed} matches an --exclude, which wins"),
        (("--exclude", "a" * 1_001), "too long"),
        (("--host-limit", "0"), "at least 1"),
        (("--size-limit", "0"), "at least 1 byte"),
        (("--size-limit", "5G"), "must hold one body"),
    ):
        result = limpet("crawl", seed, *OWNED, *words, "--into", tmp_path / "crawl")
        assert result.code == 2
        assert complaint in result.complaint
        assert not (tmp_path / "crawl").exists()


def test_a_seed_that_is_added_may_not_be_excluded(tmp_path: Path) -> None:
    """`add` is held to the patterns of the crawl."""
    with plain_site() as sites:
        crawl = RawCrawl(tmp_path, sites, "--exclude", r"\.pdf$", *PATIENCE, config=CONFIG)
        result = limpet("add", crawl.folder, sites.url("site", "/x.pdf"))
        assert result.code == 2
        assert "matches an --exclude" in result.complaint


def test_hosts_that_become_owned_later_make_no_older_page_incomplete(tmp_path: Path) -> None:
    """`verify --links` knows that other rules said whose hosts were asked when the older pages were judged."""
    with Sites().sites as sites:
        home, cdn = (sites.authority(name).partition(":")[0] for name in ("home", "cdn"))
        words = ("--depth", "0", "--exclude", "/never/", *PATIENCE)
        crawl = RawCrawl(tmp_path, sites, *words, config=CONFIG, owned=(home,))
        assert crawl.result.json["rejected"]["not_owned"] == 4
        again, _ = crawl.run(*words, "--owned", cdn)
        assert again.code == 0
        assert crawl.verify() == crawl.audit() == []
        assert sites.connections("cdn") == 0
