"""Names that others call, at the places they call them by."""

import pytest

import limpet.model
import limpet.robots


def test_urls_are_canonicalized_by_the_model() -> None:
    """`limpet.model.canonicalize(url, base)` and the error it raises."""
    assert limpet.model.canonicalize("HTTP://Example.org:80/a/../b?x#f") == "http://example.org/b?x"
    assert limpet.model.canonicalize("../c", "http://example.org/a/b/") == "http://example.org/a/c"
    with pytest.raises(limpet.model.InvalidUrl):
        limpet.model.canonicalize("mailto:me@example.org")


def test_robots_are_parsed_and_asked() -> None:
    """`limpet.robots.parse(body)` gives `Rules`, whose `allows(agent, url)` answers."""
    rules = limpet.robots.parse(b"User-agent: limpet\nDisallow: /x\n")
    assert isinstance(rules, limpet.robots.Rules)
    assert rules.allows("limpet", "http://example.org/y")
    assert not rules.allows("limpet", "http://example.org/x")
