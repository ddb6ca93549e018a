"""Whose hosts a crawl asks: rings in memory, under the settings that runs are given by whose seeds they have."""

import msgspec
import pytest

from crash.evidence import query
from crash.rehearsal import Rehearsal
from crash.world import Host, World, whole_web
from limpet.config.settings import Rules

OWNED = msgspec.structs.replace(whole_web().settings, owned=("xi.test",))


def moving_web(host: str) -> World:
    """The seed moves to another host, whose page needs something of a third."""
    page = '<img src="http://cdn.test/i.png"><a href="/more">more</a>'
    return World(
        name="moving",
        seeds=("http://xi.test/",),
        scope=whole_web().scope,
        hosts=[
            Host(name="xi.test", redirects={"/": f"http://{host}/"}),
            Host(name=host, documents={"/": ("text/html", page)}, pages={"/more": ()}),
            Host(name="cdn.test", documents={"/i.png": ("image/png", "i")}),
        ],
    )


def crawled(world: World, rules: Rules, *owned: str) -> tuple[set[str], dict[str, int]]:
    """URLs asked for, robots.txt left out, and links turned away by rule."""
    settings = msgspec.structs.replace(world.settings, rules=rules, owned=owned)
    with Rehearsal.of(msgspec.structs.replace(world, settings=settings)) as rehearsal:
        assert rehearsal.live().ending == "done"
        evidence = rehearsal.evidence()
        counts: dict[str, int] = {}
        for path in evidence.shard_files:
            for rule, count in query(path, "SELECT rule, count FROM reject"):
                counts[rule] = counts.get(rule, 0) + count
        return {visit.url for visit in evidence.visits if not visit.url.endswith("/robots.txt")}, counts


def hosts(asked: set[str]) -> set[str]:
    return {url.split("/")[2] for url in asked}


def test_without_a_contact_no_host_but_the_seeds_is_asked() -> None:
    """Not for robots.txt either; what pages need there is counted by name, and their own needs are met."""
    asked, counts = crawled(whole_web(), Rules(seed_hosts_only=True))
    assert hosts(asked) == {"xi.test"}
    assert {"http://xi.test/style.css", "http://xi.test/small.png", "http://xi.test/dot.png"} <= asked
    assert counts["no_contact"] == 2  # the image, and what the style sheet imports


def test_without_a_contact_a_seed_may_move_and_takes_the_crawl_along() -> None:
    """Where it leads is the one host then; what its page needs of a third one is left out."""
    asked, counts = crawled(moving_web("omicron.example"), Rules(seed_hosts_only=True))
    assert hosts(asked) == {"xi.test", "omicron.example"}
    assert counts["no_contact"] == 1


def test_a_crawl_of_owned_hosts_does_not_reach_out() -> None:
    """Neither for what a page needs nor where a seed moves to; a host that is named is one's own."""
    rules = Rules(owned_hosts_only=True)
    moved, counts = crawled(moving_web("omicron.example"), rules, "xi.test")
    assert (hosts(moved), counts["not_owned"]) == ({"xi.test"}, 1)
    asked, counts = crawled(moving_web("omicron.example"), rules, "xi.test", "omicron.example")
    assert hosts(asked) == {"xi.test", "omicron.example", "cdn.test"}  # .test is no name of the public web
    assert "not_owned" not in counts


@pytest.mark.parametrize("scope", ["domain", "any"])
def test_neither_rule_is_lifted_by_a_wide_scope(scope: str) -> None:
    """A scope says what belongs to a crawl, not whom it may bother."""
    world = moving_web("www.example")
    facts = msgspec.structs.replace(world.scope, kind=scope)
    home = Host(name="xi.test", pages={"/": ("http://a.xi.test/", "http://b.example/")})
    sites = [home, Host(name="a.xi.test", pages={"/": ()}), Host(name="b.example", pages={"/": ()})]
    world = msgspec.structs.replace(world, scope=facts, hosts=sites)
    asked, counts = crawled(world, Rules(seed_hosts_only=True))
    assert hosts(asked) == {"xi.test"}
    assert counts["no_contact"] == {"domain": 1, "any": 2}[scope]


def test_with_a_contact_what_pages_need_is_fetched_wherever_it_lies() -> None:
    """The plain rules: neither setting is on."""
    asked, counts = crawled(whole_web(), Rules())
    assert hosts(asked) == {"xi.test", "cdn.test"}
    assert not {"no_contact", "not_owned"} & counts.keys()
