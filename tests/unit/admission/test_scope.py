"""What belongs to a crawl."""

import msgspec
import pytest

from limpet.admission.scope import Scope, ScopeKind

SEEDS = (
    "http://www.example.org/docs/a.html?x=/y",
    "https://other.test:8443/",
    "http://[::1]:8080/v6/",
    "http://127.0.0.1/",
)


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("http://www.example.org/", True),
        ("https://example.org/x", True),
        ("https://www.example.org/", True),
        ("http://example.org:8080/", False),
        ("http://example.org:443/", False),
        ("http://sub.example.org/", False),
        ("http://example.org.evil.test/", False),
        ("http://www.www.example.org/", False),
        ("http://example.com/", False),
        ("https://other.test:8443/a", True),
        ("http://www.other.test:8443/a", True),
        ("https://other.test/a", False),
        ("http://[::1]:8080/", True),
        ("https://[::1]:8080/", True),
        ("http://[::1]/", False),
        ("http://127.0.0.1/", True),
        ("https://127.0.0.1/", True),
        ("http://127.0.0.1:80801/", False),
    ],
)
def test_host_scope(url: str, inside: bool) -> None:
    """Both schemes are one, www and apex are one; ports are both default or the same."""
    assert Scope(ScopeKind.HOST, SEEDS).admits(url) is inside


def test_host_scope_looks_both_ways_between_www_and_apex() -> None:
    """A seed at the apex admits www and the other way round; a bare top-level name is no apex."""
    assert Scope(ScopeKind.HOST, ("http://example.org/",)).admits("https://www.example.org/")
    assert Scope(ScopeKind.HOST, ("http://www.localhost/",)).admits("http://www.localhost/")
    assert not Scope(ScopeKind.HOST, ("http://www.localhost/",)).admits("http://localhost/")


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("https://a.b.example.org:81/", True),
        ("http://example.org/", True),
        ("http://example.com/", False),
        ("http://x.other.test/", True),
        ("http://[::1]/", True),
        ("http://[::2]/", False),
        ("http://127.0.0.1:9/", True),
        ("http://127.0.0.2/", False),
    ],
)
def test_domain_scope(url: str, inside: bool) -> None:
    """Every host and port under the registrable domain; an address is its own domain."""
    assert Scope(ScopeKind.DOMAIN, SEEDS).admits(url) is inside


def test_domain_scope_keeps_customers_of_a_platform_apart() -> None:
    """Private suffixes are suffixes."""
    scope = Scope(ScopeKind.DOMAIN, ("http://alice.github.io/",))
    assert scope.admits("https://www.alice.github.io/")
    assert not scope.admits("https://bob.github.io/")


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("https://example.org/docs/", True),
        ("https://example.org/docs/b/c?d", True),
        ("https://example.org/docs", False),
        ("https://example.org/docs?/", False),
        ("https://example.org/docsx/", False),
        ("https://example.org/", False),
        ("https://other.test:8443/any", True),
        ("http://[::1]:8080/v6/x", True),
        ("http://[::1]:8080/", False),
        ("http://example.com/docs/", False),
    ],
)
def test_prefix_scope(url: str, inside: bool) -> None:
    """The seed's path up to its last slash, its query aside, on its host class."""
    assert Scope(ScopeKind.PREFIX, SEEDS).admits(url) is inside


def test_prefix_scope_with_several_seeds_on_a_host() -> None:
    """Each seed opens its own folder."""
    scope = Scope(ScopeKind.PREFIX, ("http://h/a/x", "http://h/b/y"))
    assert [scope.admits(f"http://h/{x}/z") for x in "abc"] == [True, True, False]


def test_page_scope_is_the_seeds() -> None:
    """Nothing but what was asked for."""
    scope = Scope(ScopeKind.PAGE, SEEDS)
    assert all(scope.admits(seed) for seed in SEEDS)
    assert not scope.admits("http://www.example.org/docs/a.html")


def test_any_scope_is_the_web() -> None:
    """No bound."""
    assert Scope(ScopeKind.ANY, ()).admits("http://anything.test/")


@pytest.mark.parametrize("kind", [kind for kind in ScopeKind if kind is not ScopeKind.ANY])
def test_without_seeds_nothing_belongs(kind: ScopeKind) -> None:
    """An empty region is empty."""
    assert not Scope(kind, ()).admits("http://h/")


def test_a_redirected_seed_widens_the_region() -> None:
    """with_seed adds a seed and leaves the old region as it was."""
    scope = Scope(ScopeKind.HOST, ("http://h/",))
    wider = scope.with_seed("http://elsewhere.test/")
    assert wider.admits("http://elsewhere.test/x")
    assert not scope.admits("http://elsewhere.test/x")
    assert wider.with_seed("http://h/") is wider


def test_a_scope_is_stored_as_kind_and_seeds() -> None:
    """What is worked out from them is not part of it, asked or not."""
    scope = Scope(ScopeKind.HOST, SEEDS)
    assert scope.admits("http://www.example.org/")
    stored = msgspec.json.encode(scope)
    assert msgspec.json.decode(stored) == {"kind": "host", "seeds": list(SEEDS)}
    assert msgspec.json.decode(stored, type=Scope) == scope
