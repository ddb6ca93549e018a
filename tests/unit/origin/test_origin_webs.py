"""The webs declare exactly what is in them."""

from collections import Counter
from collections.abc import Mapping

import pytest

from origin import WEBS, Web, make_web
from origin.walk import _visit, ask, walk
from origin.web import Option, options_of
from origin.wire import Request

SMALL: tuple[tuple[str, Mapping[str, Option]], ...] = (
    ("demo", {}),
    ("kill", {"pages": 400, "hosts": 12}),
    ("kill", {"pages": 30, "hosts": 3}),
    ("kill", {"pages": 7, "hosts": 1}),
    ("bench", {"hosts": 6, "pages": 30, "templates": 2}),
)


def _web(name: str, options: Mapping[str, Option], *, seed: int = 7) -> Web:
    return make_web(name, seed=seed, port=8080, **options)


@pytest.mark.parametrize("seed", [7, 8])
@pytest.mark.parametrize(("name", "options"), SMALL)
def test_what_is_found_is_what_is_declared(name: str, options: Mapping[str, Option], seed: int) -> None:
    """Following every link from the seeds finds each declared URL with its kind, and no other."""
    web = _web(name, options, seed=seed)
    assert walk(web) == web.expected()


@pytest.mark.parametrize(("name", "options"), SMALL)
def test_first_seed_leads_everywhere(name: str, options: Mapping[str, Option]) -> None:
    """With other hosts in scope the first seed finds the whole web."""
    web = _web(name, options)
    assert walk(web, seeds=web.seeds()[:1]) == web.expected()


@pytest.mark.parametrize(("name", "options"), SMALL)
def test_answers_follow_from_the_seed(name: str, options: Mapping[str, Option]) -> None:
    """Two builds of a web answer every URL alike; another seed changes something, save where text is fixed."""
    first, second, other = _web(name, options), _web(name, options), _web(name, options, seed=8)
    targets = [(url.split("/")[2].split(":")[0], "/" + url.split("/", 3)[3]) for url in first.expected()]
    assert [ask(first, *target) for target in targets] == [ask(second, *target) for target in targets]
    assert any(ask(first, *target) != ask(other, *target) for target in targets)


def test_kill_web_has_the_pages_asked_for() -> None:
    """Hosts share the number of pages out exactly, and every kind of URL occurs."""
    kinds = Counter(_web("kill", {}).expected().values())
    assert kinds["page"] == 2400
    assert min(kinds["redirect"], kinds["gone"], kinds["denied"]) > 50


def test_most_kill_pages_have_one_way_in() -> None:
    """Most pages are linked by one other page that is nearer to the root, so a lost link loses a page."""
    web = _web("kill", {"pages": 400, "hosts": 12})
    found = web.expected()
    ways: Counter[str] = Counter()
    for url in found:
        ways.update({link for link in _visit(web, url, 3)[1] if link != url})
    children_link_back = {url for url in found if f"{url}#" in url}
    assert not children_link_back
    leaves = [url for url, kind in found.items() if kind == "page" and ways[url] == 1]
    assert len(leaves) > 0.4 * 400


def test_kill_web_is_shallow() -> None:
    """No page lies deeper than the depth a crawler may limit itself to."""
    web = _web("kill", {"one_seed": True})
    depth = dict.fromkeys(web.seeds(), 0)
    level = list(depth)
    while level:
        following = []
        for url in level:
            for link in _visit(web, url, 3)[1]:
                if link not in depth:
                    depth[link] = depth[url] + 1
                    following.append(link)
        level = following
    assert depth.keys() == web.expected().keys()
    assert max(depth.values()) <= 15


def test_kill_web_gives_roles_to_its_last_hosts() -> None:
    """One host refuses its first page requests with Retry-After, never its robots.txt; two ask for a delay."""
    web = _web("kill", {"hosts": 8, "pages": 80, "busy_answers": 2})
    hosts = [url.split("/")[2].partition(":")[0] for url in web.seeds()]
    assert sum(web.rules(host).crawl_delay_seconds > 0 for host in hosts) == 2
    answers = [web.answer(Request("GET", target, hosts[-1], hosts[-1], {})) for target in ("/robots.txt", *"///")]
    assert [answer.status for answer in answers] == [200, 503, 503, 200]
    assert [answer.retry_after_seconds for answer in answers] == [None, 2.0, 2.0, None]


def test_demo_web_holds_a_page_in_windows_1251() -> None:
    """The notebook can be read with its declared charset only, and links a path outside ASCII."""
    status, headers, body = ask(_web("demo", {}), "127.0.0.4", "/notebook.html")
    assert (status, headers["content-type"]) == (200, "text/html; charset=windows-1251")
    assert "карты" in body.decode("windows-1251")
    with pytest.raises(UnicodeDecodeError):
        body.decode()


def test_demo_robots_names_a_decoy_first() -> None:
    """A robots.txt holds a group for someone else, so reading the wrong group shows."""
    text = ask(_web("demo", {}), "127.0.0.2", "/robots.txt")[2].decode()
    assert text == "User-agent: decoy-bot\nDisallow: /\n\nUser-agent: *\nDisallow: /office/\n"


@pytest.mark.parametrize("name", sorted(WEBS))
def test_unknown_hosts_and_targets_are_not_found(name: str) -> None:
    """Whatever is asked, a web answers; what it does not have is 404."""
    web = _web(name, {})
    host = web.seeds()[0].split("/")[2].partition(":")[0]
    for target in ("/no", "*", "", "http://x/", "/page/-1.html", "/go/99999", "/notes/٣٣٣٣٣٣٣.html", "/page/²"):
        assert web.answer(Request("GET", target, host, host, {})).status == 404
    assert web.answer(Request("GET", "/", "127.9.9.9", "127.9.9.9", {})).status == 404


def test_unknown_options_are_named() -> None:
    """A wrong web or option is refused with what there is instead."""
    with pytest.raises(ValueError, match="unknown web 'www'; there are: bench, demo, kill, rude"):
        make_web("www", seed=1, port=1)
    with pytest.raises(ValueError, match="web 'demo' has no option 'pages'; it has: none"):
        make_web("demo", seed=1, port=1, pages=3)
    assert options_of(WEBS["kill"])["pages"] == 2400
