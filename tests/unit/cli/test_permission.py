import msgspec
import pytest

from limpet.cli.permission import apply, bound_hosts, check_any, judge, parse_owned
from limpet.cli.seeds import Entry, check_entries
from limpet.config import Settings
from limpet.model.errors import UsageError

NAMES = {"intranet.example": ["10.1.2.3"], "mixed.example": ["10.1.2.3", "93.184.216.34"], "localhost": ["127.0.0.1"]}


def resolve(host: str) -> list[str]:
    """A resolver that knows three names."""
    return NAMES.get(host, ["93.184.216.34"])


def judged(urls: list[str], *, stored: tuple[str, ...] = (), owned: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Public hosts of a crawl from `urls`."""
    seeds = check_entries([Entry(url, "") for url in urls], 2048)
    return judge(seeds, stored, parse_owned(owned), resolve).public


def test_one_public_host_may_have_many_seeds() -> None:
    """Http and https, www and apex, any path: one host."""
    urls = ["http://example.org/", "https://www.example.org/a", "https://example.org/b"]
    assert judged(urls) == ("example.org",)


def test_two_public_hosts_are_refused_by_name() -> None:
    """A public crawl takes one seed host; the line names those given and the way out."""
    with pytest.raises(UsageError, match=r"takes one seed host, not 2 \(example\.net, example\.org\).*--owned"):
        judged(["http://example.org/", "http://example.net/"])


def test_an_owned_host_beside_a_public_one_makes_two() -> None:
    """One host that is not owned makes the whole crawl public."""
    with pytest.raises(UsageError, match=r"93\.example is not owned, so the crawl takes one seed host"):
        judged(["http://mine.example/", "http://93.example/"], owned=("mine.example",))


def test_owned_hosts_are_not_counted() -> None:
    """By name, by network, and by a name all of whose addresses are owned."""
    urls = ["http://mine.example/", "http://10.9.9.9/", "http://intranet.example:8080/"]
    assert judged(urls, owned=("mine.example", "10.0.0.0/8")) == ()
    assert judged(["http://mixed.example/"], owned=("10.0.0.0/8",)) == ("mixed.example",)


@pytest.mark.parametrize(
    ("url", "flag"),
    [
        ("http://127.0.0.1:8000/", "--owned 127.0.0.1"),
        ("http://10.1.2.3/", "--owned 10.1.2.3"),
        ("http://[::1]/", "--owned ::1"),
        ("http://169.254.169.254/latest/meta-data/", "--owned 169.254.169.254"),
        ("http://localhost:8000/", "--owned localhost"),
        ("http://app.localhost/", "--owned app.localhost"),
        ("http://2130706433/", "--owned 127.0.0.1"),
        ("http://example.org:22/", "--owned example.org"),
    ],
)
def test_what_the_gate_would_refuse_is_refused_with_the_flag(url: str, flag: str) -> None:
    """Private addresses in every spelling and ports below 1024 name the exact flag to add."""
    with pytest.raises(UsageError, match="would be refused") as caught:
        judged([url])
    assert str(caught.value).endswith(f"crawl it with {flag}")


def test_the_flag_that_the_refusal_names_is_enough() -> None:
    """Adding what the line said makes the crawl possible."""
    assert judged(["http://127.0.0.1:8000/"], owned=("127.0.0.1",)) == ()
    assert judged(["http://localhost:8000/"], owned=("localhost",)) == ()


def test_a_public_crawl_gets_no_second_host_later() -> None:
    """Adding to a stored public crawl is held to its seed hosts; more of the same host is fine."""
    stored = ("http://example.org/",)
    assert judged(["https://www.example.org/more"], stored=stored) == ("example.org",)
    assert judged([], stored=stored) == ("example.org",)
    for second in ("http://example.net/", "http://mine.example/"):
        with pytest.raises(UsageError, match="is on another host than this crawl's seeds"):
            judged([second], stored=stored, owned=("mine.example",))


def test_where_seeds_redirected_to_does_not_stop_a_resume() -> None:
    """Redirects of seeds are seeds too; they were admitted by the crawl itself."""
    assert judged([], stored=("http://example.org/", "http://example.net/")) == ("example.net", "example.org")


def test_a_public_crawl_is_slow_and_small_and_says_so() -> None:
    """Floor and pages are capped whatever was asked for; stricter wishes stand."""
    seeds = check_entries([Entry("http://example.org/", "")], 2048)
    permission = judge(seeds, (), parse_owned(()), resolve)
    settings, limit, lines = apply(permission, Settings(), None)
    assert (settings.politeness.floor_seconds, limit) == (5.0, 1000)
    assert len(lines) == 1
    assert "at most 1,000 pages of one host, at least 5 s apart" in lines[0]
    assert apply(permission, Settings(), 5000)[1] == 1000
    assert apply(permission, Settings(), 10)[1] == 10


def test_an_owned_crawl_is_as_asked() -> None:
    """No cap and no line for hosts of one's own."""
    seeds = check_entries([Entry("http://mine.example/", "")], 2048)
    permission = judge(seeds, (), parse_owned(("mine.example",)), resolve)
    assert apply(permission, Settings(), None) == (Settings(), None, [])


def test_scope_any_needs_a_contact_or_owned_hosts_and_an_end() -> None:
    """`any` leads to strangers, who must be able to reach us; everywhere it needs --limit or --depth."""
    public = judge(check_entries([Entry("http://example.org/", "")], 2048), (), parse_owned(()), resolve)
    with pytest.raises(UsageError, match="give a --contact"):
        check_any(public, ends=True, contact=False)
    with pytest.raises(UsageError, match="add --limit N or --depth N"):
        check_any(public, ends=False, contact=True)
    check_any(public, ends=True, contact=True)
    ours = judge(check_entries([Entry("http://m.example/", "")], 2048), (), parse_owned(("m.example",)), resolve)
    with pytest.raises(UsageError, match="add --limit N or --depth N"):
        check_any(ours, ends=False, contact=False)
    check_any(ours, ends=True, contact=False)


def test_a_bad_owned_entry_is_named() -> None:
    """The entry is quoted with the forms."""
    with pytest.raises(UsageError, match=r"'10\.0\.0\.0/99'.*write a host name, an address or a network"):
        parse_owned(("10.0.0.0/99",))


def test_a_name_owned_through_its_addresses_is_crawled_by_name() -> None:
    """At a send only names and addresses are compared: a name that resolves into an owned network joins the list."""
    seeds = check_entries([Entry("http://localhost:8000/", "")], 2048)
    permission = judge(seeds, (), parse_owned(("127.0.0.0/8",)), resolve)
    settings, _, _ = apply(permission, Settings(owned=("127.0.0.0/8",)), None)
    assert settings.owned == ("127.0.0.0/8", "localhost")


def test_a_contact_allows_many_public_hosts_at_the_ordinary_floor() -> None:
    """With the rule for reachable operators in force: a second host is taken, pages have no cap, 1 s is the least."""
    seeds = check_entries([Entry(url, "") for url in ("http://one.example/", "http://two.example/")], 2048)
    found = judge(seeds, (), parse_owned(()), resolve, many_public=True)
    assert found.public == ("one.example", "two.example")
    hasty = msgspec.structs.replace(Settings().politeness, floor_seconds=0.2)
    settings, limit, lines = apply(found, Settings(politeness=hasty), None, many_public=True)
    assert (settings.politeness.floor_seconds, limit, lines) == (1.0, None, [])


@pytest.mark.parametrize(
    ("url", "many_public", "expected"),
    [
        ("http://mine.example/", False, (True, False)),
        ("http://mine.example/", True, (True, False)),
        ("http://theirs.example/", False, (False, True)),
        ("http://theirs.example/", True, (False, False)),
    ],
)
def test_whom_a_run_may_ask_besides_its_seeds(url: str, many_public: bool, expected: tuple[bool, bool]) -> None:
    """One's own hosts, or the seeds', or everybody; whatever an earlier run of the crawl was given."""
    seeds = check_entries([Entry(url, "")], 2048)
    permission = judge(seeds, (), parse_owned(("mine.example",)), resolve, many_public=many_public)
    for owned_only, seeds_only in ((False, False), (True, True)):
        rules = msgspec.structs.replace(Settings().rules, owned_hosts_only=owned_only, seed_hosts_only=seeds_only)
        before = Settings(rules=rules)
        found = bound_hosts(permission, before, before, 7, many_public=many_public).rules
        assert (found.owned_hosts_only, found.seed_hosts_only) == expected
        assert found.hosts_since_us == (0 if (owned_only, seeds_only) == expected else 7)


def test_the_time_of_the_last_change_of_whom_a_run_may_ask_is_kept() -> None:
    """Another list of owned hosts is a change too; the same again, or other rates, is none."""
    seeds = check_entries([Entry("http://mine.example/", "")], 2048)
    permission = judge(seeds, (), parse_owned(("mine.example",)), resolve)
    first = bound_hosts(permission, Settings(owned=("mine.example",)), None, 1, many_public=False)
    again = bound_hosts(permission, first, first, 2, many_public=False)
    more = bound_hosts(permission, Settings(owned=("mine.example", "cdn.example")), again, 3, many_public=False)
    last = bound_hosts(permission, msgspec.structs.replace(more, min_free_bytes=1), more, 4, many_public=False)
    assert [one.rules.hosts_since_us for one in (first, again, more, last)] == [0, 0, 3, 3]
